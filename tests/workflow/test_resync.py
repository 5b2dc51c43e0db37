# SPDX-License-Identifier: Apache-2.0
"""The full resync: what it finds, what it tells and removes, what it leaves alone, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client

from activities import resync, sight
from activities.engine import EngineFault
from perdure.model.faults import FaultKind, Phase
from perdure.model.host import DIFFERENCES_SHOWN, ResyncReason
from perdure.model.observation import ContainerState
from perdure.model.states import State, Substate
from perdure.wire import names
from tests.cases.patience import patience
from tests.fakes.engine import Mutation, fault
from tests.support.waiting import eventually_async
from tests.workflow.host_stage import BEGAN, HostStage, container_id, found_in, names_of, ticket

TOLD = "its workload was told"
ASKED = ResyncReason.ASKED


@pytest.fixture
async def stage(dev_client: Client) -> AsyncIterator[HostStage]:
    """A host of its own."""
    stage = HostStage(dev_client)
    yield stage
    await stage.end()


async def test_differences_are_told_and_nothing_else(stage: HostStage) -> None:
    """Each kind of drift once, to the workload that it concerns; in whatever state its workflow is."""
    later = BEGAN + timedelta(minutes=1)
    for name in ("fine", "missing", "exited", "paused", "anew", "doubled"):
        await stage.workload(name)
    await stage.workload("lost", State.UNKNOWN, Substate.HOST_LOST)
    await stage.workload("ended", State.SUCCEEDED, up=False)
    await stage.workload("revived", State.FAILED, Substate.EXITED, up=False)
    await stage.workload("pulling", State.PENDING, Substate.PULL_BACKOFF, up=False)
    await stage.workload("waiting", State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, up=False)
    for name in ("fine", "doubled", "revived"):
        stage.container(name)
    stage.container("doubled", container_id="the double", name="doubled-by-hand")
    stage.container("exited", ContainerState.EXITED, code=42)
    stage.container("paused", ContainerState.PAUSED)
    stage.container("anew", started_at=later)
    stage.container("ended", ContainerState.EXITED, code=0)
    stage.container("lost", ContainerState.CREATED)
    await stage.that_all_are_listed()
    supervision = stage.supervision()
    report = await supervision.resync(ASKED)
    assert (report.containers, report.workloads, report.orphans, report.strangers) == (9, 11, 0, 0)
    assert found_in(report) == {
        "missing": ("the container is missing", TOLD),
        "exited": ("the container ended with code 42", TOLD),
        "paused": ("the container is paused", TOLD),
        "anew": ("the container was started anew on its host", TOLD),
        "doubled": ("another container of the workload runs as well", TOLD),
        "lost": ("the container was not started since its host was", TOLD),
        "revived": ("a container of the workload runs again", TOLD),
    }
    assert await stage.all_told() == {
        "missing": ["missing"],
        "exited": ["exited"],
        "paused": ["paused"],
        "anew": ["running"],
        "doubled": ["running"],
        "lost": ["created"],
        "revived": ["running"],
    }
    (anew,) = await stage.told("anew")
    assert anew.started_at == later
    (doubled,) = await stage.told("doubled")
    assert doubled.container_id == "the double"
    assert stage.engine.mutations == []


async def test_orphans_go_after_a_second_look_and_nobody_else_is_touched(
    stage: HostStage, caplog: pytest.LogCaptureFixture
) -> None:
    """Containers of another fleet, of another server, of a workload that cannot be read or is not listed yet: all stay."""
    await stage.workload("web")
    await stage.workload("riddle", memo="who could read that?")
    stage.container("web")
    stage.container("riddle")
    stage.container("ghost")
    stage.container("ghost", ContainerState.EXITED, container_id="an older one")
    stage.container("foreign", fleet="another-fleet")
    stage.container("stranger", fleet_id="another-server")
    await stage.that_all_are_listed()
    supervision = stage.supervision()
    async with supervision.running():
        await eventually_async(lambda: is_set(supervision.latest), within=5)
        report = supervision.latest
        assert report is not None
        assert report.reason is ResyncReason.START
        assert found_in(report) == {
            "ghost": ("no workload wants its containers", "they are removed"),
            "riddle": (
                "its workload is not in Temporal's list, or its status cannot be read",
                "it is left alone: the workload exists",
            ),
        }
        assert (report.orphans, report.strangers, report.containers) == (1, 1, 5)
        await eventually_async(lambda: is_set(len(stage.engine.mutations) == 2), within=5)
    assert stage.engine.mutations == [Mutation("remove", "ghost", 1)] * 2
    assert sorted(one.owner.workload for one in stage.engine.containers.values()) == [
        "foreign",
        "riddle",
        "stranger",
        "web",
    ]
    assert await stage.all_told() == {}
    assert "containers of workloads of another Temporal server are left alone" in caplog.text


async def test_a_workload_that_is_made_in_the_middle_is_no_orphan(stage: HostStage) -> None:
    """The list of workloads lags behind, and the second look is made when nobody is at work for the workload."""
    stage.container("new")
    supervision = stage.supervision()
    async with supervision.running():
        async with stage.fence.alone("new"):
            await eventually_async(lambda: is_set(supervision.latest), within=5)
            assert supervision.latest is not None
            assert supervision.latest.orphans == 1
            await stage.workload("new")
        await stage.that_all_are_listed()
        await supervision.resync(ASKED)
    assert stage.engine.mutations == []
    assert "new" in {one.owner.workload for one in stage.engine.containers.values()}


@pytest.mark.parametrize("count", [20, 200])
async def test_it_costs_one_list_and_one_query(stage: HostStage, count: int) -> None:
    """However many workloads there are; what differs costs a look and a signal each, and nothing else does."""
    limit = asyncio.Semaphore(16)

    async def make(name: str) -> None:
        async with limit:
            await stage.workload(name)
            stage.container(name)

    await asyncio.gather(*(make(f"web-{number}") for number in range(count)))
    await stage.that_all_are_listed()
    supervision = stage.supervision()
    stage.counting.calls.clear()
    report = await supervision.resync(ASKED)
    assert report.workloads == report.containers == count
    assert stage.counting.calls == {"list": 1}
    assert stage.engine.lists == {"": 1}
    assert report.took < timedelta(seconds=patience(1))
    for name in ("web-3", "web-7"):
        del stage.engine.containers[container_id(name)]
    report = await supervision.resync(ASKED)
    assert names_of(report) == ["web-3", "web-7"]
    assert stage.counting.calls == {"list": 2, "signal": 2}
    assert stage.engine.lists == {"": 2, "web-3": 1, "web-7": 1}


async def test_a_long_report_is_cut_and_counts_the_rest(stage: HostStage) -> None:
    """A host whose containers were all removed has a report of bounded size."""
    for number in range(DIFFERENCES_SHOWN + 3):
        await stage.workload(f"web-{number:02}")
    await stage.that_all_are_listed()
    report = await stage.supervision().resync(ASKED)
    assert len(report.differences) == DIFFERENCES_SHOWN
    assert report.more_differences == 3


async def test_what_is_under_way_is_left_out_and_looked_at_afterwards(stage: HostStage) -> None:
    """A slow stop holds up neither the resync nor any other workload; what is begun meanwhile waits, and is done once."""
    await stage.workload("slow")
    await stage.workload("missing")
    await stage.workload("new", State.PENDING, Substate.STARTING, up=False)
    await stage.that_all_are_listed()
    supervision = stage.supervision()
    begun = asyncio.Event()

    async def start() -> None:
        async with stage.fence.admit(ticket(stage, "new"), Phase.START):
            begun.set()

    async with stage.fence.admit(ticket(stage, "slow"), Phase.STOP):
        stage.engine.hanging_lists.add("")
        resyncing = asyncio.create_task(supervision.resync(ASKED))
        await eventually_async(lambda: is_set(stage.engine.lists[""]), within=5)
        starting = asyncio.create_task(start())
        await asyncio.sleep(0.05)
        assert not begun.is_set(), "the gate is closed"
        stage.engine.release()
        report = await resyncing
        await starting
        assert names_of(report) == ["missing"]
        assert await stage.told("slow") == []
    await stage.that_is_told("slow", ContainerState.MISSING)


async def test_one_that_cannot_be_looked_at_stops_no_other(stage: HostStage) -> None:
    """Nor one that takes long: the report says so, and does not wait."""
    for name in ("broken", "hanging", "missing"):
        await stage.workload(name)
    await stage.that_all_are_listed()
    stage.engine.troubles["broken"] = fault(FaultKind.ENGINE_ERROR, "a broken database", phase=Phase.START)
    stage.engine.hanging_lists.add("hanging")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resync, "CHECK_LIMIT", timedelta(milliseconds=500))
        supervision = stage.supervision()
        async with supervision.running():
            await eventually_async(lambda: is_set(supervision.latest), within=5)
    report = supervision.latest
    assert report is not None
    assert found_in(report) == {
        "broken": ("the container is missing", "it could not be looked at: a broken database"),
        "hanging": ("the container is missing", "it is still looked at"),
        "missing": ("the container is missing", TOLD),
    }


async def test_a_podman_that_hangs_holds_the_gate_for_a_bounded_time(
    stage: HostStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the work goes on, and the resync is made when Podman answers again."""
    monkeypatch.setattr(sight, "PATIENCE", timedelta(milliseconds=300))
    stage.engine.hanging_lists.add("")
    supervision = stage.supervision()
    resyncing = asyncio.create_task(supervision.resync(ASKED))
    await eventually_async(lambda: is_set(stage.engine.lists[""]), within=5)
    async with asyncio.timeout(5), stage.fence.admit(ticket(stage, "web"), Phase.START):
        pass
    with pytest.raises(EngineFault, match="no answer within"):
        await resyncing
    assert supervision.latest is None
    stage.engine.release()
    assert (await supervision.resync(ASKED)).containers == 0


