# SPDX-License-Identifier: Apache-2.0
"""How a host notices what happens behind our back, and how it takes up its work after a start.

What a workflow believes to be up is compared with what Podman has. A container's death is told at once by a pidfd on its main
process; a list every few seconds is the truth, and finds what no pidfd can tell (a removal, a worker that was away). Nothing
here starts or stops a container of a workload: it only tells, by ``observe`` signals. The one exception is an orphan: a container
that was made for this very Temporal server, and whose workload it, asked twice, does not know.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.engine import Engine, EngineFault, Managed
from activities.fence import Fence
from activities.recovery import Known, describe_open, known_workloads, release_lost_attempts
from perdure.model.messages import RetryRequest
from perdure.model.observation import ContainerState, Live, Observation
from perdure.model.states import Substate
from perdure.wire import names

logger = logging.getLogger(__name__)

LIST_EVERY = timedelta(seconds=10)
"""What no pidfd tells is noticed after this long; one list of 50 containers costs 40 ms of CPU."""
RESYNC_EVERY = timedelta(minutes=5)
RESYNC_JITTER = 0.2
SETTLE = timedelta(seconds=2)
"""Podman may call a container running for a moment after its process has died."""
LOOK_AGAIN = timedelta(milliseconds=25)
TROUBLE_WAIT = timedelta(seconds=2)
ORPHAN_GRACE = timedelta(seconds=10)

_ENDED = (ContainerState.EXITED, ContainerState.DEAD, ContainerState.MISSING)
_NOT_UP = (*_ENDED, ContainerState.PAUSED)
"""A container that somebody paused by hand does no work, and is not what the manifest says."""


@dataclass(frozen=True, slots=True)
class _Believed:
    """A container that a workflow takes to be up."""

    container_id: str
    generation: int


class Watch:
    """Watches the containers of one host, from the start of its worker to its end."""

    def __init__(self, client: Client, engine: Engine, host: str, fence: Fence, fleet_id: str) -> None:
        self._client = client
        self._engine = engine
        self._host = host
        self._fence = fence
        self._fleet_id = fleet_id
        self._believed: dict[str, _Believed] = {}
        self._pidfds: dict[str, int] = {}
        self._checked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what the activities tell ----

    def started(self, workload: str, live: Live) -> None:
        """A container runs; its workflow will believe so."""
        self._believed[workload] = _Believed(live.container_id, live.generation)
        if not self._follow(workload, live.container_id, live.pid):
            self._check_soon(workload)

    def removed(self, workload: str) -> None:
        """Nothing of a workload is left, by its own wish."""
        self._believed.pop(workload, None)

    # ---- its life ----

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch in the background. The fence is filled before this begins: no stale attempt may come first."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            for background in self._tasks:
                background.cancel()
            await asyncio.gather(task, *self._tasks, return_exceptions=True)
            for container_id in list(self._pidfds):
                self._unfollow(container_id)

    async def _run(self) -> None:
        resync_at = datetime.now(UTC)
        woken = False
        while True:
            try:
                if datetime.now(UTC) >= resync_at:
                    await self.resync()
                    if not woken:
                        await self._wake_parked()
                        woken = True
                    spread = random.uniform(1 - RESYNC_JITTER, 1 + RESYNC_JITTER)  # noqa: S311 - no secret depends on it
                    resync_at = datetime.now(UTC) + RESYNC_EVERY * spread
                else:
                    self._compare(await self._list())
            except (EngineFault, RPCError) as error:
                logger.warning("the host could not be looked at", extra={"host": self._host, "cause": str(error)})
                await asyncio.sleep(TROUBLE_WAIT.total_seconds())
            else:
                await asyncio.sleep(LIST_EVERY.total_seconds())

    async def resync(self) -> None:
        """Drop what is believed, and start from what Temporal wants and Podman has."""
        known = await known_workloads(self._client, self._host)
        await release_lost_attempts(self._client, self._host, known.values())
        containers = await self._list()
        for name, workload in known.items():
            if workload.status.live is not None and name not in self._believed:
                self._believed[name] = _Believed(workload.status.live.container_id, workload.status.generation)
        self._compare(containers)
        self._remove_orphans(containers, known)

    async def _wake_parked(self) -> None:
        """A worker that starts may have brought the cure (another Podman, another CPU): parked workloads are tried again."""
        for name, workload in (await known_workloads(self._client, self._host)).items():
            if workload.status.substate in (Substate.REJECTED, Substate.GAVE_UP):
                await self._signal(name, names.RETRY_NOW, RetryRequest(reason="the host's worker was started"))

    async def _list(self) -> list[Managed]:
        return await self._engine.list_managed(self._client.namespace, self._host)

    def _compare(self, containers: list[Managed]) -> None:
        """Look closer at every container that is believed to be up and is not, and follow those that are."""
        by_id = {container.container_id: container for container in containers}
        for name, believed in list(self._believed.items()):
            container = by_id.get(believed.container_id)
            if container is None or container.state in _NOT_UP:
                self._check_soon(name)
            else:
                self._follow(name, container.container_id, container.pid)
        for container_id in set(self._pidfds) - set(by_id):
            self._unfollow(container_id)

    def _check_soon(self, workload: str) -> None:
        """Check in the background, once at a time: one workload that is slow to stop must not keep the others from being seen."""
        if workload not in self._checked:
            self._checked.add(workload)
            self._spawn(self._check_once(workload))

    async def _check_once(self, workload: str) -> None:
        try:
            await self._check(workload)
        finally:
            self._checked.discard(workload)

    async def _check(self, workload: str) -> None:
        """Tell the workflow if its container is not up, seen while nobody changes it."""
        async with self._fence.alone(workload):
            believed = self._believed.get(workload)
            if believed is None:
                return
            seen = await self._look(workload, believed)
            if seen is None:
                return
            if await self._signal(workload, names.OBSERVE, seen):
                self._believed.pop(workload, None)
                self._unfollow(believed.container_id)

    async def _look(self, workload: str, believed: _Believed) -> Observation | None:
        """What became of a container; None while it runs."""
        give_up = datetime.now(UTC) + SETTLE
        while True:
            now = datetime.now(UTC)
            found = await self._engine.list_managed(self._client.namespace, self._host, workload)
            container = next((one for one in found if one.container_id == believed.container_id), None)
            state = container.state if container else ContainerState.MISSING
            if state not in _NOT_UP:
                return None
            if state is ContainerState.DEAD and now < give_up:
                await asyncio.sleep(LOOK_AGAIN.total_seconds())
                continue
            return Observation(
                container_id=believed.container_id,
                generation=believed.generation,
                state=state,
                exit=container.exit if container else None,
                started_at=container.started_at if container else None,
                seen_at=now,
                reason="the container is missing" if container is None else "",
            )

    async def _signal(self, workload: str, signal: str, argument: object) -> bool:
        """Answers whether the workload knows now, or is not there to know."""
        handle = self._client.get_workflow_handle(names.workload_id(self._host, workload))
        try:
            await handle.signal(signal, argument, rpc_timeout=timedelta(seconds=5))
        except RPCError as error:
            logger.warning(
                "a workload could not be told", extra={"workload": workload, "signal": signal, "cause": str(error)}
            )
            return error.status is RPCStatusCode.NOT_FOUND
        return True

    def _remove_orphans(self, containers: list[Managed], known: dict[str, Known]) -> None:
        """Remove what no workload wants. The list of workloads may lag behind: each is asked for by name before."""
        strange = {one.owner.workload for one in containers if one.owner.fleet_id != self._fleet_id} - set(known)
        if strange:
            logger.warning(
                "containers of workloads of another Temporal server are left alone: this one cannot know whether they are wanted",
                extra={"host": self._host, "workloads": sorted(strange)},
            )
        for name in sorted({container.owner.workload for container in containers} - set(known) - strange):
            self._spawn(self._remove_orphan(name))

    async def _remove_orphan(self, workload: str) -> None:
        async with self._fence.alone(workload):
            if await describe_open(self._client, self._host, workload) is not None:
                return
            logger.warning("an orphan is removed", extra={"host": self._host, "workload": workload})
            await self._engine.ensure_absent(self._client.namespace, self._host, workload, ORPHAN_GRACE)
            self._believed.pop(workload, None)

    # ---- pidfds ----

    def _follow(self, workload: str, container_id: str, pid: int) -> bool:
        """Answers whether its end will be noticed at once; else it has just ended, or its pid is of another namespace."""
        if container_id in self._pidfds:
            return True
        if not pid:
            return False
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        self._pidfds[container_id] = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._died, workload, container_id)
        return True

    def _died(self, workload: str, container_id: str) -> None:
        self._unfollow(container_id)
        self._check_soon(workload)

    def _unfollow(self, container_id: str) -> None:
        pidfd = self._pidfds.pop(container_id, None)
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background; what fails is made up for by the next list."""
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (EngineFault, RPCError) as error:
            logger.warning("a container could not be looked at", extra={"host": self._host, "cause": str(error)})
