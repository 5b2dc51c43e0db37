# SPDX-License-Identifier: Apache-2.0
"""What follows from a healthcheck that fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.model.faults import Phase
from perdure.model.messages import ApplyRequest, RetryRequest
from perdure.model.observation import ContainerState, Health, LastExit, Live, Observation, Run
from perdure.model.record import Course, Record
from perdure.model.workload import ContainerSpec, RestartBackoff, RestartPolicy, WorkloadSpec
from perdure.policy import attempts, sightings, wishes
from perdure.policy.plan import Act, next_step

NOW = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LIVE = Live(generation=1, container_id="c1", started_at=NOW, health=Health.STARTING)
EXIT = LastExit(code=143, signal="SIGTERM")


def spec(**settings: Any) -> WorkloadSpec:
    """Restarted when it is unhealthy, unless it is said otherwise."""
    return WorkloadSpec(container=ContainerSpec(image="reg/app:1"), **{"restart_unhealthy": True, **settings})


def up(**settings: Any) -> Record:
    """A workload that was just started."""
    record = wishes.born("edge-1", "web", "incarnation-1", NOW)
    record = wishes.applied(record, ApplyRequest(apply_id="a", spec=spec(**settings)), NOW)
    return attempts.container_started(attempts.step_begun(record, Phase.START, NOW), LIVE, NOW)


def health(health: Health, started_at: datetime = NOW, reason: str = "", seen_at: datetime = NOW) -> Observation:
    """News of the running container."""
    return Observation(
        container_id="c1",
        generation=1,
        state=ContainerState.RUNNING,
        health=health,
        started_at=started_at,
        seen_at=seen_at,
        reason=reason,
    )


def unhealthy(record: Record, after: timedelta = timedelta(minutes=1)) -> Record:
    """Its healthcheck has failed for long enough."""
    seen = health(Health.UNHEALTHY, reason="exit code 1: no", seen_at=NOW + after)
    return sightings.observed(record, seen, NOW + after)


def shown(record: Record) -> str:
    """For example "Running/Ok"."""
    return f"{record.state}/{record.substate}"


def test_health_is_a_substate() -> None:
    """Told with its reason, once for each change."""
    record = up(restart_unhealthy=False)
    assert shown(record) == "Running/Ok"
    record = unhealthy(record)
    assert shown(record) == "Running/Unhealthy"
    assert record.history[-1].reason == "unhealthy: exit code 1: no"
    assert unhealthy(record).history == record.history
    assert next_step(record, NOW).act is Act.REST
    record = sightings.observed(record, health(Health.HEALTHY), NOW)
    assert shown(record) == "Running/Ok"
    assert record.history[-1].reason == "healthy"


def test_what_is_told_without_health_or_of_an_earlier_run_changes_no_health() -> None:
    """The same container may have been started again since."""
    record = up()
    for seen in (health(Health.NONE), health(Health.UNHEALTHY, started_at=NOW - 2 * SECOND)):
        assert sightings.observed(record, seen, NOW).live == record.live


def test_unhealthy_is_restarted_where_the_manifest_asks_for_it() -> None:
    """That run is ended and the container starts again; how the run ended and why is kept."""
    for restart in RestartPolicy:
        record = unhealthy(up(restart=restart))
        assert shown(record) == "Pending/RestartBackoff"
        assert record.unwanted_run == Run(container_id="c1", started_at=NOW)
        assert [step.reason for step in record.history[-2:]] == ["unhealthy: exit code 1: no", "unhealthy: restarted"]
        assert next_step(record, NOW + SECOND).act is Act.ENSURE, "it ran for long: at once"
        begun = attempts.step_begun(record, Phase.START, NOW)
        again = attempts.container_started(begun, LIVE.model_copy(update={"started_at": NOW + SECOND}), NOW, ended=EXIT)
        assert shown(again) == "Running/Ok"
        assert (again.unwanted_run, again.last_exit, again.restarts, again.crashes) == (None, EXIT, 1, 1)


def test_restarts_of_the_unhealthy_wait_on_the_restart_curve() -> None:
    """Ever longer, and not after the limit: a container that runs is better than none."""
    record = up(restart_backoff=RestartBackoff(initial=SECOND, limit=2))
    for restarts in (1, 2):
        record = unhealthy(record, after=2 * SECOND)
        assert record.resume_at is not None
        assert record.resume_at >= NOW + 3 * SECOND
        assert (record.restarts, record.crashes) == (restarts, restarts)
        record = attempts.container_started(attempts.step_begun(record, Phase.START, NOW), LIVE, NOW)
    record = unhealthy(record, after=2 * SECOND)
    assert shown(record) == "Running/Unhealthy"
    assert record.history[-1].reason == "unhealthy; the limit of 2 restarts in a row is used up"


@pytest.mark.parametrize("wrong_by", [timedelta(days=-9000), timedelta(days=9000)])
def test_how_long_it_ran_is_told_by_the_clock_of_its_host_alone(wrong_by: timedelta) -> None:
    """A small board may start its clock anew with every boot: the curve must not begin afresh each time for that."""
    there = NOW + wrong_by
    record = up(restart_backoff=RestartBackoff(initial=SECOND, limit=1))
    record = record.but(live=LIVE.model_copy(update={"started_at": there}))
    ran_for_long = health(Health.UNHEALTHY, started_at=there, seen_at=there + timedelta(minutes=1))
    assert sightings.observed(record, ran_for_long, NOW).resume_at is None
    soon = health(Health.UNHEALTHY, started_at=there, seen_at=there + SECOND)
    assert sightings.observed(record, soon, NOW).resume_at is not None
    assert sightings.observed(record, soon, NOW).host_seen_at == record.host_seen_at


def test_one_that_recovers_while_it_waits_for_its_restart_is_left_alone() -> None:
    """Nobody wants a healthy container to be ended."""
    record = sightings.observed(unhealthy(up(), after=2 * SECOND), health(Health.HEALTHY), NOW + 3 * SECOND)
    assert shown(record) == "Running/Ok"
    assert (record.course, record.unwanted_run, record.restarts, record.crashes) == (Course.UP, None, 0, 1)
    assert record.history[-1].reason == "healthy again, before its restart"


def test_one_that_ends_while_it_waits_for_its_restart_starts_then() -> None:
    """There is no run to be ended any more."""
    waiting = unhealthy(up(), after=2 * SECOND)
    seen = Observation(container_id="c1", generation=1, state=ContainerState.EXITED, exit=EXIT, seen_at=NOW)
    record = sightings.observed(waiting, seen, NOW + 2 * SECOND)
    assert (record.unwanted_run, record.last_exit, record.resume_at) == (None, EXIT, waiting.resume_at)


def test_a_newer_container_ends_nothing_before_its_image_is_there() -> None:
    """It replaces the unhealthy one, whose run is nobody's matter any more."""
    waiting = unhealthy(up(), after=2 * SECOND)
    newer = WorkloadSpec(container=ContainerSpec(image="reg/app:2"), restart_unhealthy=True)
    record = wishes.applied(waiting, ApplyRequest(apply_id="b", spec=newer), NOW)
    assert record.unwanted_run is None
    assert next_step(record, NOW).act is Act.ENSURE


