# SPDX-License-Identifier: Apache-2.0
"""Real workflows and activities, woken by a host that sees what a registry and a path are up to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from activities.causes import Cause
from activities.curves import place_on_curve
from activities.recovery import known_workloads
from activities.telling import Teller
from activities.wake import Wake
from perdure.model.faults import FaultKind, Phase
from perdure.model.messages import Outcome
from perdure.model.workload import PullPolicy
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.conftest import terminate_all
from tests.workflow.fleet import HOST, Fleet, fleet_of, host_workers, spec

IMAGE = "registry.example/app:1"
REFUSED = fault(FaultKind.REGISTRY_UNREACHABLE, "dial tcp 127.0.0.1:5000: connect: connection refused")


class World:
    """What a host can look at."""

    def __init__(self) -> None:
        self.away: str | None = "connection refused"

    async def look(self, cause: Cause) -> str | None:
        """See all causes alike."""
        return self.away


def awake(client: Client, world: World) -> Wake:
    """A host that looks."""
    return Wake(world.look, Teller(client, HOST).retry_now, partial(place_on_curve, client, HOST))


@pytest.fixture
def world() -> World:
    """In which everything is away at first."""
    return World()


@pytest.fixture
async def fleet(temporal: WorkflowEnvironment, engine: FakeEngine, world: World) -> AsyncIterator[Fleet]:
    """A fleet in time that leaps, whose host looks."""
    async with fleet_of(temporal, engine, host=False) as fleet, host_workers(fleet, wake=awake(temporal.client, world)):
        yield fleet


@asynccontextmanager
async def served(fleet: Fleet, world: World) -> AsyncIterator[Wake]:
    """A host's worker, from its start to its end."""
    wake = awake(fleet.client, world)
    async with host_workers(fleet, wake=wake):
        yield wake


async def failed(fleet: Fleet, name: str, kind: FaultKind) -> int:
    """Wait until a try has failed in some way, as the memo tells; answers the number of that try."""

    async def look() -> int:
        status = await fleet.status(name)
        assert status.last_error is not None
        assert status.last_error.kind is kind, status.model_dump_json(exclude={"history"})
        return status.last_error.attempt

    return await eventually_async(look, within=30, what=f"{name} has failed by {kind}")


async def test_an_outage_of_two_hours_ends_for_all_at_once(fleet: Fleet, engine: FakeEngine, world: World) -> None:
    """They would wait for minutes by then; they run a few seconds after the registry is back, by one try each."""
    engine.pull_faults[""] = REFUSED
    workloads = [f"web-{number}" for number in range(5)]
    for name in workloads:
        await fleet.apply(name, spec(IMAGE))
    await fleet.environment.sleep(timedelta(hours=2))
    tries = len(engine.pulls)
    assert tries < 5 * 60
    for name in workloads:
        await fleet.until(name, "Pending/PullBackoff")
    engine.pull_faults.clear()
    world.away = None
    back = await fleet.environment.get_current_time()
    for name in workloads:
        status = await fleet.until(name, "Running/Ok", within=30)
        assert status.since - back <= timedelta(seconds=20), "ten, on a machine that does nothing else"
    assert len(engine.pulls) <= tries + len(workloads)
    assert await fleet.events(workloads[0]) < 100


async def test_a_path_that_appears_wakes_the_start(fleet: Fleet, engine: FakeEngine, world: World) -> None:
    """A mount's source that was missing for an hour (case C3)."""
    engine.images.add(IMAGE)
    world.away = "no such file or directory"
    engine.start_faults[""] = fault(
        FaultKind.MOUNT_SOURCE_MISSING, "statfs /srv/disk: no such file or directory", phase=Phase.START
    )
    answer = await fleet.apply("web", spec(IMAGE))
    assert answer.error is not None
    assert answer.error.hint.endswith(
        "/srv/disk is looked for every few seconds, and the start follows as soon as it is there"
    )
    await fleet.environment.sleep(timedelta(hours=1))
    engine.start_faults.clear()
    world.away = None
    back = await fleet.environment.get_current_time()
    status = await fleet.until("web", "Running/Ok", within=30)
    assert status.since - back <= timedelta(seconds=20)


async def test_a_local_image_is_used_while_its_registry_is_known_to_be_away(
    fleet: Fleet, engine: FakeEngine, world: World
) -> None:
    """With missing and newer, as ever; with always it waits, and no pull is made for that (case L6)."""
    engine.images.add(IMAGE)
    engine.pull_faults[""] = REFUSED
    await fleet.apply("first", spec("registry.example/other:1"))
    pulls = len(engine.pulls)
    assert (await fleet.apply("missing", spec(IMAGE))).outcome is Outcome.RUNNING
    assert (await fleet.apply("newer", spec(IMAGE, pull_policy=PullPolicy.NEWER))).outcome is Outcome.RUNNING
    assert "could not be refreshed, the local one is used: RegistryUnreachable" in (await fleet.status("newer")).warning
    always = await fleet.apply("always", spec(IMAGE, pull_policy=PullPolicy.ALWAYS))
    assert always.outcome is Outcome.RETRYING
    assert always.error is not None
    assert "registry.example does not answer (connection refused)" in always.error.message
    assert engine.pulls[pulls:].count(IMAGE) == 0


async def test_a_retry_is_made_though_the_registry_is_known_to_be_away(
    fleet: Fleet, engine: FakeEngine, world: World
) -> None:
    """A person may know better."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec(IMAGE))
    await fleet.environment.sleep(timedelta(minutes=1))
    engine.pull_faults.clear()
    await fleet.retry("web")
    await fleet.until("web", "Running/Ok")


async def test_a_worker_that_starts_wakes_those_that_failed_before(
    dev_client: Client, engine: FakeEngine, world: World
) -> None:
    """It learns by their memos who waits, and by the server how far each is on its curve, though most failures were not told."""
    engine.pull_faults[""] = REFUSED
    async with fleet_of(WorkflowEnvironment.from_client(dev_client), engine, host=False) as fleet:
        world.away = None
        async with served(fleet, world):
            await fleet.apply("web", spec(IMAGE))
            await fleet.that(lambda: len(engine.pulls) >= 3, "it was tried some times")
        told, tries = (await fleet.status("web")).attempt, len(engine.pulls)
        assert told < tries
        engine.pull_faults[""] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
        async with served(fleet, world) as wake:

            async def learned() -> bool:
                known = await known_workloads(dev_client, HOST)
                wake.learn(known)
                return "web" in known

            await eventually_async(learned, within=15, what="the list shows it")
            assert await failed(fleet, "web", FaultKind.IMAGE_NOT_FOUND) == tries + 1
    await terminate_all(dev_client)
