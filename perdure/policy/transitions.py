# SPDX-License-Identifier: Apache-2.0
"""The moves that all events of a workload's life share: entering a state, starting over, taking note of an error."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from perdure.model.faults import Fault, Phase
from perdure.model.observation import Health
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.model.status import HISTORY_LENGTH, Transition
from perdure.model.workload import PullPolicy, WorkloadSpec
from perdure.policy import errors
from perdure.policy.shorten import shorten

WORKING = {Course.PULL: Substate.PULLING, Course.START: Substate.STARTING}
"""What is shown while the first try of a step is under way."""

BACKOFF = {
    Phase.PULL: (State.PENDING, Substate.PULL_BACKOFF),
    Phase.START: (State.PENDING, Substate.START_BACKOFF),
    Phase.STOP: (State.STOPPING, Substate.STOP_BACKOFF),
}
"""What is shown from the first failed try of a step until one succeeds."""


def entered(record: Record, state: State, substate: Substate, now: datetime, reason: str) -> Record:
    """Move to a state. The same state again is no transition, and what is paused shows that until it is resumed."""
    hidden = record.paused and not record.removing and state is not State.PAUSED
    if hidden or (record.state is state and record.substate is substate):
        return record
    transition = Transition(
        at=now, state=state, substate=substate, generation=record.generation, reason=shorten(reason)
    )
    return record.but(
        state=state,
        substate=substate,
        since=now,
        history=(*record.history, transition)[-HISTORY_LENGTH:],
    )


def noted(record: Record, now: datetime, reason: str) -> Record:
    """Keep in the history something that changed no state."""
    state, substate, _ = record.shown
    note = Transition(at=now, state=state, substate=substate, generation=record.generation, reason=shorten(reason))
    return record.but(history=(*record.history, note)[-HISTORY_LENGTH:])


def begun(record: Record, now: datetime, reason: str, *, curve_goes_on: bool) -> Record:
    """Start over with the present spec: on a fresh curve for a new generation, else from where the curve was."""
    attempts = max(record.attempts_before, record.attempt) if curve_goes_on else 0
    was_pulling = curve_goes_on and Course.PULL in (record.course, record.parked_from)
    if not curve_goes_on:
        record = record.but(fetched=False, dependencies_met=False, has_run=False)
    waits = bool(spec_of(record).depends_on) and not record.dependencies_met
    first = Course.PULL if was_pulling else first_step(record)
    begun = record.but(
        course=Course.DEPENDENCIES if waits else first,
        parked_from=Course.START,
        turn=record.turn + 1,
        attempts_before=attempts,
        resume_at=None,
        refetches=record.refetches if curve_goes_on else 0,
        crashes=record.crashes if curve_goes_on else 0,
        unwanted_run=record.unwanted_run if curve_goes_on else None,
        give_up_at=None if waits else deadline(record, now),
        waiting_on=(),
        warning="" if not curve_goes_on else record.warning,
        next_attempt_at=None,
        attempt=attempts,
    )
    if curve_goes_on and record.failing:
        return begun
    return entered(begun, State.PENDING, Substate.INITIAL, now, reason)


def first_step(record: Record) -> Course:
    """The step that a container begins with. A pull that is due anyhow comes first; else the start tells whether one is."""
    fetch_first = spec_of(record).pull_policy in (PullPolicy.ALWAYS, PullPolicy.NEWER) and not record.fetched
    return Course.PULL if fetch_first else Course.START


def to_be_started(record: Record, now: datetime, reason: str, **more: Any) -> Record:
    """What was up is to be started: the start finds what is there, and makes the best of it."""
    record = record.but(
        course=Course.START, turn=record.turn + 1, attempts_before=0, give_up_at=deadline(record, now), **more
    )
    return entered(record, State.PENDING, WORKING[record.course], now, reason)


def to_be_restarted(record: Record, now: datetime, reason: str, after: timedelta, crashes: int) -> Record:
    """What was up is to be started again, at once or after a wait on the restart curve."""
    begin = now + after
    record = record.but(
        course=Course.START,
        turn=record.turn + 1,
        attempts_before=0,
        restarts=record.restarts + 1,
        crashes=crashes,
        resume_at=begin if after else None,
        next_attempt_at=begin if after else None,
        give_up_at=deadline(record, begin),
    )
    return entered(record, State.PENDING, Substate.RESTART_BACKOFF, now, reason)


def with_error(
    record: Record, fault: Fault, attempt: int, failures: int, at: datetime, *, same: bool | None = None
) -> Record:
    """Take note of an error; the same one again only counts."""
    known = record.last_error
    if same is None:
        same = known is not None and known.kind is fault.kind and known.message == fault.message
    error = errors.counted(
        known, fault, is_same=same, attempt=attempt, generation=record.generation, failures=failures, at=at
    )
    return record.but(last_error=error)


def phase_of(record: Record) -> Phase:
    """The phase of the attempts that the record asks for."""
    if record.removing:
        return Phase.STOP
    return Phase.PULL if record.course is Course.PULL else Phase.START


def deadline(record: Record, begin: datetime) -> datetime | None:
    """When trying ends that begins now, or None for never."""
    limit = record.give_up_after
    return begin + limit if limit is not None else None


def health_substate(health: Health) -> Substate:
    """How a running container is."""
    return Substate.UNHEALTHY if health is Health.UNHEALTHY else Substate.OK


def spec_of(record: Record) -> WorkloadSpec:
    """The spec. Raises ValueError where none was accepted yet."""
    if record.spec is None:
        raise ValueError(f"workload {record.host}/{record.name} has no spec yet")
    return record.spec


def no_attempt() -> dict[str, Any]:
    """The fields that tell of a try, for when there is none."""
    return {"attempt": 0, "next_attempt_at": None}
