# SPDX-License-Identifier: Apache-2.0
"""What is answered to somebody who applied and waits for the first attempt."""

from __future__ import annotations

from perdure.model.messages import AttemptOutcome, Outcome
from perdure.model.record import Course, Record
from perdure.model.states import Substate
from perdure.policy import dependencies, transitions
from perdure.policy.hosts import no_worker


def answer(record: Record, apply_id: str) -> AttemptOutcome | None:
    """What became of the first attempt of an apply, or None while that is not known."""
    if record.successor is not None and record.successor.apply_id == apply_id:
        return None
    apply = record.applies.get(apply_id)
    if apply is None and record.forgot_applies and not record.removing:
        return _outcome(record, Outcome.SUPERSEDED, "many newer applies came after it")
    if apply is None:
        return _outcome(record, Outcome.REMOVED)
    if apply.verdict is not None:
        return _outcome(record, apply.verdict, apply.message)
    if record.removing or record.course is Course.GONE:
        return _outcome(record, Outcome.REMOVED)
    if apply.generation != record.generation:
        return _outcome(record, Outcome.SUPERSEDED, f"generation {record.generation} took its place")
    return _course_outcome(record)


def _course_outcome(record: Record) -> AttemptOutcome | None:
    if record.paused:
        return _outcome(record, Outcome.PAUSED)
    if record.course in (Course.UP, Course.ENDED):
        return _outcome(record, Outcome.RUNNING)
    if record.course is Course.PARKED:
        return _outcome(record, Outcome.GAVE_UP if record.substate is Substate.GAVE_UP else Outcome.REJECTED)
    if record.course is Course.DEPENDENCIES:
        waits_for = dependencies.listed(record.waiting_on)
        return _outcome(record, Outcome.WAITING, waits_for) if waits_for else None
    if record.failing or record.substate is Substate.RESTART_BACKOFF:
        return _outcome(record, Outcome.RETRYING)
    host_is_lost = record.host_lost_at is not None and record.course in transitions.WORKING
    if host_is_lost or record.substate is Substate.WAITING_FOR_HOST:
        return _outcome(record, Outcome.NO_WORKER, no_worker(record.host, record.host_seen_at))
    return None


def _outcome(record: Record, outcome: Outcome, message: str = "") -> AttemptOutcome:
    state, substate, _ = record.shown
    return AttemptOutcome(
        outcome=outcome,
        generation=record.generation,
        state=state,
        substate=substate,
        error=record.last_error,
        live=record.live,
        message=message,
    )
