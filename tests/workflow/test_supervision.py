# SPDX-License-Identifier: Apache-2.0
"""What a host's worker notices, by which way and how soon, and that its own doings are no news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities import inspection, supervision
from activities.autonomy import Autonomy
from activities.ledger import Ledger
from activities.supervision import Supervision
from activities.telling import Contact
from perdure.model.faults import FaultKind, Phase
from perdure.model.host import ResyncReason, ResyncReport
from perdure.model.observation import ContainerState, Live
from perdure.model.states import State, Substate
from tests.cases.patience import patience
from tests.fakes.engine import fault
from tests.support.waiting import eventually_async
from tests.workflow.host_stage import HostStage, names_of, ticket

SOON = 0.3
"""Seconds from a change to the message."""
DOWN = fault(FaultKind.ENGINE_UNREACHABLE, "podman is away", phase=Phase.START)


@pytest.fixture
async def stage(dev_client: Client) -> AsyncIterator[HostStage]:
    """A host with one workload that is up."""
    stage = HostStage(dev_client)
    await stage.workload("web")
    stage.container("web")
    await stage.that_all_are_listed()
    yield stage
    await stage.end()


async def ready(watch: Supervision, reason: ResyncReason = ResyncReason.START) -> ResyncReport:
    """Wait for the resync of a reason, by default for the first one."""

    async def look() -> ResyncReport | None:
        return watch.latest if watch.latest and watch.latest.reason is reason else None

    found = await eventually_async(look, within=patience(10), what=f"a resync: {reason}")
    assert found is not None
    return found


async def test_an_event_is_told_within_a_moment(stage: HostStage) -> None:
    """Nobody waits for a list."""
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        lists = stage.engine.lists[""]
        changed_at = time.monotonic()
        stage.engine.vanish("web")
        seen = await stage.that_is_told("web", ContainerState.MISSING)
        assert time.monotonic() - changed_at < patience(SOON)
        assert seen.reason == "the container is missing"
        assert stage.engine.lists[""] == lists


async def test_what_no_event_tells_is_found_by_the_list(stage: HostStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman refuses to tell its events, or loses them: then the list comes more often, and is enough."""
    assert timedelta(seconds=10) > supervision.LIST_ALONE_EVERY
    monkeypatch.setattr(supervision, "LIST_ALONE_EVERY", timedelta(milliseconds=200))
    monkeypatch.setattr(supervision, "TROUBLE_WAIT", timedelta(milliseconds=50))
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        stage.engine.break_events(fault(FaultKind.ENGINE_ERROR, "no events here", phase=Phase.START))
        stage.engine.change("web", state=ContainerState.PAUSED)
        await stage.that_is_told("web", ContainerState.PAUSED)
        lists = stage.engine.lists[""]

        async def looks_go_on() -> bool:
            return stage.engine.lists[""] >= lists + 3

        await eventually_async(looks_go_on, within=patience(5))
    assert await stage.all_told() == {"web": ["paused"]}, "told once, though each list shows it"
    assert watch.latest is not None
    assert watch.latest.reason is ResyncReason.START, "a stream that never worked is no reason to resync"


async def test_our_own_doings_are_no_news(stage: HostStage) -> None:
    """A replacement, and then a stop, by steps of the workload: their answers tell of them, and nobody else does."""
    await stage.workload("other")
    stage.container("other")
    await stage.that_all_are_listed()
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        async with stage.fence.admit(ticket(stage), Phase.START):
            await stage.engine.ensure_absent(stage.client.namespace, stage.host, "web", timedelta(0))
            new = stage.container("web", container_id="another")
            await asyncio.sleep(0.05)
            watch.started("web", Live(generation=2, container_id="another", started_at=new.started_at))
        async with stage.fence.admit(ticket(stage), Phase.STOP):
            await stage.engine.ensure_absent(stage.client.namespace, stage.host, "web", timedelta(0))
            await asyncio.sleep(0.05)
            watch.removed("web")
        stage.engine.vanish("other")
        await stage.that_is_told("other", ContainerState.MISSING)
    assert await stage.told("web") == []


async def test_a_container_that_runs_again_though_it_had_ended_is_told(stage: HostStage) -> None:
    """Somebody started it by hand."""
    await stage.workload("done", State.SUCCEEDED, Substate.OK, up=False)
    ended = stage.container("done", ContainerState.EXITED, code=0)
    await stage.that_all_are_listed()
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        await stage.engine.start_again(ended.container_id)
        await stage.that_is_told("done", ContainerState.RUNNING)
        stage.engine.end("done", 3)
        seen = await stage.that_is_told("done", ContainerState.EXITED)
        assert seen.exit is not None
        assert seen.exit.code == 3


