# SPDX-License-Identifier: Apache-2.0
"""What the Python client tells of hosts, on a real server with the workflow of hosts and a worker that is made for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.api import Reconciler, Wait
from client.errors import HostFailed, InUse, NotFound, NoWorker
from client.hosts import HostFilters, HostView
from perdure.model.host import (
    Difference,
    HostSign,
    HostState,
    ResyncReason,
    ResyncReport,
    WorkerInfo,
)
from perdure.model.host_record import HostRecord
from perdure.model.states import State
from perdure.runtime.telemetry import runtime
from perdure.wire import names
from perdure.wire.contract import (
    ResyncRequest,
    SuperviseNote,
    SuperviseRequest,
    SuperviseResult,
    TellRequest,
    TellResult,
)
from perdure.wire.converter import data_converter
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async
from tests.support.workloads import manifest, reconciler
from workflows.host import HostWorkflow

IMAGE = {"image": "localhost:5000/app:1"}
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=3)
WORKER = WorkerInfo(
    identity="host/alive@1", version="1.2.3", engine="podman", engine_version="4.9.3", started_at=LONG_AGO
)
NEWS = ResyncReport(
    at=NOW - timedelta(hours=1),
    reason=ResyncReason.START,
    took=timedelta(milliseconds=20),
    containers=1,
    workloads=1,
    differences=(Difference(workload="web", found="the container is missing", done="told its workload"),),
)
QUIET = NEWS.model_copy(update={"at": NOW, "reason": ResyncReason.PERIODIC, "differences": ()})


class HostActivities:
    """What a host's worker does of supervision, without a container."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_broken = False

    @activity.defn(name=names.SUPERVISE)
    async def supervise(self, request: SuperviseRequest) -> SuperviseResult:
        """Be there, and tell with each heartbeat of a resync without news."""
        handle = self._client.get_workflow_handle(names.host_id(request.host))
        await handle.signal(names.SUPERVISING, HostSign(worker=WORKER, resync=NEWS))
        try:
            while True:
                activity.heartbeat(SuperviseNote(resync=QUIET))
                await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            return SuperviseResult(reason="the test is over")

    @activity.defn(name=names.RESYNC)
    async def resync(self, request: ResyncRequest) -> ResyncReport:
        """Find the same as before."""
        if self.is_broken:
            raise ApplicationError("Podman does not answer", non_retryable=True)
        return NEWS.model_copy(update={"reason": request.reason})


@activity.defn(name=names.TELL_WORKLOADS)
async def tell_nobody(request: TellRequest) -> TellResult:
    """The workloads of this test have no workflow."""
    return TellResult(told=0)


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    """With the runtime of all our processes: others send heartbeats too seldom."""
    temporal_server.start()
    return await Client.connect(
        temporal_server.address, data_converter=data_converter(), runtime=runtime(), identity="test"
    )


