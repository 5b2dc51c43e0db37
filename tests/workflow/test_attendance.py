# SPDX-License-Identifier: Apache-2.0
"""A real worker's attendance and its host's workflow: who tells what to whom, and who starts again after what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities import attendance
from activities.attendance import Attendance
from activities.supervision import Supervision
from activities.tidings import Tidings
from perdure.model.faults import FaultKind, Phase
from perdure.model.host import HostState, HostStatus, ResyncReason, ResyncReport, WorkerInfo
from perdure.model.observation import ContainerState
from perdure.wire import names
from perdure.wire.contract import SuperviseNote
from tests.cases.patience import patience
from tests.fakes.engine import fault
from tests.support.waiting import eventually_async
from tests.workflow.host_stage import HostStage, names_of
from workflows.host import HostWorkflow


class Host(HostStage):
    """A host whose workflow has a worker."""

    @asynccontextmanager
    async def worker(self, number: int = 1) -> AsyncIterator[Supervision]:
        """A worker process of the host, as far as it is to be seen from its workflow."""
        info = WorkerInfo(
            identity=f"host/{self.host}@{number}",
            version="1.0",
            engine="fake",
            engine_version="1",
            started_at=datetime.now(UTC),
        )
        supervision = self.supervision()
        present = Attendance(self.client, self.host, info, supervision)
        throttle = timedelta(milliseconds=200)
        async with (
            Worker(
                self.client,
                task_queue=names.host_queue(self.host),
                activities=[present.supervise, present.resync],
                max_heartbeat_throttle_interval=throttle,
                default_heartbeat_throttle_interval=throttle,
                graceful_shutdown_timeout=timedelta(seconds=5),
            ),
            supervision.running(),
            present.running(),
        ):
            yield supervision

    async def described(self) -> WorkflowExecutionDescription:
        """The host's workflow. An AssertionError where there is none yet."""
        try:
            return await self.client.get_workflow_handle(names.host_id(self.host)).describe()
        except RPCError as error:
            raise AssertionError(str(error)) from error

    async def status(self) -> HostStatus:
        """What it tells."""
        found = await (await self.described()).memo_value(names.MEMO_STATUS, None)
        assert found is not None, "it has told nothing yet"
        return HostStatus.model_validate(found)

    async def is_ready(self, number: int = 1) -> HostStatus:
        """Wait until it knows that this worker answers."""

        async def look() -> HostStatus:
            status = await self.status()
            assert status.state is HostState.READY, status.model_dump_json()
            assert status.worker is not None
            assert status.worker.identity == f"host/{self.host}@{number}"
            return status

        return await eventually_async(look, within=patience(10), what=f"worker {number} answers")

    async def resync(self) -> ResyncReport:
        """As ``perdure resync`` does it."""
        handle = self.client.get_workflow_handle(names.host_id(self.host))
        report: ResyncReport = await handle.execute_update(names.RESYNC, result_type=ResyncReport)
        return report


@pytest.fixture
async def host(dev_client: Client) -> AsyncIterator[Host]:
    """A host with one workload that is up."""
    host = Host(dev_client)
    await host.workload("web")
    host.container("web")
    await host.that_all_are_listed()
    async with Worker(
        dev_client,
        task_queue=names.CONTROL_QUEUE,
        workflows=[HostWorkflow],
        activities=[Tidings(dev_client).tell_workloads],
    ):
        yield host
        await host.client.get_workflow_handle(names.host_id(host.host)).terminate("the test is over")
    await host.end()


