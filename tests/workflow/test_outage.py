# SPDX-License-Identifier: Apache-2.0
"""Failures that last: what they cost, what is told of them, and how they end."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate, count, takewhile

import pytest
from temporalio.testing import WorkflowEnvironment

from perdure.model.faults import FaultClass, FaultKind, Phase
from perdure.model.messages import Outcome
from perdure.model.workload import PullPolicy, Retry
from perdure.policy import backoff, identity
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.fleet import Fleet, fleet_of, spec

REFUSED = fault(FaultKind.REGISTRY_UNREACHABLE, "dial tcp 127.0.0.1:5000: connect: connection refused")
INVALID = fault(FaultKind.INVALID_OPTION, "no such thing", phase=Phase.START, fault_class=FaultClass.PERMANENT)


async def test_a_registry_outage_of_three_days_costs_little_history(fleet: Fleet, engine: FakeEngine) -> None:
    """Fewer than a hundred events: a failed try that repeats the same error costs none, and reports become rare."""
    engine.pull_faults[""] = REFUSED
    outcome = await fleet.apply("web", spec())
    assert outcome.outcome is Outcome.RETRYING
    before = await fleet.status("web")
    for _ in range(36):
        await fleet.environment.sleep(timedelta(hours=2))
    tries = len(engine.pulls)
    assert tries > 1000, "it goes on trying"
    status = await fleet.until("web", "Pending/PullBackoff")
    assert await fleet.events("web") < 100
    assert status.last_error is not None
    assert before.last_error is not None
    assert status.last_error.first_at == before.last_error.first_at
    assert status.last_error.last_at - status.last_error.first_at > timedelta(days=1)
    assert tries / 4 < status.last_error.count <= tries
    engine.pull_faults.clear()
    await fleet.environment.sleep(timedelta(seconds=310))
    status = await fleet.until("web", "Running/Ok")
    assert status.generation == 1


async def test_the_waits_are_those_of_the_curve(fleet: Fleet, engine: FakeEngine) -> None:
    """In six hours there are as many tries as the seed foretells, give or take what a server's whole seconds make."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    status = await fleet.status("web")
    for _ in range(3):
        await fleet.environment.sleep(timedelta(hours=2))
    seed = identity.seed(status.incarnation, 1, Phase.PULL)
    waits = (backoff.delay(n, seed=seed, base=Retry().initial_interval, cap=Retry().maximum_interval) for n in count(1))
    due = takewhile(lambda passed: passed < timedelta(hours=6), accumulate(waits))
    assert len(engine.pulls) == pytest.approx(1 + len(list(due)), abs=2)


async def test_giving_up_comes_just_before_the_limit(fleet: Fleet, engine: FakeEngine) -> None:
    """The last try falls near the deadline, not up to a whole wait before it; then the workload is parked, loudly."""
    engine.pull_faults[""] = REFUSED
    began = await fleet.environment.get_current_time()
    await fleet.apply("web", spec(retry=Retry(give_up_after=timedelta(hours=2))))
    await fleet.environment.sleep(timedelta(minutes=115))
    assert (await fleet.status("web")).substate == "PullBackoff"
    await fleet.environment.sleep(timedelta(minutes=6))
    status = await fleet.until("web", "Failed/GaveUp")
    assert timedelta(minutes=119, seconds=50) < status.since - began <= timedelta(minutes=120, seconds=2)
    assert status.last_error is not None
    assert status.last_error.kind is FaultKind.REGISTRY_UNREACHABLE
    tries = len(engine.pulls)
    await fleet.environment.sleep(timedelta(hours=2))
    assert len(engine.pulls) == tries, "nothing is tried while it is parked"
    engine.pull_faults.clear()
    await fleet.retry("web")
    await fleet.until("web", "Running/Ok")


async def test_the_central_limit_holds_where_the_manifest_is_silent(
    temporal: WorkflowEnvironment, engine: FakeEngine
) -> None:
    """The control worker's setting parks a workload; a manifest that says otherwise wins."""
    engine.pull_faults[""] = REFUSED
    async with fleet_of(temporal, engine, give_up_after=timedelta(minutes=10)) as fleet:
        await fleet.apply("silent", spec())
        await fleet.apply("own", spec(retry=Retry(give_up_after=timedelta(days=1))))
        await temporal.sleep(timedelta(minutes=15))
        await fleet.until("silent", "Failed/GaveUp")
        await fleet.until("own", "Pending/PullBackoff")


