# SPDX-License-Identifier: Apache-2.0
"""What those are answered who applied: however many there are, and whatever the workflow has forgotten of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.messages import ApplyRequest, AttemptOutcome, Outcome, RetryRequest
from perdure.model.observation import Live
from perdure.model.record import Course, Record
from perdure.model.workload import ContainerSpec, WorkloadSpec
from perdure.policy import answers, attempts, transitions, wishes

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LIVE = Live(generation=1, container_id="c1", started_at=NOW)


def request(number: int) -> ApplyRequest:
    spec = WorkloadSpec(container=ContainerSpec(image=f"reg/app:{number}"))
    return ApplyRequest(apply_id=f"apply-{number}", spec=spec)


def applied(*numbers: int) -> Record:
    record = wishes.born("edge-1", "web", "incarnation-1", NOW)
    for number in numbers:
        record = wishes.applied(record, request(number), NOW)
    return record


def answered(record: Record, number: int) -> AttemptOutcome:
    answer = answers.answer(record, f"apply-{number}")
    assert answer is not None
    return answer


def superseded(seen: int | None) -> Fault:
    return Fault(
        kind=FaultKind.SUPERSEDED,
        fault_class=FaultClass.PERMANENT,
        phase=Phase.START,
        message="generation 2 of edge-1/web is out of date",
        seen_generation=seen,
    )


def test_the_oldest_of_very_many_applies_is_superseded() -> None:
    """It is not remembered any more, and was not removed for that."""
    record = applied(*range(wishes.REMEMBERED_APPLIES + 2))
    assert "apply-0" not in record.applies
    assert answered(record, 0).outcome is Outcome.SUPERSEDED
    assert answered(record, 5).outcome is Outcome.SUPERSEDED


def test_an_apply_of_an_earlier_life_was_removed() -> None:
    """Also in a life that has had many applies since the removal began."""
    record = wishes.removal_asked(applied(1), NOW)
    assert answered(record, 1).outcome is Outcome.REMOVED
    record = wishes.applied(record, request(2), NOW)
    record = wishes.reborn(attempts.removed(record, NOW), "incarnation-2", NOW)
    assert answered(record, 1).outcome is Outcome.REMOVED
    forgetful = wishes.removal_asked(applied(*range(wishes.REMEMBERED_APPLIES + 2)), NOW)
    assert answered(forgetful, 0).outcome is Outcome.REMOVED


def test_a_workflow_that_was_reset_goes_on_after_what_its_host_has_seen() -> None:
    """Who applied waits for the new number, and gets its answer."""
    record = attempts.rejected(applied(1, 2), superseded(96), 1, NOW)
    assert (record.generation, record.container_generation, record.course) == (97, 97, Course.START)
    assert "has forgotten generation 96: it goes on as 97" in record.history[-1].reason
    assert answers.answer(record, "apply-2") is None
    record = attempts.container_started(record, LIVE, NOW)
    answer = answered(record, 2)
    assert (answer.outcome, answer.generation) == (Outcome.RUNNING, 97)
    assert answered(record, 1).outcome is Outcome.SUPERSEDED


def test_what_is_out_of_date_for_another_reason_is_refused() -> None:
    """As where a workload lives on as another incarnation."""
    for seen in (None, 1):
        record = attempts.rejected(applied(1, 2), superseded(seen), 1, NOW)
        assert (record.generation, record.course) == (2, Course.PARKED)


def test_a_retry_catches_up_with_the_tries_that_were_not_reported() -> None:
    """Else the status would go back to the attempt that was reported last, for the time of one try."""
    fault = superseded(None).model_copy(update={"fault_class": FaultClass.TRANSIENT})
    record = attempts.attempt_lost(applied(1), fault, NOW)
    record = wishes.retry_asked(record, RetryRequest(attempt=7), NOW + timedelta(minutes=1))
    assert record.last_error is not None
    assert (record.attempt, record.last_error.attempt, record.last_error.count) == (7, 7, 7)
    assert record.last_error.first_at == NOW
    record = transitions.with_error(record, fault, 8, 1, NOW + timedelta(minutes=2))
    assert record.last_error is not None
    assert record.last_error.count == 8
