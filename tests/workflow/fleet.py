# SPDX-License-Identifier: Apache-2.0
"""A fleet of one host for workflow tests: real workers and the real activities, on an engine in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.containers import ContainerActivities, current_incarnation
from activities.control import ControlActivities
from activities.dependencies import PACE, DependencyActivities, Pace
from activities.fence import Fence
from activities.tidings import Tidings
from activities.wake import Wake
from perdure.model.host import HostState, HostStatus
from perdure.model.messages import ApplyRequest, AttemptOutcome, RetryRequest
from perdure.model.observation import ContainerState, Live, Observation
from perdure.model.status import WorkloadStatus
from perdure.model.workload import ContainerSpec, WorkloadSpec
from perdure.wire import names
from tests.fakes.engine import FakeEngine
from tests.support.waiting import eventually_async
from tests.workflow.attendance import Attendance
from workflows.host import HostWorkflow
from workflows.workload import WorkloadWorkflow

HOST = "edge-1"
A_MOMENT = timedelta(milliseconds=100)
"""Passes between two looks. The time-skipping server may hand a task to a poll that a leap of its time ended: time must go on."""


def spec(image: str = "reg/app:1", **settings: Any) -> WorkloadSpec:
    """A workload of one image; container options go in ``container``."""
    container = settings.pop("container", {})
    return WorkloadSpec(container=ContainerSpec(image=image, **container), **settings)


class Fleet:
    """What a test does to a fleet, and what it sees of it."""

    def __init__(self, environment: WorkflowEnvironment, engine: FakeEngine) -> None:
        self.environment = environment
        self.client: Client = environment.client
        self.engine = engine
        self.host_up = True
        self.hosts_away: set[str] = set()
        self.host_seen_at: datetime | None = None
        self.live: dict[str, Live] = {}
        self.attendance = Attendance(self.client, HOST)
        self.give_up_after: timedelta | None = None

    # ---- what users do ----

    async def send(self, name: str, wanted: WorkloadSpec, **request: Any) -> str:
        """Apply by signal-with-start; answers the apply id."""
        apply_id: str = request.pop("apply_id", uuid.uuid4().hex)
        host: str = request.pop("host", HOST)
        await self.client.start_workflow(
            names.WORKLOAD_WORKFLOW,
            args=[None],
            id=names.workload_id(host, name),
            task_queue=names.CONTROL_QUEUE,
            start_signal=names.APPLY,
            start_signal_args=[ApplyRequest(apply_id=apply_id, spec=wanted, **request)],
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=timedelta(seconds=2),
        )
        return apply_id

    async def first_attempt(self, name: str, apply_id: str) -> AttemptOutcome:
        """Wait for the result of the first attempt, through changes of the run."""
        while True:
            outcome: AttemptOutcome = await self.handle(name).execute_update(
                names.FIRST_ATTEMPT, apply_id, id=f"first-{apply_id}", result_type=AttemptOutcome
            )
            if outcome.outcome != "moved":
                return outcome

    async def apply(self, name: str, wanted: WorkloadSpec, **request: Any) -> AttemptOutcome:
        """Apply, and wait for the first attempt."""
        return await self.first_attempt(name, await self.send(name, wanted, **request))

    async def signal(self, name: str, signal: str, *arguments: Any) -> None:
        """Send a signal."""
        await self.handle(name).signal(signal, args=arguments)

    async def retry(self, name: str, attempt: int = 0) -> None:
        """Ask for a try now."""
        await self.signal(name, names.RETRY_NOW, RetryRequest(reason="a test", attempt=attempt))

    # ---- what happens on the host ----

    async def container_ended(self, name: str, code: int) -> None:
        """The workload's container ends, and the host notices."""
        ended = self.engine.end(name, code)
        await self._observe(name, ended.container_id, ContainerState.EXITED, exit=ended.exit)

    async def container_vanished(self, name: str) -> None:
        """Somebody removes the container, and the host notices."""
        (one,) = self.engine.running(name)
        del self.engine.containers[one.container_id]
        await self._observe(name, one.container_id, ContainerState.MISSING)

    async def _observe(self, name: str, container_id: str, state: ContainerState, **more: Any) -> None:
        now = await self.environment.get_current_time()
        seen = Observation(container_id=container_id, generation=1, state=state, seen_at=now, **more)
        await self.signal(name, names.OBSERVE, seen)

    def forget(self, name: str) -> None:
        """Nothing is left of a workload."""
        self.live.pop(name, None)

    # ---- what can be seen ----

    def handle(self, name: str) -> WorkflowHandle[Any, Any]:
        """The latest run of a workload."""
        return self.client.get_workflow_handle(names.workload_id(HOST, name))

    async def status(self, name: str) -> WorkloadStatus:
        """The status in the memo, as our programs read it."""
        description = await self.handle(name).describe()
        found = await description.memo_value(names.MEMO_STATUS, None)
        assert found is not None, f"{name} has told nothing yet"
        return WorkloadStatus.model_validate(found)

    def host_handle(self, host: str = HOST) -> WorkflowHandle[Any, Any]:
        """The latest run of a host."""
        return self.client.get_workflow_handle(names.host_id(host))

    async def host_status(self, host: str = HOST) -> HostStatus:
        """The status in the memo of a host, as our programs read it."""
        found = await (await self.host_handle(host).describe()).memo_value(names.MEMO_STATUS, None)
        assert found is not None, f"{host} has told nothing yet"
        return HostStatus.model_validate(found)

    async def until_host(self, wanted: HostState, host: str = HOST, within: float = 15) -> HostStatus:
        """Wait until a host is in a state."""

        async def look() -> HostStatus:
            found = await self.host_status(host)
            assert found.state is wanted, found.model_dump_json()
            return found

        return await eventually_async(look, within=within, what=f"host {host} is {wanted}")

    async def until(self, name: str, wanted: str, within: float = 15) -> WorkloadStatus:
        """Wait until the status reads, for example, "Pending/PullBackoff"."""

        async def look() -> WorkloadStatus:
            await self.environment.sleep(A_MOMENT)
            found = await self.status(name)
            assert f"{found.state}/{found.substate}" == wanted, found.model_dump_json(exclude={"history"})
            return found

        return await eventually_async(look, within=within, what=f"{name} is {wanted}")

    async def that_it_waits_for(self, name: str, *unmet: str, within: float = 15) -> WorkloadStatus:
        """Wait until a workload says that it waits for these."""

        async def look() -> WorkloadStatus:
            await self.environment.sleep(A_MOMENT)
            found = await self.status(name)
            assert found.waiting_on == unmet, found.model_dump_json(exclude={"history"})
            return found

        return await eventually_async(look, within=within, what=f"{name} waits for {unmet}")

    async def that(self, claim: Callable[[], bool], what: str, within: float = 15) -> None:
        """Wait until a claim holds."""

        async def look() -> bool:
            await self.environment.sleep(A_MOMENT)
            return claim()

        await eventually_async(look, within=within, what=what)

    async def events(self, name: str) -> int:
        """How many events the history of the latest run has."""
        return len([event async for event in self.handle(name).fetch_history_events()])

    async def runs(self, name: str) -> int:
        """How many runs a workload has had."""
        query = f'WorkflowId="{names.workload_id(HOST, name)}"'
        return (await self.client.count_workflows(query)).count

    async def that_run_is_at_least(self, name: str, number: int) -> None:
        """Wait until a workload is in a later run."""

        async def look() -> bool:
            return await self.runs(name) >= number

        await eventually_async(look, within=30, what=f"{name} is in run {number}")

    async def last_sign(self, queue: str) -> tuple[bool, datetime | None]:
        """What the control worker is told of a host."""
        return self.host_up and names.host_of_queue(queue) not in self.hosts_away, self.host_seen_at


