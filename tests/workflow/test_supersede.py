# SPDX-License-Identifier: Apache-2.0
"""A newer wish in each phase of an older one; order, refusals and storms."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.model.faults import FaultClass, FaultKind, Phase
from perdure.model.messages import Outcome
from perdure.model.workload import RestartPolicy, Retry
from perdure.wire import names
from tests.fakes.engine import FakeEngine, Mutation, fault
from tests.workflow.fleet import Fleet, spec

REFUSED = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")


async def test_in_backoff(fleet: Fleet, engine: FakeEngine) -> None:
    """At the cap of its curve v1 gives way at once, and is never asked for again (case S1)."""
    engine.registry = {"reg/app:2"}
    await fleet.apply("web", spec("reg/app:1"))
    await fleet.environment.sleep(timedelta(hours=5))
    tries = engine.pulls.count("reg/app:1")
    assert (await fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING
    await fleet.environment.sleep(timedelta(hours=1))
    assert engine.pulls.count("reg/app:1") == tries
    assert {mutation.generation for mutation in engine.mutations} == {2}


async def test_in_a_hanging_pull(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The pull of v1 is cancelled; somebody who waits for v1 is told that it was superseded (case S2)."""
    engine.hanging_pulls.add("reg/app:1")
    waiting = asyncio.create_task(real_fleet.apply("web", spec("reg/app:1")))
    await real_fleet.that(lambda: bool(engine.pulls), "v1 is being pulled")
    assert (await real_fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING
    assert (await waiting).outcome is Outcome.SUPERSEDED
    assert engine.cancelled == ["pull reg/app:1"]


async def test_in_a_hanging_start(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The start of v1 is cancelled and waited for before v2 touches anything."""
    engine.images |= {"reg/app:1", "reg/app:2"}
    engine.hanging_starts.add("reg/app:1")
    await real_fleet.send("web", spec("reg/app:1"))
    await real_fleet.that(lambda: bool(engine.starts), "v1 is being started")
    assert (await real_fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING
    assert engine.cancelled == ["start reg/app:1"]


async def test_while_running_the_old_one_stays_until_the_new_image_is_here(
    real_fleet: Fleet, engine: FakeEngine
) -> None:
    """The status shows the target, and what is really up (case C9)."""
    await real_fleet.apply("web", spec("reg/app:1"))
    engine.hanging_pulls.add("reg/app:2")
    await real_fleet.send("web", spec("reg/app:2"))
    await real_fleet.that(lambda: "reg/app:2" in engine.pulls, "v2 is being pulled")
    status = await real_fleet.until("web", "Pending/Pulling")
    assert status.live is not None
    assert (status.generation, status.live.generation) == (2, 1)
    assert [one.owner.generation for one in engine.running("web")] == [1]
    engine.hanging_pulls.clear()
    assert (await real_fleet.apply("web", spec("reg/app:3"))).outcome is Outcome.RUNNING
    assert [one.owner.generation for one in engine.running("web")] == [3]


async def test_a_parked_and_a_crash_looping_one(fleet: Fleet, engine: FakeEngine) -> None:
    """Neither a permanent fault nor a wait before a restart stands in the way (case S9)."""
    engine.images |= {"reg/app:1", "reg/app:2", "reg/app:3"}
    engine.start_faults["reg/app:1"] = fault(
        FaultKind.INVALID_OPTION, "no", phase=Phase.START, fault_class=FaultClass.PERMANENT
    )
    assert (await fleet.apply("web", spec("reg/app:1"))).outcome is Outcome.REJECTED
    assert (await fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING
    for _ in range(8):
        await fleet.container_ended("web", 1)
        await fleet.environment.sleep(timedelta(seconds=310))
        await fleet.until("web", "Running/Ok")
    await fleet.container_ended("web", 1)
    await fleet.until("web", "Pending/RestartBackoff")
    assert (await fleet.apply("web", spec("reg/app:3"))).outcome is Outcome.RUNNING
    assert len(engine.containers) == 1


async def test_an_older_revision_is_stale(fleet: Fleet) -> None:
    """Revisions 3, 2, 3, 1 end at 3; the refusals stand in the history (case S3)."""
    assert (await fleet.apply("web", spec("reg/app:3"), revision=3)).outcome is Outcome.RUNNING
    stale = await fleet.apply("web", spec("reg/app:2"), revision=2)
    assert stale.outcome is Outcome.STALE
    assert "revision 2 is older than revision 3" in stale.message
    assert (await fleet.apply("web", spec("reg/app:3"), revision=3)).outcome is Outcome.UNCHANGED
    assert (await fleet.apply("web", spec("reg/app:1"), revision=1)).outcome is Outcome.STALE
    status = await fleet.status("web")
    assert (status.image, status.revision, status.generation) == ("reg/app:3", 3, 1)
    assert sum("refused (stale)" in step.reason for step in status.history) == 2


async def test_of_two_with_the_same_expectation_one_wins(real_fleet: Fleet) -> None:
    """The other one is told that it conflicts (case S6)."""
    await real_fleet.apply("web", spec("reg/app:1"))
    outcomes = await asyncio.gather(
        *(real_fleet.apply("web", spec(f"reg/app:{tag}"), expect_generation=1) for tag in ("a", "b"))
    )
    assert sorted(one.outcome for one in outcomes) == [Outcome.CONFLICT, Outcome.RUNNING]
    assert (await real_fleet.status("web")).generation == 2


async def test_five_versions_in_a_second_for_three_workloads(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Only the last one runs, and nothing is made before its own pull (case S7)."""
    workloads = ("a", "b", "c")
    for version in range(1, 6):
        await asyncio.gather(*(real_fleet.send(name, spec(f"reg/app:{version}")) for name in workloads))
    for name in workloads:
        status = await real_fleet.until(name, "Running/Ok")
        assert (status.image, status.generation) == ("reg/app:5", 5)
        generations = [mutation.generation for mutation in engine.mutations if mutation.workload == name]
        assert max(generations) == 5
        assert generations == sorted(generations) or Mutation("remove", name, 5) not in engine.mutations
    assert engine.most_alive == 1


async def test_settings_take_effect_without_touching_the_container(fleet: Fleet, engine: FakeEngine) -> None:
    """A tag, the retry and the restart settings (case S8)."""
    await fleet.apply("web", spec())
    (before,) = engine.running("web")
    outcome = await fleet.apply("web", spec(tags={"team": "shop"}, retry=Retry(give_up_after=timedelta(hours=1))))
    assert outcome.outcome is Outcome.UPDATED
    assert engine.running("web") == [before]
    status = await fleet.status("web")
    assert status.live is not None
    assert (status.generation, status.live.generation) == (2, 2)
    await fleet.apply("web", spec(restart=RestartPolicy.NEVER))
    await fleet.container_ended("web", 0)
    await fleet.until("web", "Succeeded/Ok")
    await fleet.apply("web", spec(restart=RestartPolicy.ALWAYS))
    await fleet.until("web", "Running/Ok")
    assert len(engine.mutations) == 2, "made once, started again once"


async def test_new_retry_settings_hold_in_an_outage(fleet: Fleet, engine: FakeEngine) -> None:
    """A limit that is set while it fails ends the trying; the container spec is the same, and so is the curve."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    await fleet.environment.sleep(timedelta(minutes=30))
    await fleet.send("web", spec(retry=Retry(give_up_after=timedelta(minutes=45))))
    await fleet.environment.sleep(timedelta(minutes=20))
    await fleet.until("web", "Failed/GaveUp")


async def test_applied_again_during_a_slow_removal_it_lives_again(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The removal is finished first; then a new life begins, at generation 1 (case S10)."""
    await real_fleet.apply("web", spec("reg/app:1"))
    old = (await real_fleet.status("web")).incarnation
    engine.stop_seconds = 0.5
    await real_fleet.signal("web", names.REMOVE)
    await real_fleet.until("web", "Stopping/Stopping")
    outcome = await real_fleet.apply("web", spec("reg/app:2"))
    assert (outcome.outcome, outcome.generation) == (Outcome.RUNNING, 1)
    status = await real_fleet.until("web", "Running/Ok")
    assert status.incarnation != old
    assert [mutation.what for mutation in engine.mutations] == ["create", "remove", "create"]


async def test_a_removal_that_fails_is_tried_for_ever(fleet: Fleet, engine: FakeEngine) -> None:
    """It is shown as StopBackoff, and done when it can be; even a permanent fault does not park it."""
    await fleet.apply("web", spec())
    engine.stop_fault = fault(FaultKind.STOP_FAILED, "it cannot be stopped", phase=Phase.STOP)
    await fleet.signal("web", names.REMOVE)
    await fleet.until("web", "Stopping/StopBackoff")
    engine.stop_fault = None
    assert await fleet.handle("web").result() == "removed at generation 1"


async def test_delete_during_a_pull_leaves_nothing(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The pull is cancelled, and whoever waits is told within two seconds (cases S10, U3)."""
    engine.hanging_pulls.add("reg/app:1")
    waiting = asyncio.create_task(real_fleet.apply("web", spec("reg/app:1")))
    await real_fleet.that(lambda: bool(engine.pulls), "it is being pulled")
    await real_fleet.signal("web", names.REMOVE)
    async with asyncio.timeout(2):
        assert (await waiting).outcome is Outcome.REMOVED
    await real_fleet.handle("web").result()
    assert not engine.containers


async def test_a_request_to_cancel_is_a_removal(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The big button of the Web UI leaves no container behind, in whatever phase."""
    await real_fleet.apply("web", spec())
    await real_fleet.handle("web").cancel()
    assert await real_fleet.handle("web").result() == "removed at generation 1"
    assert not engine.containers
    engine.hanging_pulls.add("reg/app:2")
    await real_fleet.send("api", spec("reg/app:2"))
    await real_fleet.that(lambda: "reg/app:2" in engine.pulls, "it is being pulled")
    await real_fleet.handle("api").cancel()
    assert await real_fleet.handle("api").result() == "removed at generation 1"
    assert engine.cancelled == ["pull reg/app:2"]


async def test_a_cancel_together_with_a_newer_manifest_still_removes(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The two in one workflow task must not swallow one another."""
    engine.hanging_pulls.add("reg/app:1")
    await real_fleet.send("web", spec("reg/app:1"))
    await real_fleet.that(lambda: bool(engine.pulls), "it is being pulled")
    await asyncio.gather(real_fleet.send("web", spec("reg/app:2")), real_fleet.handle("web").cancel())
    await real_fleet.handle("web").result()
    assert not engine.containers


@pytest.mark.parametrize("again", [False, True])
async def test_pause_leaves_what_runs_and_resume_takes_up_what_came(
    fleet: Fleet, engine: FakeEngine, again: bool
) -> None:
    """While paused nothing is touched; a newer manifest waits for resume."""
    await fleet.apply("web", spec("reg/app:1"))
    await fleet.signal("web", names.PAUSE)
    await fleet.until("web", "Paused/Ok")
    if again:
        assert (await fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.PAUSED
    await fleet.environment.sleep(timedelta(hours=1))
    assert [one.owner.generation for one in engine.running("web")] == [1]
    await fleet.signal("web", names.RESUME)
    await fleet.until("web", "Running/Ok")
    assert [one.owner.generation for one in engine.running("web")] == [2 if again else 1]


async def test_pause_holds_a_backoff_and_a_pull(fleet: Fleet, engine: FakeEngine) -> None:
    """Nothing is tried while paused, and the curve goes on after."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    await fleet.environment.sleep(timedelta(minutes=30))
    await fleet.signal("web", names.PAUSE)
    await fleet.until("web", "Paused/Ok")
    tries = len(engine.pulls)
    await fleet.environment.sleep(timedelta(hours=2))
    assert len(engine.pulls) == tries
    engine.pull_faults.clear()
    await fleet.signal("web", names.RESUME)
    await fleet.until("web", "Running/Ok")
