# SPDX-License-Identifier: Apache-2.0
"""The Python client on a real server, while nobody works: what it sends is kept, shown at once, and never misread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client

from client import applying
from client.api import Reconciler, Wait
from client.applying import Progress
from client.errors import Ambiguous, Circular, Duplicate, NotFound, NoWorker, TimedOut, TooLarge
from client.listing import Filters
from client.planning import Change
from client.waiting import Condition
from perdure.model.manifest import Manifest
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import names
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async
from tests.support.workloads import manifest, reconciler

IMAGE = {"image": "localhost:5000/app:1"}


@pytest.fixture
async def fleet(dev_client: Client, temporal_server: TemporalServer) -> AsyncIterator[Reconciler]:
    """The client of a fleet without workers; its workloads are ended at the end."""
    yield reconciler(dev_client, temporal_server.address)
    async for row in dev_client.list_workflows(
        f'WorkflowType="{names.WORKLOAD_WORKFLOW}" AND ExecutionStatus="Running"'
    ):
        await dev_client.get_workflow_handle(row.id).terminate()


async def applied(fleet: Reconciler, *manifests: Manifest) -> None:
    results = await fleet.apply(manifests, wait=Wait.NONE)
    assert {result.progress for result in results} == {Progress.ACCEPTED}


def labels(found: tuple[WorkloadStatus, ...]) -> list[str]:
    return [f"{status.host}/{status.name}" for status in found]


async def test_what_was_accepted_is_shown_at_once(fleet: Reconciler) -> None:
    """No worker has ever seen it, and yet it is there with its image."""
    await applied(fleet, manifest({"web": IMAGE}, name="shop"))
    status = await fleet.status("edge-1", "web")
    assert (status.state, status.substate, status.generation) == (State.PENDING, Substate.INITIAL, 0)
    assert (status.image, status.manifest) == ("localhost:5000/app:1", "shop")


async def test_the_list_can_be_filtered(fleet: Reconciler) -> None:
    await applied(
        fleet,
        manifest({"web": IMAGE, "db": IMAGE}, name="shop"),
        manifest({"web": IMAGE}, name="other", host="edge-2"),
    )
    await eventually_async(lambda: _has(fleet, 3), within=10)
    assert labels(await fleet.list()) == ["edge-1/db", "edge-1/web", "edge-2/web"]
    assert labels(await fleet.list(Filters(host="edge-2"))) == ["edge-2/web"]
    assert labels(await fleet.list(Filters(names=("web",)))) == ["edge-1/web", "edge-2/web"]
    assert labels(await fleet.list(Filters(manifest="shop", names=("web", "x")))) == ["edge-1/web"]
    assert len(await fleet.list(Filters(states=(State.PENDING,)))) == 3
    assert len(await fleet.list(Filters(states=(Substate.INITIAL, State.FAILED)))) == 3
    assert await fleet.list(Filters(states=(State.RUNNING, Substate.PULL_BACKOFF))) == ()
    assert await fleet.list(Filters(host='"quoted\\" OR host')) == ()
    with pytest.raises(Ambiguous, match="edge-1/web, edge-2/web"):
        await fleet.find("web")
    assert await fleet.find("db") == ("edge-1", "db")


async def _has(fleet: Reconciler, count: int) -> bool:
    return len(await fleet.list()) == count


async def test_a_status_of_another_version_hides_no_other(fleet: Reconciler, dev_client: Client) -> None:
    """It is shown as far as it goes."""
    await applied(fleet, manifest({"web": IMAGE}))
    await dev_client.start_workflow(
        names.WORKLOAD_WORKFLOW,
        None,
        id=names.workload_id("edge-1", "new"),
        task_queue=names.CONTROL_QUEUE,
        memo={names.MEMO_STATUS: {"state": "Dreaming"}},
    )
    await eventually_async(lambda: _has(fleet, 2), within=10)
    new, web = await fleet.list()
    assert web.warning == ""
    assert new.name == "new"
    assert "cannot be read by this version" in new.warning


async def test_an_apply_to_nobody_is_accepted_and_says_so(fleet: Reconciler) -> None:
    """Within ten seconds, for all workloads at once."""
    begun = time.monotonic()
    results = await fleet.apply([manifest({f"web-{number}": IMAGE for number in range(20)})])
    assert 6 < time.monotonic() - begun < 15
    assert {result.progress for result in results} == {Progress.NO_CONTROL_WORKER}
    assert all(result.is_accepted for result in results)
    assert results[0].detail.startswith("no control worker, ")


async def test_an_apply_waits_no_longer_than_it_is_told(fleet: Reconciler) -> None:
    (result,) = await fleet.apply([manifest({"web": IMAGE})], timeout=timedelta(milliseconds=500))
    assert result.progress is Progress.IN_PROGRESS
    assert "did not end within 0.5 s; it goes on" in result.detail


async def test_nothing_is_sent_where_anything_cannot_be(fleet: Reconciler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest's own limits are lower; this one is for those who build manifests themselves."""
    monkeypatch.setattr(applying, "REQUEST_LIMIT_BYTES", 4 * 1024)
    good = manifest({"good": IMAGE})
    with pytest.raises(TooLarge, match="edge-1/large has 5 KiB, the most is 4 KiB"):
        await fleet.apply([good, manifest({"large": {**IMAGE, "command": ["ü" * 2048]}}, name="more")])
    with pytest.raises(Duplicate, match="edge-1/good is in two manifests: test and again"):
        await fleet.apply([good, manifest({"good": IMAGE}, name="again")])
    assert await fleet.list() == ()
    with pytest.raises(NotFound):
        await fleet.status("edge-1", "good")