@asynccontextmanager
async def fleet_of(
    environment: WorkflowEnvironment,
    engine: FakeEngine,
    *,
    host: bool = True,
    give_up_after: timedelta | None = None,
    pace: Pace = PACE,
) -> AsyncIterator[Fleet]:
    """Start the workers of a fleet."""
    fleet = Fleet(environment, engine)
    async with AsyncExitStack() as workers:
        control = ControlActivities(environment.client, last_sign=fleet.last_sign, give_up_after=give_up_after)
        await workers.enter_async_context(
            Worker(
                environment.client,
                task_queue=names.CONTROL_QUEUE,
                workflows=[WorkloadWorkflow, HostWorkflow],
                activities=[
                    control.host_presence,
                    control.central_defaults,
                    DependencyActivities(environment.client, pace).dependencies,
                    Tidings(environment.client).tell_workloads,
                ],
            )
        )
        if host:
            await workers.enter_async_context(host_workers(fleet))
        yield fleet
        await asyncio.sleep(0)


@asynccontextmanager
async def host_workers(fleet: Fleet, host: str = HOST, *, wake: Wake | None = None) -> AsyncIterator[None]:
    """The two workers of a host."""
    present = fleet.attendance if host == HOST else Attendance(fleet.client, host)
    fence = Fence(partial(current_incarnation, fleet.client, host))
    work = ContainerActivities(
        fleet.client,
        fleet.engine,
        fence=fence,
        on_running=fleet.live.__setitem__,
        on_removed=fleet.forget,
        wake=wake,
    )
    throttle = timedelta(milliseconds=200)
    worker = partial(
        Worker,
        fleet.client,
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
    )
    async with (
        worker(
            task_queue=names.host_queue(host), activities=[work.ensure, work.stop, present.supervise, present.resync]
        ),
        worker(task_queue=names.pull_queue(host), activities=[work.pull]),
        wake.running() if wake else nullcontext(),
    ):
        yield
