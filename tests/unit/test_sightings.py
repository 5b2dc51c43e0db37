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
    ("restart", "shown"),
    [(RestartPolicy.ALWAYS, "Pending/RestartBackoff"), (RestartPolicy.NEVER, "Failed/Exited")],
)
def test_an_end_that_overtakes_the_answer_of_its_start_is_not_lost(restart: RestartPolicy, shown: str) -> None:
    """Whichever comes first, the workload is not shown as running for ever."""
    record = sightings.observed(starting(restart), end(), NOW)
    record = attempts.container_started(record, LIVE, NOW)
    assert f"{record.state}/{record.substate}" == shown
    assert (record.live, record.last_exit) == (None, LastExit(code=3, at=NOW))
    in_order = sightings.observed(attempts.container_started(starting(restart), LIVE, NOW), end(), NOW)
    assert record == in_order


def test_an_early_end_of_another_container_or_run_is_none_of_the_present_one() -> None:
    """The same container may be started again: its earlier end may be told late."""
    earlier = NOW - timedelta(seconds=2)
    for seen in (end("c0"), end(started_at=earlier)):
        record = attempts.container_started(sightings.observed(starting(), seen, NOW), LIVE, NOW)
        assert f"{record.state}/{record.substate}" == "Running/Ok"
        assert record.ended_early is None


def test_a_container_that_was_paused_on_its_host_is_not_shown_as_running() -> None:
    """It does no work; the next start lets it go on. No pull, no restart, no crash: it is still the same container."""
    record = attempts.container_started(starting(), LIVE, NOW)
    seen = Observation(container_id="c1", generation=1, state=ContainerState.PAUSED, seen_at=NOW)
    frozen = sightings.observed(record, seen, NOW)
    assert f"{frozen.state}/{frozen.substate}" == "Pending/Starting"
    assert frozen.history[-1].reason == "the container was paused on its host"
    assert (frozen.turn, frozen.restarts, frozen.live) == (record.turn + 1, 0, LIVE)
    again = attempts.container_started(frozen, LIVE, NOW)
    assert f"{again.state}/{again.substate}" == "Running/Ok"
    paused = sightings.observed(wishes.paused(record, NOW), seen, NOW)
    assert f"{paused.state}/{paused.substate}" == "Paused/Ok"
    assert f"{wishes.resumed(paused, NOW).state}" == "Pending"
