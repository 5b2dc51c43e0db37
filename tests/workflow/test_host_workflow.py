# SPDX-License-Identifier: Apache-2.0
"""The workflow of a host: which worker it believes, when it is lost and back, and what its workloads are told.

On the real server: the time-skipping one keeps no heartbeat details, and its time does not leap while a supervision goes on.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from functools import partial

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from perdure.model.host import HostState, HostStatus, ResyncReason, ResyncReport
from perdure.model.messages import Outcome
from perdure.model.states import State, Substate
from perdure.wire import names
from tests.fakes.engine import FakeEngine
from tests.support.waiting import eventually_async
from tests.workflow.attendance import Attendance
from tests.workflow.conftest import terminate_all
from tests.workflow.fleet import HOST, Fleet, fleet_of, host_workers, spec

HOST_STATE = names.SA_STATE


async def resync(fleet: Fleet, host: str = HOST) -> ResyncReport:
    """Ask for a full resync."""
    report: ResyncReport = await fleet.host_handle(host).execute_update(names.RESYNC, result_type=ResyncReport)
    return report


async def test_a_host_that_falls_silent_is_lost_in_thirty_seconds_and_back_by_itself(
    real_fleet: Fleet, engine: FakeEngine
) -> None:
    """Its workloads show Unknown with what was known; nothing is restarted when it answers again."""
    fleet, attendance = real_fleet, real_fleet.attendance
    engine.images |= {"reg/app:1", "reg/app:2"}
    await attendance.start()
    ready = await fleet.until_host(HostState.READY)
    assert ready.worker == attendance.worker
    await fleet.apply("web", spec("reg/app:1"))
    await fleet.apply("rest", spec("reg/app:1"))
    await fleet.signal("rest", names.PAUSE)
    await fleet.until("rest", "Paused/Ok")
    (container,) = engine.running("web")

    attendance.silent = True
    lost = await fleet.until_host(HostState.LOST, within=45)
    status = await fleet.until("web", "Unknown/HostLost")
    assert lost.history[-1].reason.startswith("its worker no longer answers; last seen ")
    assert lost.seen_at is not None
    assert timedelta(seconds=9) < lost.since - lost.seen_at < timedelta(seconds=28)
    assert status.last_known == "Running/Ok"
    assert status.host_lost_at == status.since
    assert status.host_seen_at is not None
    assert status.host_seen_at >= lost.seen_at
    assert status.history[-1].reason.startswith("host lost, last seen ")
    assert await fleet.handle("web").query(names.SUBSTATE) == "Unknown/HostLost"
    described = await fleet.handle("web").describe()
    assert described.typed_search_attributes[names.SA_SUBSTATE] == Substate.HOST_LOST
    paused = await fleet.status("rest")
    assert (paused.state, paused.host_lost_at is not None) == (State.PAUSED, True)

    engine.hanging_starts.add("reg/app:2")
    outcome = await asyncio.wait_for(fleet.apply("web", spec("reg/app:2")), 5)
    assert outcome.outcome is Outcome.NO_WORKER
    assert outcome.message.startswith("no worker for host edge-1, last seen ")
    await asyncio.wait_for(fleet.apply("web", spec("reg/app:1")), 5)
    engine.hanging_starts.clear()

    attendance.silent = False
    await fleet.until_host(HostState.READY)
    back = await fleet.until("web", "Running/Ok")
    assert (back.host_lost_at, back.last_known) == (None, "")
    assert "host is back" in [step.reason for step in back.history]
    assert (await fleet.status("rest")).host_lost_at is None
    assert container in engine.running("web")


async def test_a_worker_that_is_replaced_is_never_shown_as_lost(real_fleet: Fleet) -> None:
    """The supervision of the dead one is given up at once, also where it hangs."""
    fleet, attendance = real_fleet, real_fleet.attendance
    await attendance.start(1)
    await fleet.until_host(HostState.READY)
    for number in (2, 3):
        attendance.silent = True
        await attendance.start(number)

        async def replaced(number: int = number) -> bool:
            return len(attendance.orders) == number

        await eventually_async(replaced, within=3, what=f"worker {number} supervises")
    attendance.silent = False

    async def third() -> HostStatus:
        status = await fleet.host_status()
        assert status.worker == attendance.worker
        return status

    status = await eventually_async(third, within=5)
    assert status.state is HostState.READY
    assert [step.state for step in status.history].count(HostState.LOST) == 0
    assert [order.rsplit("-", 1)[1] for order in attendance.orders] == ["1", "2", "3"]


async def test_a_host_that_nobody_serves_says_so_and_can_be_forgotten(real_fleet: Fleet) -> None:
    """A resync is answered by a typed error in ten seconds; a request to cancel ends it once it is lost."""
    fleet, absent = real_fleet, Attendance(real_fleet.client, "edge-9")
    await absent.start()
    began = time.monotonic()
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await resync(fleet, "edge-9")
    assert time.monotonic() - began < 13
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == names.NO_WORKER
    assert cause.message.startswith("no worker serves host edge-9, last seen ")
    lost = await fleet.until_host(HostState.LOST, "edge-9", within=10)
    assert lost.history[-1].reason.startswith("no worker serves it; last seen ")
    described = await fleet.host_handle("edge-9").describe()
    assert described.typed_search_attributes[HOST_STATE] == "Lost"
    assert described.typed_search_attributes[names.SA_HOST] == "edge-9"
    await fleet.host_handle("edge-9").cancel()
    result = await asyncio.wait_for(fleet.host_handle("edge-9").result(), 5)
    assert result.startswith("forgotten; last seen ")


async def test_a_request_to_forget_a_host_that_answers_waits_until_it_is_lost(real_fleet: Fleet) -> None:
    """A click in the Web UI harms no host that works; a worker that starts makes it void, and then one can ask again."""

    async def noted(times: int) -> bool:
        reasons = [step.reason for step in (await real_fleet.host_status()).history]
        return sum("to be forgotten" in reason for reason in reasons) == times

    for number in (1, 2):
        await real_fleet.attendance.start(number)
        await real_fleet.until_host(HostState.READY)
        await eventually_async(partial(noted, number - 1), within=5)
        await eventually_async(partial(_runs_without_request, real_fleet), within=5)
        await real_fleet.host_handle().cancel()
        await eventually_async(partial(noted, number), within=5)
        assert (await resync(real_fleet)).reason is ResyncReason.ASKED


async def _runs_without_request(fleet: Fleet) -> bool:
    description = await fleet.host_handle().describe()
    assert description.status is WorkflowExecutionStatus.RUNNING
    return not description.raw_description.workflow_extended_info.cancel_requested


async def test_a_resync_is_answered_and_kept(real_fleet: Fleet) -> None:
    """What it found stands in the status."""
    await real_fleet.attendance.start()
    await real_fleet.until_host(HostState.READY)
    report = await resync(real_fleet)
    assert (await real_fleet.host_status()).last_resync == report
    status: HostStatus = await real_fleet.host_handle().query(names.STATUS, result_type=HostStatus)
    assert status.last_resync == report


async def test_a_new_run_keeps_what_is_known_and_answers_whoever_waits(short_runs: Fleet) -> None:
    """A resync under way is answered though the run has become long enough meanwhile, and the host stays ready."""
    fleet, attendance = short_runs, short_runs.attendance
    await attendance.start()
    await fleet.until_host(HostState.READY)
    run = (await fleet.host_handle().describe()).run_id
    attendance.resync_takes = timedelta(seconds=2)
    answer = asyncio.create_task(resync(fleet))
    for _ in range(60):
        await attendance.sign()
        await asyncio.sleep(0.02)
    assert (await answer).reason is ResyncReason.ASKED

    async def new_run() -> bool:
        return (await fleet.host_handle().describe()).run_id != run

    await eventually_async(new_run, within=10, what="the host has a new run")
    attendance.resync_takes = timedelta(0)
    report = await resync(fleet)
    status = await fleet.host_status()
    assert status.state is HostState.READY
    assert status.worker == attendance.worker
    assert status.last_resync == report
    assert [step.state for step in status.history].count(HostState.LOST) == 0
    await terminate_all(fleet.client)


async def test_control_workers_may_go_and_come(dev_client: Client, engine: FakeEngine) -> None:
    """Heartbeats go to the server: what a host tells meanwhile is taken up, and nobody is lost by it."""
    environment = WorkflowEnvironment.from_client(dev_client)
    outlives = Fleet(environment, engine)
    async with host_workers(outlives):
        async with fleet_of(environment, engine, host=False) as fleet:
            await outlives.attendance.start()
            await fleet.until_host(HostState.READY)
            run = (await fleet.host_handle().describe()).run_id
        await outlives.attendance.start(2)
        await asyncio.sleep(2)
        async with fleet_of(environment, engine, host=False) as fleet:

            async def served() -> HostStatus:
                status = await fleet.host_status()
                assert status.worker == outlives.attendance.worker
                return status

            status = await eventually_async(served, within=10)
            assert status.state is HostState.READY
            assert [step.state for step in status.history].count(HostState.LOST) == 0
            assert (await fleet.host_handle().describe()).run_id == run
    await terminate_all(dev_client)


@pytest.mark.parametrize("name", [names.WORKER_STARTED, names.SUPERVISING])
async def test_a_signal_without_its_argument_harms_no_host(real_fleet: Fleet, name: str) -> None:
    """The Web UI sends one at a click."""
    await real_fleet.attendance.start()
    await real_fleet.until_host(HostState.READY)
    await real_fleet.host_handle().signal(name)
    await real_fleet.host_handle().signal(name, None)
    await resync(real_fleet)
    assert (await real_fleet.host_status()).state is HostState.READY


async def test_an_abandoned_workload_ends_at_once_and_may_be_applied_again(
    real_fleet: Fleet, engine: FakeEngine
) -> None:
    """Whatever its host is doing; the next life knows nothing of this one."""
    engine.images.add("reg/app:1")
    engine.hanging_starts.add("reg/app:1")
    await real_fleet.send("web", spec("reg/app:1"))
    await real_fleet.that(lambda: bool(engine.starts), "it is being started")
    before = await real_fleet.status("web")
    await real_fleet.signal("web", names.ABANDON)
    await asyncio.wait_for(real_fleet.handle("web").result(), 10)
    assert (await real_fleet.status("web")).state is State.REMOVED
    engine.hanging_starts.clear()
    outcome = await real_fleet.apply("web", spec("reg/app:1"))
    assert (outcome.outcome, outcome.generation) == (Outcome.RUNNING, 1)
    assert (await real_fleet.status("web")).incarnation != before.incarnation