def control_worker(client: Client) -> Worker:
    """A worker that runs the workflow of hosts, and of nothing else."""
    return Worker(
        client,
        task_queue=names.CONTROL_QUEUE,
        workflows=[HostWorkflow],
        activities=[tell_nobody],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


@pytest.fixture
async def fleet(client: Client, temporal_server: TemporalServer) -> AsyncIterator[Reconciler]:
    """The client of a fleet with a control worker."""
    async with control_worker(client):
        yield reconciler(client, temporal_server.address)
        async for row in client.list_workflows('ExecutionStatus="Running"'):
            await client.get_workflow_handle(row.id).terminate()


@asynccontextmanager
async def alive(client: Client, fleet: Reconciler) -> AsyncIterator[HostActivities]:
    """A host whose worker answers."""
    work = HostActivities(client)
    throttle = timedelta(milliseconds=100)
    async with Worker(
        client,
        task_queue=names.host_queue("alive"),
        activities=[work.supervise, work.resync],
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=timedelta(seconds=1),
    ):
        await client.start_workflow(
            names.HOST_WORKFLOW, args=[None], id=names.host_id("alive"), task_queue=names.CONTROL_QUEUE
        )

        async def is_ready() -> bool:
            found = await fleet.hosts(HostFilters(names=("alive",)))
            return bool(found) and found[0].state is HostState.READY and found[0].last_resync == QUIET

        await eventually_async(is_ready, within=20)
        yield work


async def begin_lost(client: Client) -> None:
    """A host that was killed long ago."""
    record = HostRecord(host="killed", state=HostState.LOST, since=LONG_AGO, seen_at=LONG_AGO, worker=WORKER)
    await client.start_workflow(
        names.HOST_WORKFLOW, args=[record], id=names.host_id("killed"), task_queue=names.CONTROL_QUEUE
    )


async def shown(fleet: Reconciler, **expected: int) -> dict[str, HostView]:
    """The hosts, as soon as all that are expected are listed, with so many workloads each."""

    async def look() -> dict[str, HostView] | None:
        found = {host.host: host for host in await fleet.hosts()}
        return found if {name: sum(host.workloads.values()) for name, host in found.items()} == expected else None

    found = await eventually_async(look, within=10)
    assert found is not None
    return found


async def test_hosts_that_are_alive_killed_and_never_seen(client: Client, fleet: Reconciler) -> None:
    """Each is there, with all that the server knows of it and its workflow does not."""
    async with alive(client, fleet):
        await begin_lost(client)
        await fleet.apply(
            [
                manifest({"web": IMAGE, "db": IMAGE}, name="one", host="killed"),
                manifest({"web": IMAGE}, name="two", host="never"),
            ],
            wait=Wait.NONE,
        )
        hosts = await shown(fleet, alive=0, killed=2, never=1)
        assert [hosts[name].state for name in hosts] == [HostState.READY, HostState.LOST, HostState.NEVER_SEEN]
        host = hosts["alive"]
        assert (host.worker, host.workloads) == (WORKER, {})
        assert (host.last_resync, host.last_differences) == (QUIET, NEWS)
        assert host.seen_at is not None
        assert datetime.now(UTC) - host.seen_at < timedelta(seconds=15)
        assert hosts["killed"].seen_at == LONG_AGO
        assert hosts["killed"].workloads == {State.PENDING: 2}
        assert (hosts["never"].seen_at, hosts["never"].workloads) == (None, {State.PENDING: 1})
        assert await names_of(fleet, HostFilters(states=(HostState.LOST,))) == ["killed"]
        assert await names_of(fleet, HostFilters(names=("never", "nowhere", "alive"))) == ["alive", "never"]


async def test_a_host_that_nobody_watches_over_is_shown_with_a_warning(
    client: Client, temporal_server: TemporalServer
) -> None:
    """Without a control worker nobody would notice that it is lost: "Ready" alone would be a lie."""
    fleet, known = reconciler(client, temporal_server.address), HostFilters(names=("known",))
    handle = client.get_workflow_handle(names.host_id("known"))

    async def is_ready() -> bool:
        found = await fleet.hosts(known)
        return bool(found) and (found[0].state, found[0].warning) == (HostState.READY, "")

    try:
        async with control_worker(client):
            record = HostRecord(host="known", state=HostState.READY, since=LONG_AGO, seen_at=LONG_AGO, worker=WORKER)
            await client.start_workflow(
                names.HOST_WORKFLOW, args=[record], id=handle.id, task_queue=names.CONTROL_QUEUE
            )
            await eventually_async(is_ready, within=10)
        (host,) = await fleet.hosts(known)
        assert host.state is HostState.READY
        assert host.warning.startswith("There is no control worker, last seen ")
    finally:
        await handle.terminate()


async def names_of(fleet: Reconciler, filters: HostFilters) -> list[str]:
    return [host.host for host in await fleet.hosts(filters)]


async def test_a_host_of_another_version_hides_no_other(client: Client, fleet: Reconciler) -> None:
    """It is shown as far as it goes. One that nobody has begun to look after is shown, too."""
    for host, memo in (("new", {names.MEMO_STATUS: {"state": "Dreaming"}}), ("fresh", None)):
        await client.start_workflow(
            names.HOST_WORKFLOW, args=[None], id=names.host_id(host), task_queue="nobody", memo=memo
        )
    hosts = await shown(fleet, fresh=0, new=0)
    assert {host.state for host in hosts.values()} == {HostState.WAITING}
    assert hosts["fresh"].warning == ""
    assert hosts["new"].warning.startswith("Its status cannot be read by this version")


async def test_a_resync_is_answered_by_its_report_or_by_why_there_is_none(client: Client, fleet: Reconciler) -> None:
    async with alive(client, fleet) as work:
        assert await fleet.resync("alive") == NEWS.model_copy(update={"reason": ResyncReason.ASKED})
        work.is_broken = True
        with pytest.raises(HostFailed, match="Podman does not answer"):
            await fleet.resync("alive")
    with pytest.raises(NotFound, match="there is no host nowhere"):
        await fleet.resync("nowhere")
    await fleet.apply([manifest({"web": IMAGE}, host="never")], wait=Wait.NONE)
    await shown(fleet, alive=0, never=1)
    with pytest.raises(NoWorker, match="no worker for host never, none was ever seen: 1 of its workloads"):
        await fleet.resync("never")


async def test_a_host_is_forgotten_when_nobody_needs_it(client: Client, fleet: Reconciler) -> None:
    """Not while its worker answers, nor, unless forced, while it has workloads: those stay, and name it still."""
    async with alive(client, fleet):
        with pytest.raises(InUse, match=r"host alive was heard of [0-9]+ s ago"):
            await fleet.forget("alive", force=True)
    await begin_lost(client)
    await fleet.apply([manifest({"web": IMAGE}, host="killed")], wait=Wait.NONE)

    async def is_in_use() -> bool:
        found = await fleet.hosts(HostFilters(names=("killed",)))
        return bool(found[0].workloads)

    await eventually_async(is_in_use, within=10)
    with pytest.raises(InUse, match="host killed has 1 workload"):
        await fleet.forget("killed")
    await fleet.forget("killed", force=True)
    (host,) = await fleet.hosts(HostFilters(names=("killed",)))
    assert (host.state, host.workloads) == (HostState.NEVER_SEEN, {State.PENDING: 1})
    with pytest.raises(NotFound):
        await fleet.forget("killed")


async def test_a_host_whose_workflow_somebody_ended_is_not_called_never_seen(client: Client, fleet: Reconciler) -> None:
    """Nobody watches over it, so nobody would tell that its worker died; a worker that is there begins the workflow anew."""
    await fleet.apply([manifest({"web": IMAGE}, host="alive")], wait=Wait.NONE)
    await fleet.apply([manifest({"web": IMAGE}, host="killed")], wait=Wait.NONE)
    await begin_lost(client)
    async with alive(client, fleet):
        for host in ("alive", "killed"):
            await client.get_workflow_handle(names.host_id(host)).terminate()

        async def look() -> dict[str, HostView]:
            found = await shown(fleet, alive=1, killed=1)
            states = [found[name].state for name in ("alive", "killed")]
            assert states == [HostState.WAITING, HostState.LOST]
            return found

        hosts = await eventually_async(look, within=20)
        ended = "Its workflow host/{} was ended: nobody watches over its worker"
        assert all(hosts[name].warning.startswith(ended.format(name)) for name in hosts)
        with pytest.raises(NoWorker, match="nobody watches over host alive: its workflow host/alive was ended"):
            await fleet.resync("alive")
        with pytest.raises(NotFound):
            await fleet.forget("killed", force=True)


async def test_a_watch_of_hosts_tells_of_more_than_signs_of_life(client: Client, fleet: Reconciler) -> None:
    async with alive(client, fleet):
        watching = fleet.watch_hosts(interval=timedelta(milliseconds=50))
        async with asyncio.timeout(30):
            assert [host.host for host in await anext(watching)] == ["alive"]
            await begin_lost(client)
            assert [host.host for host in await anext(watching)] == ["alive", "killed"]