async def test_a_resync_on_demand_finds_what_a_fresh_start_finds(stage: HostStage) -> None:
    """Whatever was believed before: beliefs are dropped."""
    for name in ("fine", "missing", "exited"):
        await stage.workload(name)
        stage.container(name)
    await stage.that_all_are_listed()
    old = stage.supervision()
    await old.resync(ASKED)
    del stage.engine.containers[container_id("missing")]
    stage.container("exited", ContainerState.EXITED, code=1)
    on_demand = await old.resync(ASKED)
    again = await old.resync(ASKED)
    fresh = await stage.supervision().resync(ResyncReason.START)
    assert found_in(on_demand) == found_in(again) == found_in(fresh) != {}


async def test_only_a_start_wakes_what_is_parked(stage: HostStage) -> None:
    """A worker that starts may have brought the cure; one that goes on has not."""
    await stage.workload("rejected", State.FAILED, Substate.REJECTED, up=False)
    await stage.workload("gave-up", State.FAILED, Substate.GAVE_UP, up=False)
    await stage.workload("ended", State.FAILED, Substate.EXITED, up=False)
    await stage.that_all_are_listed()
    supervision = stage.supervision()
    async with supervision.running():

        async def are_woken() -> bool:
            return all([await stage.signals(name, names.RETRY_NOW) for name in ("rejected", "gave-up")])

        await eventually_async(are_woken, within=5)
        await supervision.resync(ASKED)
    woken = {name: len(await stage.signals(name, names.RETRY_NOW)) for name in stage.workloads}
    assert woken == {"rejected": 1, "gave-up": 1, "ended": 0}


async def is_set(claim: object) -> bool:
    return bool(claim)
