# SPDX-License-Identifier: Apache-2.0
"""Containers that run and do no work."""

from __future__ import annotations

from datetime import timedelta

from perdure.model.observation import ContainerState, Health, Observation
from perdure.model.workload import RestartBackoff
from perdure.wire import names
from tests.fakes.engine import FakeEngine, Mutation
from tests.workflow.fleet import Fleet, spec

BACKOFF = RestartBackoff(initial=timedelta(seconds=60), reset_after=timedelta(days=3650))
"""The time of the engine does not leap: a run seems to be as long as the time that has been leapt over."""


async def health_is(fleet: Fleet, name: str, health: Health, reason: str = "") -> None:
    """The host tells of the health of the container that is up."""
    (one,) = fleet.engine.running(name)
    now = await fleet.environment.get_current_time()
    seen = Observation(
        container_id=one.container_id,
        generation=1,
        state=ContainerState.RUNNING,
        health=health,
        started_at=one.started_at,
        seen_at=now,
        reason=reason,
    )
    await fleet.signal(name, names.OBSERVE, seen)


async def test_unhealthy_is_shown_and_left_alone_where_nobody_asks_for_more(fleet: Fleet, engine: FakeEngine) -> None:
    """It is a substate, with its reason."""
    await fleet.apply("web", spec())
    await health_is(fleet, "web", Health.UNHEALTHY, "no answer")
    status = await fleet.until("web", "Running/Unhealthy")
    assert status.history[-1].reason == "unhealthy: no answer"
    await fleet.environment.sleep(timedelta(hours=1))
    await health_is(fleet, "web", Health.HEALTHY)
    assert (await fleet.until("web", "Running/Ok")).restarts == 0
    assert engine.mutations == [Mutation("create", "web", 1)]


async def test_unhealthy_is_restarted_ever_more_slowly_where_the_manifest_asks_for_it(
    fleet: Fleet, engine: FakeEngine
) -> None:
    """That run of the same container is ended when its restart is due, and how it ended is told."""
    await fleet.apply("web", spec(restart_unhealthy=True, restart_backoff=BACKOFF))
    (container,) = engine.running("web")
    for number in range(1, 6):
        await health_is(fleet, "web", Health.UNHEALTHY)
        if number > 1:
            status = await fleet.until("web", "Pending/RestartBackoff")
            assert status.next_attempt_at is not None
            assert timedelta(seconds=60) <= status.next_attempt_at - status.since <= timedelta(seconds=300)
        await fleet.environment.sleep(timedelta(seconds=301))
        status = await fleet.until("web", "Running/Ok")
        assert status.restarts == number
        assert status.last_exit is not None
        assert status.last_exit.code == 143
    assert [one.container_id for one in engine.running("web")] == [container.container_id]
    restarted = [Mutation("end", "web", 1), Mutation("start", "web", 1)]
    assert engine.mutations == [Mutation("create", "web", 1), *(5 * restarted)]


async def test_unhealthy_that_recovers_before_its_restart_is_not_ended(fleet: Fleet, engine: FakeEngine) -> None:
    """While it waits it runs, and nobody wants a healthy container to be ended."""
    await fleet.apply("web", spec(restart_unhealthy=True, restart_backoff=BACKOFF))
    await health_is(fleet, "web", Health.UNHEALTHY)
    await fleet.environment.sleep(timedelta(seconds=301))
    await fleet.that(lambda: Mutation("start", "web", 1) in engine.mutations, "it was restarted once")
    await fleet.until("web", "Running/Ok")
    mutations = list(engine.mutations)
    await health_is(fleet, "web", Health.UNHEALTHY)
    await fleet.until("web", "Pending/RestartBackoff")
    await health_is(fleet, "web", Health.HEALTHY)
    status = await fleet.until("web", "Running/Ok")
    assert status.history[-1].reason == "healthy again, before its restart"
    await fleet.environment.sleep(timedelta(hours=1))
    assert engine.mutations == mutations
