# SPDX-License-Identifier: Apache-2.0
"""What a request to try now does to a workload: a person's wakes nearly everything, a host's ends a wait and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.messages import ApplyRequest, AttemptReport, ReportKind, RetryRequest
from perdure.model.observation import ContainerState, LastExit, Live, Observation
from perdure.model.record import Course, Record
from perdure.model.workload import ContainerSpec, RestartPolicy, Retry, WorkloadSpec
from perdure.policy import attempts, identity, sightings, wishes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
REFUSED = Fault(
    kind=FaultKind.REGISTRY_UNREACHABLE,
    fault_class=FaultClass.TRANSIENT,
    phase=Phase.PULL,
    message="connection refused",
)


def applied(record: Record, tag: str = "1") -> Record:
    """It wants an image, by a deadline."""
    wanted = WorkloadSpec(
        container=ContainerSpec(image=f"localhost:5000/app:{tag}"),
        restart=RestartPolicy.NEVER,
        retry=Retry(give_up_after=timedelta(hours=1)),
    )
    return wishes.applied(record, ApplyRequest(apply_id=tag, spec=wanted), NOW)


def failing(attempt: int = 3) -> Record:
    """Its pull has failed some times."""
    record = attempts.image_found_missing(applied(wishes.born("edge-1", "web", "life-1", NOW)), NOW)
    report = AttemptReport(
        kind=ReportKind.FAILED,
        generation=1,
        phase=Phase.PULL,
        attempt=attempt,
        fault=REFUSED,
        fingerprint=identity.fingerprint(REFUSED),
        at=NOW,
        next_attempt_at=NOW + timedelta(seconds=300),
    )
    return attempts.reported(record, report, NOW)


def ended() -> Record:
    """It ran to its end, and is not to be run again."""
    live = Live(generation=1, container_id="c1", started_at=NOW)
    record = attempts.container_started(applied(wishes.born("edge-1", "web", "life-1", NOW)), live, NOW)
    seen = Observation(
        container_id="c1", generation=1, state=ContainerState.EXITED, exit=LastExit(code=0), started_at=NOW, seen_at=NOW
    )
    return sightings.observed(record, seen, NOW)


def test_a_host_ends_the_wait_and_keeps_curve_and_deadline() -> None:
    """The try that follows is the next one of the curve, and the time limit is no later for it."""
    before = failing()
    after = wishes.retry_asked(before, RetryRequest(attempt=30, generation=1), LATER)
    assert after.turn == before.turn + 1
    assert (after.course, after.attempts_before, after.resume_at) == (Course.PULL, 30, None)
    assert (after.state, after.substate, after.since) == (before.state, before.substate, before.since)
    assert after.last_error is not None
    assert (after.last_error.attempt, after.last_error.first_at) == (30, NOW)
    assert after.give_up_at == before.give_up_at


def test_a_person_sets_the_deadline_anew() -> None:
    """Who asks for a try wants more than the seconds that may be left."""
    before = failing()
    after = wishes.retry_asked(before, RetryRequest(), LATER)
    assert before.give_up_at is not None
    assert after.give_up_at == before.give_up_at + (LATER - NOW)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("a first try under way", applied(wishes.born("edge-1", "web", "life-1", NOW))),
        ("another generation", applied(failing(), "2")),
        ("parked", attempts.rejected(failing(), REFUSED, 4, NOW)),
        ("given up", attempts.gave_up(failing(), REFUSED, 4, NOW)),
        ("paused", wishes.paused(failing(), NOW)),
        ("ended", ended()),
        ("removed", wishes.removal_asked(failing(), NOW)),
    ],
)
def test_late_news_of_a_host_changes_nothing(name: str, record: Record) -> None:
    """A job that has run meanwhile is not run again, and what was given up stays so."""
    assert wishes.retry_asked(record, RetryRequest(attempt=9, generation=1), LATER) is record, name


def test_a_person_wakes_what_is_parked_or_has_ended() -> None:
    """That is what asking is for."""
    for record in (attempts.gave_up(failing(), REFUSED, 4, NOW), ended()):
        assert wishes.retry_asked(record, RetryRequest(), LATER).turn == record.turn + 1
