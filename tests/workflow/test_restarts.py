# SPDX-License-Identifier: Apache-2.0
"""Containers that end by themselves, or are taken away."""

from __future__ import annotations

from datetime import timedelta

from perdure.model.messages import Outcome
from perdure.model.observation import ContainerState, Observation
from perdure.model.workload import RestartBackoff, RestartPolicy
from perdure.wire import names
from tests.fakes.engine import FakeEngine
from tests.workflow.fleet import Fleet, spec


async def test_a_crash_loop_slows_down_and_recovers(fleet: Fleet, engine: FakeEngine) -> None:
    """Two hundred ends in a row: the waits stay within the cap, and then it runs without a human (case R1)."""
    await fleet.apply("web", spec())
    (container,) = engine.running("web")
    status = await fleet.status("web")
    for number in range(1, 41):
        await fleet.container_ended("web", 1)
        began = await fleet.environment.get_current_time()
        await fleet.environment.sleep(timedelta(seconds=301))
        status = await fleet.until("web", "Running/Ok")
        assert status.restarts == number
        assert status.since - began <= timedelta(seconds=302)
    assert [one.container_id for one in engine.running("web")] == [container.container_id], "the same container"
    assert status.last_exit is not None
    assert status.last_exit.code == 1


async def test_success_and_failure_end_a_workload_by_its_policy(fleet: Fleet, engine: FakeEngine) -> None:
    """OnFailure lets 0 be, never lets all be, and what ended stays so (case N1)."""
    await fleet.apply("job", spec(restart=RestartPolicy.ON_FAILURE))
    await fleet.container_ended("job", 3)
    await fleet.environment.sleep(timedelta(seconds=5))
    await fleet.until("job", "Running/Ok")
    await fleet.container_ended("job", 0)
    await fleet.until("job", "Succeeded/Ok")
    await fleet.apply("once", spec(restart=RestartPolicy.NEVER))
    await fleet.container_ended("once", 42)
    status = await fleet.until("once", "Failed/Exited")
    assert status.last_exit is not None
    assert status.last_exit.code == 42
    starts = len(engine.starts)
    await fleet.environment.sleep(timedelta(days=1))
    assert len(engine.starts) == starts


async def test_the_limit_of_restarts_ends_a_crash_loop(fleet: Fleet, engine: FakeEngine) -> None:
    """The reason says so."""
    await fleet.apply("web", spec(restart_backoff=RestartBackoff(limit=2)))
    for _ in range(2):
        await fleet.container_ended("web", 1)
        await fleet.environment.sleep(timedelta(seconds=30))
        await fleet.until("web", "Running/Ok")
    await fleet.container_ended("web", 1)
    status = await fleet.until("web", "Failed/Exited")
    assert "limit of 2 restarts" in status.history[-1].reason


async def test_a_container_that_is_taken_away_comes_back_at_once(fleet: Fleet, engine: FakeEngine) -> None:
    """Whatever the policy; the history says why (case R2)."""
    await fleet.apply("web", spec(restart=RestartPolicy.NEVER))
    await fleet.container_vanished("web")
    await fleet.that(lambda: bool(engine.running("web")), "it is back")
    status = await fleet.until("web", "Running/Ok")
    assert any(step.substate == "RestartBackoff" for step in status.history)


async def test_old_news_changes_nothing(fleet: Fleet, engine: FakeEngine) -> None:
    """The end of a container that was replaced meanwhile is none of the present one."""
    await fleet.apply("web", spec("reg/app:1"))
    old = (await fleet.status("web")).live
    assert old is not None
    assert (await fleet.apply("web", spec("reg/app:2"))).outcome is Outcome.RUNNING
    now = await fleet.environment.get_current_time()
    seen = Observation(container_id=old.container_id, generation=1, state=ContainerState.MISSING, seen_at=now)
    await fleet.signal("web", names.OBSERVE, seen)
    await fleet.environment.sleep(timedelta(minutes=10))
    status = await fleet.status("web")
    assert (f"{status.state}", status.restarts) == ("Running", 0)


async def test_what_has_ended_runs_once_more_by_retry(fleet: Fleet, engine: FakeEngine) -> None:
    """The same container, whatever its policy."""
    await fleet.apply("job", spec(restart=RestartPolicy.NEVER))
    (container,) = engine.running("job")
    await fleet.container_ended("job", 3)
    await fleet.until("job", "Failed/Exited")
    await fleet.retry("job")
    await fleet.until("job", "Running/Ok")
    assert [one.container_id for one in engine.running("job")] == [container.container_id]