async def test_podman_that_was_away_is_looked_at_anew(stage: HostStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a full resync, which is tried until it succeeds; and its events are followed again."""
    for name in ("TROUBLE_WAIT", "LASTED"):
        monkeypatch.setattr(supervision, name, timedelta(milliseconds=50))
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        await asyncio.sleep(0.1)
        stage.engine.troubles[""] = DOWN
        stage.engine.break_events(DOWN)
        lists = stage.engine.lists[""]

        async def is_tried() -> bool:
            return stage.engine.lists[""] >= lists + 2

        await eventually_async(is_tried, within=patience(5))
        stage.engine.end("web", 1)
        del stage.engine.troubles[""]
        await stage.that_is_told("web", ContainerState.EXITED)
        assert names_of(await ready(watch, ResyncReason.RECONNECT)) == ["web"]

        async def is_followed() -> bool:
            return bool(stage.engine.followers)

        await eventually_async(is_followed, within=patience(5))


async def test_temporal_that_was_away_is_told_what_happened_meanwhile(
    stage: HostStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is sent while it does not answer; a knock finds that it is back, and a resync tells."""
    monkeypatch.setattr(supervision, "TROUBLE_WAIT", timedelta(milliseconds=50))
    contact = Contact()
    ledger = Ledger(tmp_path / "ledger.json")
    fleet = stage.client.namespace
    watch = stage.supervision(
        autonomy=Autonomy(stage.engine, stage.fence, contact, ledger, fleet=fleet, host=stage.host)
    )
    real, knocks = stage.client.workflow_service.get_system_info, []

    async def nobody_answers(*_: object, **__: object) -> None:
        knocks.append(1)
        raise RPCError("nobody there", RPCStatusCode.UNAVAILABLE, b"")

    async with watch.running():
        await ready(watch)
        monkeypatch.setattr(stage.client.workflow_service, "get_system_info", nobody_answers)
        contact.note(False)
        stage.engine.vanish("web")

        async def is_knocked_at() -> bool:
            return len(knocks) >= 2

        await eventually_async(is_knocked_at, within=patience(5))
        assert await stage.told("web") == []
        monkeypatch.setattr(stage.client.workflow_service, "get_system_info", real)
        await stage.that_is_told("web", ContainerState.MISSING)
        assert contact.is_there
        assert names_of(await ready(watch, ResyncReason.RECONNECT)) == ["web"]


async def test_everything_is_looked_at_anew_now_and_then(stage: HostStage) -> None:
    """Give or take a fifth, so that hosts do not do it all at once."""
    watch = stage.supervision(resync_every=timedelta(milliseconds=300))
    async with watch.running():
        await ready(watch, ResyncReason.PERIODIC)


async def test_one_that_is_slow_to_be_told_keeps_no_other_from_it(stage: HostStage) -> None:
    """Each is checked for itself."""
    await stage.workload("slow")
    stage.container("slow")
    await stage.that_all_are_listed()
    watch = stage.supervision()
    async with watch.running():
        await ready(watch)
        async with stage.fence.alone("slow"):
            stage.engine.vanish("slow")
            stage.engine.vanish("web")
            await stage.that_is_told("web", ContainerState.MISSING)
        await stage.that_is_told("slow", ContainerState.MISSING)


async def test_a_stop_by_hand_that_takes_its_time_is_no_news_until_it_is_over(
    stage: HostStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it takes much longer than its grace it counts as one that was broken off."""
    monkeypatch.setattr(inspection, "SETTLE", timedelta(milliseconds=100))
    watch = stage.supervision()
    process = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with watch.running():
            await ready(watch)
            stage.engine.change(
                "web", state=ContainerState.STOPPING, pid=process.pid, stop_timeout=timedelta(0), being_stopped=True
            )
            await watch.resync(ResyncReason.ASKED)
            assert await stage.told("web") == []
            monkeypatch.setattr(inspection, "STUCK", timedelta(0))
            await watch.resync(ResyncReason.ASKED)
            await stage.that_is_told("web", ContainerState.STOPPING)
    finally:
        process.kill()
        await process.wait()