def test_a_retry_hastens_the_restart() -> None:
    """The run to be ended is still known."""
    record = wishes.retry_asked(unhealthy(up(), after=2 * SECOND), RetryRequest(), NOW)
    assert next_step(record, NOW).act is Act.ENSURE
    assert record.unwanted_run is not None


def test_while_paused_nothing_is_restarted() -> None:
    """It is made up for when it goes on, if it is still unhealthy then."""
    record = unhealthy(wishes.paused(up(), NOW))
    assert (shown(record), record.course) == ("Paused/Ok", Course.UP)
    assert shown(wishes.resumed(record, NOW + 60 * SECOND)) == "Pending/RestartBackoff"
    healthy = sightings.observed(record, health(Health.HEALTHY), NOW)
    assert shown(wishes.resumed(healthy, NOW)) == "Running/Ok"


def test_the_wish_takes_effect_for_what_is_unhealthy_already() -> None:
    """A setting: the generation of the container stays."""
    record = unhealthy(up(restart_unhealthy=False))
    record = wishes.applied(record, ApplyRequest(apply_id="b", spec=spec()), NOW + 60 * SECOND)
    assert shown(record) == "Pending/RestartBackoff"
    assert (record.container_generation, record.unwanted_run) == (1, Run(container_id="c1", started_at=NOW))