async def test_a_permanent_fault_parks_until_something_changes(fleet: Fleet, engine: FakeEngine) -> None:
    """It is tried once; `retry` tries once more; a newer manifest cures it."""
    engine.images |= {"reg/app:1", "reg/app:2"}
    engine.start_faults["reg/app:1"] = INVALID
    outcome = await fleet.apply("web", spec("reg/app:1"))
    assert outcome.outcome is Outcome.REJECTED
    await fleet.until("web", "Failed/Rejected")
    await fleet.environment.sleep(timedelta(days=1))
    assert len(engine.starts) == 1
    again = await fleet.apply("web", spec("reg/app:1"))
    assert again.outcome is Outcome.REJECTED, "the same manifest again changes nothing, and says so"
    await fleet.retry("web")
    await fleet.that(lambda: len(engine.starts) == 2, "retry tries again")
    await fleet.until("web", "Failed/Rejected")
    assert (await fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING


async def test_retry_now_ends_a_wait_and_keeps_the_place_on_the_curve(fleet: Fleet, engine: FakeEngine) -> None:
    """The number of the try goes on from where it was (case S4)."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    await fleet.environment.sleep(timedelta(hours=1))
    tries = len(engine.pulls)
    assert tries > 10
    await fleet.retry("web", attempt=tries)
    await fleet.that(lambda: len(engine.pulls) == tries + 1, "it is tried at once")

    async def attempt() -> bool:
        return (await fleet.status("web")).attempt == tries + 1

    await eventually_async(attempt, within=10, what="the try is counted on the same curve")
    unchanged = await fleet.apply("web", spec())
    assert unchanged.outcome is Outcome.RETRYING
    assert (await fleet.status("web")).attempt == tries + 1, "the same spec again leaves the curve alone"


async def test_a_new_generation_begins_a_fresh_curve(fleet: Fleet, engine: FakeEngine) -> None:
    """However long v1 failed, the second try of v2 follows within a second or two (case S4)."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec("reg/app:1"))
    await fleet.environment.sleep(timedelta(hours=5))
    await fleet.apply("web", spec("reg/app:2"))
    status = await fleet.status("web")
    assert (status.attempt, status.generation) == (1, 2)
    await fleet.environment.sleep(timedelta(seconds=3))
    assert engine.pulls.count("reg/app:2") >= 2


async def test_a_deleted_and_created_workload_is_tried_at_once(fleet: Fleet, engine: FakeEngine) -> None:
    """Nothing of the old curve is left (case S5)."""
    engine.pull_faults["reg/bad:1"] = REFUSED
    await fleet.apply("web", spec("reg/bad:1"))
    await fleet.environment.sleep(timedelta(hours=5))
    await fleet.signal("web", names.REMOVE)
    await fleet.handle("web").result()
    outcome = await fleet.apply("web", spec("reg/good:1"))
    assert outcome.outcome is Outcome.RUNNING
    assert outcome.generation == 1


async def test_removal_in_backoff_is_done_at_once_and_ends_all_requests(fleet: Fleet, engine: FakeEngine) -> None:
    """Nobody waits for the end of a backoff (case L2)."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    await fleet.environment.sleep(timedelta(hours=5))
    tries = len(engine.pulls)
    began = await fleet.environment.get_current_time()
    await fleet.signal("web", names.REMOVE)
    await fleet.handle("web").result()
    assert await fleet.environment.get_current_time() - began < timedelta(seconds=5)
    await fleet.environment.sleep(timedelta(hours=1))
    assert len(engine.pulls) == tries


async def test_an_error_that_changes_is_reported(fleet: Fleet, engine: FakeEngine) -> None:
    """Kind or text differ: the status tells the new one, and the substate does not flicker."""
    engine.pull_faults[""] = REFUSED
    await fleet.apply("web", spec())
    engine.pull_faults[""] = fault(FaultKind.UNAUTHORIZED, "unauthorized: authentication required")
    await fleet.environment.sleep(timedelta(seconds=10))
    status = await fleet.until("web", "Pending/PullBackoff")
    assert status.last_error is not None
    assert status.last_error.kind is FaultKind.UNAUTHORIZED
    assert status.last_error.count >= 1
    assert [step.substate for step in status.history].count(status.substate) == 1


async def test_an_image_that_vanishes_after_each_pull_is_not_fetched_in_a_storm(
    fleet: Fleet, engine: FakeEngine
) -> None:
    """Something on the host removes images: the pulls become rare, and the workload runs when that ends."""
    engine.start_faults[""] = fault(FaultKind.IMAGE_MISSING, "not local", phase=Phase.START)
    await fleet.send("web", spec())
    await fleet.environment.sleep(timedelta(hours=1))
    assert 5 < len(engine.starts) < 120
    engine.start_faults.clear()
    await fleet.environment.sleep(timedelta(seconds=310))
    await fleet.until("web", "Running/Ok")


@pytest.mark.parametrize("policy", [PullPolicy.ALWAYS, PullPolicy.NEWER])
async def test_some_policies_fetch_before_each_generation_and_not_before_a_restart(
    fleet: Fleet, engine: FakeEngine, policy: PullPolicy
) -> None:
    """A restart uses what is there: a registry that is down must not keep a crashed container down."""
    engine.images.add("reg/app:1")
    await fleet.apply("web", spec(pull_policy=policy))
    assert engine.pulls == ["reg/app:1"]
    await fleet.container_ended("web", 1)
    await fleet.environment.sleep(timedelta(seconds=10))
    await fleet.until("web", "Running/Ok")
    assert engine.pulls == ["reg/app:1"]


async def test_newer_starts_with_a_warning_while_the_registry_is_down(fleet: Fleet, engine: FakeEngine) -> None:
    """The local image is good enough (case L6); with `always` it is not."""
    engine.images.add("reg/app:1")
    engine.pull_faults[""] = REFUSED
    assert (await fleet.apply("web", spec(pull_policy=PullPolicy.NEWER))).outcome is Outcome.RUNNING
    assert "connection refused" in (await fleet.status("web")).warning
    assert (await fleet.apply("api", spec(pull_policy=PullPolicy.ALWAYS))).outcome is Outcome.RETRYING
    assert (await fleet.apply("job", spec(pull_policy=PullPolicy.MISSING))).outcome is Outcome.RUNNING


async def test_never_waits_for_an_image_that_is_brought_by_hand(fleet: Fleet, engine: FakeEngine) -> None:
    """It is told as a transient fault, and heals when the image is loaded."""
    outcome = await fleet.apply("web", spec(pull_policy=PullPolicy.NEVER))
    assert outcome.outcome is Outcome.RETRYING
    assert outcome.error is not None
    assert outcome.error.kind is FaultKind.IMAGE_MISSING
    assert not engine.pulls
    engine.images.add("reg/app:1")
    await fleet.environment.sleep(timedelta(seconds=10))
    await fleet.until("web", "Running/Ok")