async def test_a_worker_makes_itself_known_and_is_asked_to_resync(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it finds by itself stands in its heartbeat, what it finds when it is asked is the answer and in the status."""
    monkeypatch.setattr(attendance, "BEAT", timedelta(milliseconds=200))
    async with host.worker():
        status = await host.is_ready()
        assert status.last_resync is not None
        assert status.last_resync.reason is ResyncReason.START

        async def note() -> SuperviseNote:
            pending = (await host.described()).raw_description.pending_activities
            details = [one.heartbeat_details.payloads for one in pending if one.activity_type.name == names.SUPERVISE]
            assert details, "it is not supervised yet"
            assert details[0], "no heartbeat yet"
            (found,) = await host.client.data_converter.decode(details[0], [SuperviseNote])
            assert isinstance(found, SuperviseNote)
            assert found.resync is not None
            return found

        found = await eventually_async(note, within=patience(10))
        assert found.detail.startswith("1 containers are up; resync ")
        host.engine.change("web", state=ContainerState.PAUSED)
        report = await host.resync()
        assert (report.reason, names_of(report)) == (ResyncReason.ASKED, ["web"])

        async def is_kept() -> bool:
            return (await host.status()).last_resync == report

        await eventually_async(is_kept, within=patience(10))


async def test_news_of_a_resync_reach_the_workflow_without_being_asked_for(host: Host) -> None:
    """The periodic ones with differences; those without cost nothing."""
    async with host.worker() as supervision:
        first = (await host.is_ready()).last_resync
        await supervision.resync(ResyncReason.PERIODIC)
        host.engine.change("web", state=ContainerState.PAUSED)
        await supervision.resync(ResyncReason.PERIODIC)

        async def has_news() -> ResyncReport:
            latest = (await host.status()).last_resync
            assert latest is not None
            assert latest != first
            return latest

        latest = await eventually_async(has_news, within=patience(10))
        assert (latest.reason, names_of(latest)) == (ResyncReason.PERIODIC, ["web"])


async def test_a_resync_that_cannot_be_made_says_why(host: Host) -> None:
    """Podman's trouble is told to whoever asks."""
    async with host.worker():
        await host.is_ready()
        host.engine.troubles[""] = fault(FaultKind.ENGINE_UNREACHABLE, "podman is away", phase=Phase.START)
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await host.resync()
        assert isinstance(failed.value.cause, ApplicationError)
        assert "podman is away" in failed.value.cause.message


async def test_the_next_worker_takes_over_at_once(host: Host) -> None:
    """After one that was stopped in peace: nobody waits for anything."""
    async with host.worker(1):
        await host.is_ready(1)
    async with host.worker(2):
        status = await host.is_ready(2)
    assert HostState.LOST not in {step.state for step in status.history}


async def test_an_order_after_a_lost_one_means_that_all_is_looked_at_anew(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was away, or took the host for lost: nobody knows what was missed meanwhile, so no sign is given before."""
    monkeypatch.setattr(attendance, "LASTED", timedelta(0))
    signs: list[ResyncReport] = []
    sign = Attendance._sign

    async def note(self: Attendance, report: ResyncReport) -> bool:
        signs.append(report)
        return await sign(self, report)

    monkeypatch.setattr(Attendance, "_sign", note)
    async with host.worker():
        status = await host.is_ready()
        await host.client.get_workflow_handle(names.host_id(host.host)).signal(names.WORKER_STARTED, status.worker)

        async def is_anew() -> bool:
            return len(signs) > 1

        await eventually_async(is_anew, within=patience(10))
    assert [one.reason for one in signs] == [ResyncReason.START, ResyncReason.RECONNECT]


async def test_a_workflow_that_somebody_ended_is_started_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker tells of itself when nobody has ordered a supervision for a while."""
    monkeypatch.setattr(attendance, "UNORDERED", timedelta(milliseconds=300))
    monkeypatch.setattr(attendance, "BEAT", timedelta(milliseconds=200))
    async with host.worker():
        await host.is_ready()
        ended = (await host.described()).run_id
        await host.client.get_workflow_handle(names.host_id(host.host)).terminate("by hand")

        async def is_another() -> bool:
            return (await host.described()).run_id != ended

        await eventually_async(is_another, within=patience(15))
        await host.is_ready()
