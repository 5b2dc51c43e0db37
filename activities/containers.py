# SPDX-License-Identifier: Apache-2.0
"""The three activities of a host: ensure, pull and stop. Each is one try; ``activities.attempt`` does what surrounds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.attempt import Attempt
from activities.engine import Engine, EngineFault, Ownership, Pulled, PullProgress
from activities.fence import Fence
from activities.notes import Notes
from activities.pull_slots import Slots
from activities.wake import Wake
from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.observation import LastExit, Live
from perdure.model.workload import PullPolicy
from perdure.wire import names
from perdure.wire.contract import (
    EnsureRequest,
    EnsureResult,
    PullRequest,
    PullResult,
    StopRequest,
    StopResult,
)

logger = logging.getLogger(__name__)

WAITS_TO_PULL = "waiting for a pull slot"
WAITS_TO_START = "waiting for a start slot"

_MIB = 1024 * 1024


class ContainerActivities:
    """What one host does for its workloads, on one engine."""

    def __init__(
        self,
        client: Client,
        engine: Engine,
        *,
        fence: Fence,
        on_running: Callable[[str, Live], None],
        on_removed: Callable[[str], None],
        fleet_id: str = "",
        wake: Wake | None = None,
        slots: Slots | None = None,
    ) -> None:
        self._client = client
        self._engine = engine
        self._notes = Notes()
        self._fence = fence
        self._fleet_id = fleet_id
        self._on_running = on_running
        self._on_removed = on_removed
        self._wake = wake
        self._slots = slots or Slots.of(pulls=5, starts=4)

    @activity.defn(name=names.ENSURE)
    async def ensure(self, request: EnsureRequest) -> EnsureResult:
        """Make the container of a generation the only one of its workload, running; live=None where a pull is due."""
        attempt = Attempt(self._client, self._notes, self._wake, ticket=request.ticket, phase=Phase.START)

        async def work() -> EnsureResult:
            async with AsyncExitStack() as held:
                if not attempt.is_first:
                    await held.enter_async_context(self._slots.late_starts.hold(partial(attempt.tell, WAITS_TO_START)))
                    attempt.tell("")
                await held.enter_async_context(self._fence.admit(request.ticket, Phase.START))
                return await self._ensure(request)

        return await attempt.make(work, yields_to_shutdown=False)

    async def _ensure(self, request: EnsureRequest) -> EnsureResult:
        ticket = request.ticket
        owner = Ownership(
            fleet=self._client.namespace,
            host=ticket.host,
            workload=ticket.name,
            incarnation=ticket.incarnation,
            generation=ticket.generation,
            spec_hash=request.spec_hash,
            restart=request.spec.model_dump_json(include={"restart", "restart_backoff"}),
            manifest=request.manifest,
            fleet_id=self._fleet_id,
        )
        ended = await self._end_unwanted(request)
        try:
            live = await self._engine.ensure_running(ticket.name, request.spec.container, owner)
        except EngineFault as raised:
            missing = raised.fault.kind is FaultKind.IMAGE_MISSING
            if missing and request.spec.pull_policy is not PullPolicy.NEVER:
                return EnsureResult(live=None)
            raise
        self._on_running(ticket.name, live)
        return EnsureResult(live=live, ended=ended)

    async def _end_unwanted(self, request: EnsureRequest) -> LastExit | None:
        """End the run that is not wanted any more, unless it is over; answers how it ended while nothing was started since."""
        run = request.unwanted_run
        if run is None:
            return None
        if await self._engine.end_run(run, request.spec.container.stop.timeout):
            logger.info("an unhealthy container is restarted", extra={"workload": request.ticket.name})
        return await self._engine.exit_of(run.container_id)

    @activity.defn(name=names.PULL)
    async def pull(self, request: PullRequest) -> PullResult:
        """Fetch an image. Where policy is ``newer`` a local image is good enough if the registry cannot be asked."""
        attempt = Attempt(
            self._client, self._notes, self._wake, ticket=request.ticket, phase=Phase.PULL, image=request.image
        )

        async def work() -> PullResult:
            if request.policy is PullPolicy.MISSING and await self._engine.has_image(request.image):
                return PullResult(image_id="", digest="")
            try:
                pulled = await self._fetch(request, attempt)
            except EngineFault as raised:
                if request.policy is PullPolicy.NEWER and await self._is_good_enough(request, raised.fault):
                    return PullResult(image_id="", digest="", warning=_not_refreshed(request.image, raised.fault))
                raise
            return PullResult(image_id=pulled.image_id, digest=pulled.digest, warning=pulled.warning)

        return await attempt.make(work, yields_to_shutdown=True)

    async def _fetch(self, request: PullRequest, attempt: Attempt) -> Pulled:
        """Pull when it is this image's turn; not at all while its registry is known to be away."""
        image = request.image
        await self._refuse_if_away(request, attempt)
        waited = asyncio.Event()

        def wait() -> None:
            waited.set()
            attempt.tell(WAITS_TO_PULL)

        async with self._slots.pulls.hold(image, is_first=attempt.is_first, on_wait=wait) as place:
            if waited.is_set():
                attempt.tell("")
                await self._refuse_if_away(request, attempt)

            def progress(so_far: PullProgress) -> None:
                place.progressed()
                attempt.tell(describe_progress(so_far))

            if self._wake is None:
                return await self._engine.pull(image, progress)
            self._wake.breaker.pulling(image)
            pulled = await self._engine.pull(image, progress)
        self._wake.breaker.pulled(image)
        return pulled

    async def _refuse_if_away(self, request: PullRequest, attempt: Attempt) -> None:
        if self._wake is not None:
            await self._wake.breaker.refuse(
                request.ticket, request.image, attempt.number, is_first=attempt.is_first, is_asked=attempt.is_asked
            )

    async def _is_good_enough(self, request: PullRequest, fault: Fault) -> bool:
        return fault.fault_class is FaultClass.TRANSIENT and await self._engine.has_image(request.image)

    @activity.defn(name=names.STOP)
    async def stop(self, request: StopRequest) -> StopResult:
        """Remove every container of a workload."""
        attempt = Attempt(self._client, self._notes, self._wake, ticket=request.ticket, phase=Phase.STOP)

        async def work() -> StopResult:
            async with self._fence.admit(request.ticket, Phase.STOP):
                host, name = request.ticket.host, request.ticket.name
                removed = await self._engine.ensure_absent(
                    self._client.namespace, host, name, request.grace, fleet_id=self._fleet_id
                )
                self._on_removed(name)
                return StopResult(removed=removed)

        return await attempt.make(work, yields_to_shutdown=False)


async def current_incarnation(client: Client, host: str, name: str) -> str | None:
    """The incarnation of a workload as Temporal knows it now; None where there is none.

    Raises:
        EngineFault: Temporal cannot be asked.
    """
    try:
        description = await client.get_workflow_handle(names.workload_id(host, name)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise EngineFault(
            Fault(
                kind=FaultKind.INTERNAL,
                fault_class=FaultClass.TRANSIENT,
                phase=Phase.START,
                message=f"the Temporal server could not be asked which incarnation of {host}/{name} is the present one: {error}",
                hint="it is tried again",
            )
        ) from error
    status = await description.memo_value(names.MEMO_STATUS, None)
    incarnation = status.get("incarnation") if isinstance(status, dict) else None
    return str(incarnation) if incarnation else None


def describe_progress(so_far: PullProgress) -> str:
    """For example "34 of 156 MiB"."""
    done = so_far.done_bytes // _MIB
    if not so_far.total_bytes:
        return so_far.detail
    return f"{done} of {-(-so_far.total_bytes // _MIB)} MiB"


def _not_refreshed(image: str, fault: Fault) -> str:
    return f"{image} could not be refreshed, the local one is used: {fault.kind}: {fault.message}"
