# SPDX-License-Identifier: Apache-2.0
"""What every engine does, whether it is Podman or the fake of the workflow tests: a fake that drifts away proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from activities.engine import EngineFault, Event, EventKind
from perdure.model.observation import ContainerState, Run
from perdure.model.workload import Healthcheck
from tests.engine.hands import FakeHands, Hands, PodmanHands
from tests.engine.workload import HOST, Workload
from tests.fakes.engine import FakeEngine
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async

AT_ONCE = timedelta(0)
NOWHERE = "0" * 64


@pytest.fixture(params=["podman", "fake"])
def scene(request: pytest.FixtureRequest, workload: Workload, podman: IsolatedPodman) -> tuple[Workload, Hands]:
    """A workload without containers, and somebody who can do things to them."""
    if request.param == "podman":
        return workload, PodmanHands(podman)
    fake = FakeEngine(images={workload.image})
    return Workload(fake, workload.image), FakeHands(fake)


async def state_of(workload: Workload) -> ContainerState:
    """The state of the one container."""
    (managed,) = await workload.containers()
    return managed.state


async def listening(workload: Workload, hear: Callable[[Event], None]) -> None:
    """Hear what happens, until called off."""
    async for event in workload.engine.events(workload.fleet, HOST):
        hear(event)


async def test_events_tell_what_happens_from_the_first_wait_on(scene: tuple[Workload, Hands]) -> None:
    """Of this fleet and host only, and whoever listens is free at once when called off."""
    workload, hands = scene
    stranger = Workload(workload.engine, workload.image, name="other")
    events: list[Event] = []
    listener = asyncio.create_task(listening(workload, events.append))
    await asyncio.sleep(0)
    await stranger.ensure()
    live = await workload.ensure()
    await hands.kill(workload)
    await workload.engine.start_again(live.container_id)
    await hands.remove(workload)
    await stranger.remove()

    async def all_told() -> bool:
        return bool(events) and events[-1].kind is EventKind.REMOVED

    await eventually_async(all_told, within=5)
    called_off = asyncio.get_running_loop().time()
    listener.cancel()
    await asyncio.wait([listener])
    assert asyncio.get_running_loop().time() - called_off < 0.5
    assert {(event.workload, event.container_id) for event in events} == {("web", live.container_id)}
    kinds = [event.kind for event in events]
    assert kinds[:1] == [EventKind.STARTED]
    assert kinds.count(EventKind.STARTED) == 2


async def test_what_ended_is_started_again_as_it_is(scene: tuple[Workload, Hands]) -> None:
    """The same container, another run; one that runs already is left alone."""
    workload, hands = scene
    first = await workload.ensure()
    await hands.kill(workload)
    again = await workload.engine.start_again(first.container_id)
    assert again is not None
    assert (again.container_id, again.generation) == (first.container_id, first.generation)
    assert again.started_at != first.started_at
    assert await state_of(workload) is ContainerState.RUNNING
    assert await workload.engine.start_again(first.container_id) == again


async def test_what_cannot_be_started_is_left_as_it_is(scene: tuple[Workload, Hands]) -> None:
    """Nothing is made and nothing removed: a host that acts alone may do neither."""
    workload, hands = scene
    live = await workload.ensure()
    await hands.pause(workload)
    assert await workload.engine.start_again(live.container_id) is None
    assert await state_of(workload) is ContainerState.PAUSED
    await hands.remove(workload)
    assert await workload.engine.start_again(live.container_id) is None
    assert await workload.containers() == []


async def test_one_run_is_ended_and_no_other(scene: tuple[Workload, Hands]) -> None:
    """What was decided about one run never hits the next one of the same container."""
    workload, hands = scene
    first = await workload.ensure()
    run = Run(container_id=first.container_id, started_at=first.started_at)
    assert await workload.engine.end_run(run, AT_ONCE)
    assert await state_of(workload) is ContainerState.EXITED
    assert not await workload.engine.end_run(run, AT_ONCE)
    await workload.ensure()
    assert not await workload.engine.end_run(run, AT_ONCE)
    assert await state_of(workload) is ContainerState.RUNNING
    assert not await workload.engine.end_run(Run(container_id=NOWHERE, started_at=datetime.now(UTC)), AT_ONCE)
    await hands.remove(workload)


async def test_a_healthcheck_is_known_and_run(scene: tuple[Workload, Hands]) -> None:
    """Once, with a verdict on this run alone; where it cannot be run that is a fault."""
    workload, hands = scene
    check = Healthcheck(test=("CMD", "true"), interval=timedelta(seconds=7), timeout=timedelta(seconds=3))
    if isinstance(workload.engine, FakeEngine):
        workload.engine.healthchecks["web"] = check
    live = await workload.ensure(workload.spec(healthcheck=check))
    assert await workload.engine.healthcheck_of(live.container_id) == check
    assert (await workload.engine.check_health(live.container_id)).healthy
    await hands.kill(workload)
    for container_id in (live.container_id, NOWHERE):
        with pytest.raises(EngineFault):
            await workload.engine.check_health(container_id)
    assert await workload.engine.healthcheck_of(NOWHERE) is None
