# SPDX-License-Identifier: Apache-2.0
"""What is seen of containers, in whatever order the news comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.model.faults import Phase
from perdure.model.messages import ApplyRequest
from perdure.model.observation import ContainerState, LastExit, Live, Observation
from perdure.model.record import Record
from perdure.model.workload import ContainerSpec, RestartPolicy, WorkloadSpec
from perdure.policy import attempts, sightings, wishes

NOW = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)
LIVE = Live(generation=1, container_id="c1", started_at=NOW)


def starting(restart: RestartPolicy = RestartPolicy.ALWAYS) -> Record:
    """A workload whose start is under way."""
    spec = WorkloadSpec(container=ContainerSpec(image="reg/app:1"), restart=restart)
    record = wishes.born("edge-1", "web", "incarnation-1", NOW)
    record = wishes.applied(record, ApplyRequest(apply_id="a", spec=spec), NOW)
    return attempts.step_begun(record, Phase.START, NOW)


def shown(record: Record) -> str:
    """Its state and substate."""
    return f"{record.state}/{record.substate}"


def end(container_id: str = "c1", started_at: datetime | None = None) -> Observation:
    """The end of a container with code 3; Podman's list tells its start in whole seconds."""
    return Observation(
        container_id=container_id,
        generation=1,
        state=ContainerState.EXITED,
        exit=LastExit(code=3, at=NOW),
        started_at=started_at or NOW.replace(microsecond=0),
        seen_at=NOW,
    )


@pytest.mark.parametrize(
    ("restart", "expected"),
    [(RestartPolicy.ALWAYS, "Pending/RestartBackoff"), (RestartPolicy.NEVER, "Failed/Exited")],
)
def test_an_end_that_overtakes_the_answer_of_its_start_is_not_lost(restart: RestartPolicy, expected: str) -> None:
    """Whichever comes first, the workload is not shown as running for ever."""
    record = sightings.observed(starting(restart), end(), NOW)
    record = attempts.container_started(record, LIVE, NOW)
    assert shown(record) == expected
    assert (record.live, record.last_exit) == (None, LastExit(code=3, at=NOW))
    in_order = sightings.observed(attempts.container_started(starting(restart), LIVE, NOW), end(), NOW)
    assert record == in_order


def test_an_early_end_of_another_container_or_run_is_none_of_the_present_one() -> None:
    """The same container may be started again: its earlier end may be told late."""
    earlier = NOW - timedelta(seconds=2)
    for seen in (end("c0"), end(started_at=earlier)):
        record = attempts.container_started(sightings.observed(starting(), seen, NOW), LIVE, NOW)
        assert shown(record) == "Running/Ok"
        assert record.ended_early is None


def test_a_container_that_was_paused_on_its_host_is_not_shown_as_running() -> None:
    """It does no work; the next start lets it go on. No pull, no restart, no crash: it is still the same container."""
    record = attempts.container_started(starting(), LIVE, NOW)
    seen = Observation(container_id="c1", generation=1, state=ContainerState.PAUSED, seen_at=NOW)
    frozen = sightings.observed(record, seen, NOW)
    assert shown(frozen) == "Pending/Starting"
    assert frozen.history[-1].reason == "the container was paused on its host"
    assert (frozen.turn, frozen.restarts, frozen.live) == (record.turn + 1, 0, LIVE)
    again = attempts.container_started(frozen, LIVE, NOW)
    assert shown(again) == "Running/Ok"
    paused = sightings.observed(wishes.paused(record, NOW), seen, NOW)
    assert shown(paused) == "Paused/Ok"
    assert f"{wishes.resumed(paused, NOW).state}" == "Pending"


NO_END = (ContainerState.CREATED, ContainerState.MISSING, ContainerState.PAUSED)
SPOILT = (ContainerState.UNMONITORED, ContainerState.STOPPING)


def seen(state: ContainerState) -> Observation:
    """The container in some state, without an exit code."""
    return Observation(container_id="c1", generation=1, state=state, seen_at=NOW + timedelta(seconds=3))


@pytest.mark.parametrize("restart", RestartPolicy)
@pytest.mark.parametrize("state", [*NO_END, *SPOILT, ContainerState.DEAD, ContainerState.RUNNING])
def test_what_each_state_of_the_container_means(state: ContainerState, restart: RestartPolicy) -> None:
    """For one that is believed to be up. What ended without us seeing how counts as a failure; what did not end comes back."""
    record = attempts.container_started(starting(restart), LIVE, NOW)
    after = sightings.observed(record, seen(state), NOW)
    is_left = state is ContainerState.RUNNING or (state in SPOILT and restart is RestartPolicy.NEVER)
    if is_left:
        expected = "Running/Ok"
    elif state in NO_END and state is not ContainerState.MISSING:
        expected = "Pending/Starting"
    elif state is ContainerState.DEAD and restart is RestartPolicy.NEVER:
        expected = "Failed/Exited"
    else:
        expected = "Pending/RestartBackoff"
    assert shown(after) == expected
    assert (after.turn > record.turn) is expected.startswith("Pending")
    assert sightings.observed(after, seen(state), NOW).history == after.history


@pytest.mark.parametrize("state", ContainerState)
def test_no_state_of_a_container_disturbs_what_is_removed_paused_or_unborn(state: ContainerState) -> None:
    """What is shown of these is what the user asked for."""
    up = attempts.container_started(starting(), LIVE, NOW)
    unborn = wishes.born("edge-1", "web", "incarnation-1", NOW)
    for record in (wishes.removal_asked(up, NOW), wishes.paused(up, NOW), unborn):
        assert shown(sightings.observed(record, seen(state), NOW)) == shown(record)


def test_a_restart_of_the_host_is_no_crash_and_never_waits() -> None:
    """R10: also for one that had crashed often: it comes back with its host."""
    record = attempts.container_started(starting(RestartPolicy.NEVER), LIVE, NOW).but(crashes=9)
    after = sightings.observed(record, seen(ContainerState.CREATED), NOW)
    assert (after.live, after.crashes, after.restarts, after.resume_at) == (None, 9, 1, None)
    assert after.history[-1].reason == "its host was restarted"


def test_an_end_that_nobody_saw_is_the_latest_one() -> None:
    """The exit code of the run before is none of it."""
    record = attempts.container_started(starting(RestartPolicy.NEVER), LIVE, NOW).but(last_exit=LastExit(code=0))
    after = sightings.observed(record, seen(ContainerState.DEAD), NOW)
    assert after.last_exit == LastExit(code=None, at=NOW + timedelta(seconds=3))
    assert after.history[-1].reason == "ended without an exit code; restart: never"
