# SPDX-License-Identifier: Apache-2.0
"""A workload whose history no code can replay is found and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.watchdog import Watchdog
from perdure.model.host import HostState, WorkerInfo
from perdure.model.host_record import HostRecord
from perdure.model.messages import ApplyRequest, AttemptOutcome, Outcome
from perdure.model.record import Record
from perdure.wire import names
from tests.fakes.engine import FakeEngine
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async
from tests.workflow.attendance import Attendance
from tests.workflow.conftest import terminate_all
from tests.workflow.fleet import HOST, Fleet, fleet_of, spec


@workflow.defn(name=names.WORKLOAD_WORKFLOW)
class Impostor:
    """Takes applies as the real one does, and writes a history that the real one never would."""

    def __init__(self) -> None:
        self.applied = 0

    @workflow.signal(name=names.APPLY)
    def apply(self, request: ApplyRequest) -> None:
        """Count."""
        self.applied += 1

    @workflow.update(name=names.FIRST_ATTEMPT)
    async def first_attempt(self, apply_id: str) -> AttemptOutcome:
        """Never answer."""
        await workflow.wait_condition(lambda: False)
        raise AssertionError

    @workflow.run
    async def run(self, carried: Record | None) -> None:
        """Sleep where the real one acts."""
        await workflow.sleep(timedelta(milliseconds=10), summary="not what the real one does")
        await workflow.wait_condition(lambda: self.applied > 99)


@pytest.fixture(scope="module")
def watchful_server() -> Iterator[TemporalServer]:
    """A server that reports a problem after two failures in a row."""
    setting = "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2"
    with TemporalServer(dynamic_config=(setting,)) as server:
        yield server


async def test_a_workload_that_cannot_be_replayed_gets_a_new_run(
    watchful_server: TemporalServer, engine: FakeEngine
) -> None:
    """Everything that was asked of it is kept, and what others do is not disturbed."""
    client: Client = await watchful_server.connect()
    environment = WorkflowEnvironment.from_client(client)
    fleet = Fleet(environment, engine)
    async with Worker(
        client, task_queue=names.CONTROL_QUEUE, workflows=[Impostor], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        await fleet.send("stuck", spec("reg/app:1"), revision=1)
        await fleet.send("stuck", spec("reg/app:2"), revision=2)
        await asyncio.sleep(1)
    async with fleet_of(environment, engine) as fleet:
        assert (await fleet.apply("fine", spec("reg/app:1"))).outcome == "running"
        fine = (await fleet.handle("fine").describe()).run_id
        await fleet.send("stuck", spec("reg/app:3"), revision=3)
        watchdog = Watchdog(client, failures=2)
        async with asyncio.timeout(60):
            while not await watchdog.look():
                await asyncio.sleep(0.5)
        status = await fleet.until("stuck", "Running/Ok", within=30)
        assert (status.image, status.revision, status.generation) == ("reg/app:3", 3, 3)
        assert (await fleet.handle("fine").describe()).run_id == fine
        assert await watchdog.look() == 0
    await terminate_all(client)


@workflow.defn(name=names.HOST_WORKFLOW)
class ImpostorHost:
    """Takes signs as the real one does, and writes a history that the real one never would."""

    @workflow.signal(name=names.WORKER_STARTED)
    def worker_started(self, worker: WorkerInfo) -> None:
        """Ignore it."""

    @workflow.run
    async def run(self, carried: HostRecord | None) -> None:
        """Sleep where the real one acts."""
        await workflow.sleep(timedelta(milliseconds=10), summary="not what the real one does")
        await workflow.wait_condition(lambda: False)


async def test_a_host_that_cannot_be_replayed_gets_a_new_run(
    watchful_server: TemporalServer, engine: FakeEngine
) -> None:
    """Else it would never be lost, and never be back."""
    client: Client = await watchful_server.connect()
    environment = WorkflowEnvironment.from_client(client)
    attendance = Attendance(client, HOST)
    async with Worker(
        client, task_queue=names.CONTROL_QUEUE, workflows=[ImpostorHost], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        await attendance.start(1)
        await asyncio.sleep(0.5)
    async with fleet_of(environment, engine) as fleet:
        await attendance.start(2)
        watchdog = Watchdog(client, failures=2)
        async with asyncio.timeout(60):
            while not await watchdog.look():
                await asyncio.sleep(0.5)

        async def is_ready() -> bool:
            status = await fleet.host_status()
            return status.state is HostState.READY

        await eventually_async(is_ready, within=30, what="the host answers")
    await terminate_all(client)


async def test_a_new_run_adopts_the_container(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The incarnation is the same, so nothing is restarted."""
    await real_fleet.apply("web", spec("reg/app:1"))
    before = await real_fleet.status("web")
    (container,) = engine.running("web")
    run = (await real_fleet.handle("web").describe()).run_id
    await Watchdog(real_fleet.client)._reset(names.workload_id(HOST, "web"), run, first_task=4)

    async def new_run() -> bool:
        return (await real_fleet.handle("web").describe()).run_id != run

    await eventually_async(new_run, within=10, what="it has a new run")
    status = await real_fleet.until("web", "Running/Ok")
    assert status.incarnation == before.incarnation
    assert engine.running("web") == [container]
    assert (await real_fleet.apply("web", spec("reg/app:1"))).outcome == "unchanged"


@pytest.mark.parametrize("name", [names.APPLY, names.RETRY_NOW, names.REPORT, names.OBSERVE, names.HOST_CHANGED])
async def test_a_signal_without_its_argument_harms_nobody(real_fleet: Fleet, engine: FakeEngine, name: str) -> None:
    """The Web UI sends one at a click. It must not fail the workflow's task, for no reset would get rid of it."""
    engine.images |= {"reg/app:1", "reg/app:2"}
    await real_fleet.apply("web", spec("reg/app:1"))
    await real_fleet.signal("web", name)
    await real_fleet.signal("web", name, None)
    assert (await asyncio.wait_for(real_fleet.apply("web", spec("reg/app:2")), 20)).outcome is Outcome.RUNNING