async def test_a_cycle_through_what_was_applied_before_is_refused(fleet: Reconciler) -> None:
    """Over several steps and hosts, by apply and by plan, and nothing is sent; what was applied now counts, not what was."""
    await applied(
        fleet,
        manifest({"b": {**IMAGE, "dependsOn": {"edge-3/c": "running"}}}, host="edge-2", name="two"),
        manifest({"c": {**IMAGE, "dependsOn": {"edge-1/a": "running"}}, "d": IMAGE}, host="edge-3", name="three"),
    )
    await eventually_async(lambda: _are_listed(fleet, 3), within=5)
    cycle = manifest({"a": {**IMAGE, "dependsOn": {"edge-2/b": "healthy"}}, "z": IMAGE})
    says = r"edge-1/a -> edge-2/b \(applied before\) -> edge-3/c \(applied before\) -> edge-1/a"
    for refused in (fleet.apply([cycle]), fleet.plan([cycle])):
        with pytest.raises(Circular, match=says):
            await refused
    assert labels(await fleet.list()) == ["edge-2/b", "edge-3/c", "edge-3/d"]
    await applied(fleet, cycle, manifest({"c": IMAGE}, host="edge-3", name="three"))


async def _are_listed(fleet: Reconciler, count: int) -> bool:
    return len(await fleet.list()) == count


async def test_a_plan_tells_what_an_apply_would_do(fleet: Reconciler) -> None:
    await applied(fleet, manifest({"web": IMAGE}))
    plans = await fleet.plan([manifest({"web": IMAGE, "db": IMAGE})])
    assert [(plan.name, plan.change) for plan in plans] == [("web", Change.REPLACED), ("db", Change.NEW)]


async def test_what_is_not_there_is_not_found(fleet: Reconciler) -> None:
    for act in (fleet.status, fleet.remove, fleet.pause, fleet.resume, fleet.retry):
        with pytest.raises(NotFound, match="there is no workload edge-1/x"):
            await act("edge-1", "x")
    with pytest.raises(NotFound):
        await fleet.wait("edge-1", "x", Condition.REMOVED)
    with pytest.raises(NotFound):
        await fleet.find("x")


async def test_a_wait_is_told_that_nobody_works(fleet: Reconciler) -> None:
    """It would wait for ever otherwise; and shorter than that, it is only a timeout."""
    await applied(fleet, manifest({"web": IMAGE}))
    with pytest.raises(TimedOut, match=r"not running after 1 s: it is Pending\(Initial\)"):
        await fleet.wait("edge-1", "web", Condition.RUNNING, timeout=timedelta(seconds=1))
    with pytest.raises(NoWorker, match="no control worker"):
        await fleet.wait("edge-1", "web", Condition.RUNNING)


async def test_a_signal_that_nobody_reads_is_kept_and_said_so(
    fleet: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.api.SETTLE_TIMEOUT", timedelta(seconds=1))
    await applied(fleet, manifest({"web": IMAGE}))
    await fleet.pause("edge-1", "web")
    with pytest.raises(TimedOut, match="has not taken note of it within 1 s") as caught:
        await fleet.settle("edge-1", "web")
    assert caught.value.hint == "It is kept, and takes effect when a control worker runs."


async def test_a_watch_tells_of_changes_alone(fleet: Reconciler) -> None:
    await applied(fleet, manifest({"web": IMAGE}))
    await eventually_async(lambda: _has(fleet, 1), within=10)
    watching = fleet.watch(interval=timedelta(milliseconds=50))
    async with asyncio.timeout(20):
        assert labels(await anext(watching)) == ["edge-1/web"]
        await applied(fleet, manifest({"db": IMAGE}, name="more"))
        assert labels(await anext(watching)) == ["edge-1/db", "edge-1/web"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(watching), 0.5)
