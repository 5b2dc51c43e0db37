# SPDX-License-Identifier: Apache-2.0
"""What users want of a workload: each function takes what is remembered and one wish, and returns what is remembered after it.

Pure, and total: every wish is answered in every state. One that is stale or a duplicate changes nothing else, so that
signals may come late, twice and in any order. The picture of the states is in ``perdure.model.states``.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.model.messages import ApplyRequest, Outcome, RetryRequest
from perdure.model.record import Applied, Course, Record
from perdure.model.states import State, Substate
from perdure.model.status import Transition
from perdure.model.workload import WorkloadSpec
from perdure.policy import dependencies, drift, errors, restart, transitions, unhealthy

REMEMBERED_APPLIES = 64
"""How many applies can still be asked about."""


def born(host: str, name: str, incarnation: str, now: datetime) -> Record:
    """A workload of which nothing is known but its identity."""
    return Record(host=host, name=name, incarnation=incarnation, since=now)


def applied(record: Record, request: ApplyRequest, now: datetime) -> Record:
    """A user wants a spec. The newest accepted one wins; what is refused is remembered with its reason."""
    if request.apply_id in record.applies:
        return record
    if record.successor is not None and record.successor.apply_id == request.apply_id:
        return record
    refusal = _refusal(record, request)
    if refusal is not None:
        return _refused(record, request, refusal, now)
    if record.removing:
        return _applied_while_removing(record, request)
    change = drift.Change.CONTAINER if record.spec is None else drift.compare(record.spec, request.spec)
    accepted = record.but(
        spec=request.spec,
        manifest=request.manifest,
        revision=record.revision if request.revision is None else request.revision,
    )
    if change is drift.Change.NONE:
        verdict = Outcome.UNCHANGED if record.course in (Course.UP, Course.ENDED) else None
        return _remembering(accepted, request.apply_id, Applied(generation=record.generation, verdict=verdict))
    generation = record.generation + 1
    accepted = accepted.but(generation=generation)
    reason = f"generation {generation} applied" + (f" by {request.by}" if request.by else "")
    if change is drift.Change.SETTINGS:
        updated = _settings_changed(_error_goes_on(accepted), transitions.spec_of(record), now, reason)
        verdict = Outcome.UPDATED if updated.course is record.course is Course.UP else None
        return _remembering(updated, request.apply_id, Applied(generation=generation, verdict=verdict))
    accepted = accepted.but(container_generation=generation)
    begun = transitions.begun(accepted, now, reason, curve_goes_on=False)
    return _remembering(begun, request.apply_id, Applied(generation=generation))


def _refusal(record: Record, request: ApplyRequest) -> Applied | None:
    """Why a request is not accepted, or None. What is being removed counts as absent, and what waits to follow it as accepted."""
    present = 0 if record.removing else record.generation
    revision = record.revision
    if record.removing:
        revision = record.successor.revision if record.successor else None
    if request.revision is not None and revision is not None and request.revision < revision:
        message = f"revision {request.revision} is older than revision {revision}, which was accepted before"
        return Applied(generation=record.generation, verdict=Outcome.STALE, message=message)
    if request.expect_generation not in (None, present):
        is_at = "it is being removed" if record.removing else f"it is at {present}"
        message = f"generation {request.expect_generation} was expected, but {is_at}"
        return Applied(generation=record.generation, verdict=Outcome.CONFLICT, message=message)
    return None


def _refused(record: Record, request: ApplyRequest, refusal: Applied, now: datetime) -> Record:
    who = f" by {request.by}" if request.by else ""
    record = transitions.noted(record, now, f"apply{who} refused ({refusal.verdict}): {refusal.message}")
    return _remembering(record, request.apply_id, refusal)


def _applied_while_removing(record: Record, request: ApplyRequest) -> Record:
    """The wish waits until the removal is done; of several the newest one counts."""
    waiting = record.successor
    if waiting is not None:
        record = _remembering(record, waiting.apply_id, Applied(generation=0, verdict=Outcome.SUPERSEDED))
    return record.but(successor=request)


def _error_goes_on(record: Record) -> Record:
    """An error of the same container is the same one under the new generation: its first time and its count are kept."""
    error = record.last_error
    if error is None or error.generation < record.container_generation:
        return record
    return record.but(last_error=error.model_copy(update={"generation": record.generation}))


def _settings_changed(record: Record, before: WorkloadSpec, now: datetime, reason: str) -> Record:
    """What does not touch the container takes effect at once, and never starts a curve again."""
    spec = transitions.spec_of(record)
    record = dependencies.reconsidered(record, before.depends_on)
    match record.course:
        case Course.DEPENDENCIES if spec.depends_on != before.depends_on:
            return dependencies.awaited_anew(record, now)
        case Course.START | Course.PULL if spec.depends_on and not record.dependencies_met:
            return dependencies.awaited_anew(record, now)
        case Course.PARKED:
            return transitions.begun(record, now, reason, curve_goes_on=True)
        case Course.ENDED if record.last_exit is not None:
            ended = restart.Ended(record.last_exit.code, timedelta(0), record.crashes)
            decision = restart.decide(spec.restart, spec.restart_backoff, ended, seed=record.incarnation)
            return (
                transitions.begun(record, now, reason, curve_goes_on=True)
                if isinstance(decision, restart.Restart)
                else record
            )
        case Course.UP if record.live is not None:
            record = record.but(live=record.live.model_copy(update={"generation": record.generation}))
            return unhealthy.answered(record, now)
        case Course.START | Course.PULL if (spec.retry, spec.pull_policy) != (before.retry, before.pull_policy):
            started = record.last_error.first_at if record.failing and record.last_error else record.since
            return record.but(
                turn=record.turn + 1,
                attempts_before=max(record.attempts_before, record.attempt),
                resume_at=record.resume_at or record.next_attempt_at,
                give_up_at=transitions.deadline(record, started),
            )
    return record


def _remembering(record: Record, apply_id: str, apply: Applied) -> Record:
    applies = {**record.applies, apply_id: apply}
    too_many = list(applies)[: max(0, len(applies) - REMEMBERED_APPLIES)]
    for oldest in too_many:
        del applies[oldest]
    return record.but(applies=applies, forgot_applies=record.forgot_applies or bool(too_many))


def removal_asked(record: Record, now: datetime) -> Record:
    """A user wants it gone; also what was applied while it was being removed, and waits to follow it."""
    if (waiting := record.successor) is not None:
        removed = Applied(generation=0, verdict=Outcome.REMOVED)
        record = _remembering(record.but(successor=None), waiting.apply_id, removed)
    if record.removing or record.course is Course.GONE:
        return record
    record = record.but(
        removing=True,
        turn=record.turn + 1,
        attempts_before=0,
        resume_at=None,
        give_up_at=None,
        waiting_on=(),
        **transitions.no_attempt(),
    )
    return transitions.entered(record, State.STOPPING, Substate.STOPPING, now, "removal asked for")


def paused(record: Record, now: datetime) -> Record:
    """Nothing more is done; what runs goes on running."""
    if record.paused or record.removing or record.course is Course.GONE:
        return record
    before = Transition(at=now, state=record.state, substate=record.substate, generation=record.generation)
    record = record.but(
        paused=True,
        before_pause=before,
        turn=record.turn + 1,
        attempts_before=max(record.attempts_before, record.attempt),
        waiting_on=(),
        **transitions.no_attempt(),
    )
    return transitions.entered(record, State.PAUSED, Substate.OK, now, "paused")


def resumed(record: Record, now: datetime) -> Record:
    """What was left is taken up again; what ended or was parked stays so."""
    if not record.paused:
        return record
    record = record.but(paused=False)
    if record.removing:
        return record
    match record.course:
        case Course.DEPENDENCIES | Course.START | Course.PULL:
            return transitions.begun(record, now, "resumed", curve_goes_on=True)
        case Course.UP if record.live is not None:
            substate = transitions.health_substate(record.live.health)
            return unhealthy.answered(transitions.entered(record, State.RUNNING, substate, now, "resumed"), now)
        case Course.ENDED if record.last_exit is not None and record.last_exit.code == 0:
            return transitions.entered(record, State.SUCCEEDED, Substate.OK, now, "resumed")
        case Course.ENDED:
            return transitions.entered(record, State.FAILED, Substate.EXITED, now, "resumed")
        case Course.PARKED if record.before_pause is not None:
            return transitions.entered(record, record.before_pause.state, record.before_pause.substate, now, "resumed")
    return transitions.entered(record, State.PENDING, Substate.INITIAL, now, "resumed")


def retry_asked(record: Record, request: RetryRequest, now: datetime) -> Record:
    """Somebody knows that a try is worth while now: parked work wakes, a wait ends; the curve goes on from where it was.

    What has ended runs once more. A first attempt that is under way is left alone.
    """
    ours = request.generation in (record.generation, record.container_generation)
    if request.generation and not (record.failing and ours):
        return record
    attempts = max(record.attempts_before, record.attempt, request.attempt)
    if record.removing:
        waits = record.failing or record.resume_at is not None
        return record.but(turn=record.turn + 1, attempts_before=attempts, resume_at=None) if waits else record
    waits = record.course in (Course.PARKED, Course.ENDED) or (
        record.course in (Course.START, Course.PULL) and (record.failing or record.resume_at is not None)
    )
    if record.paused or not waits:
        return record
    if record.failing:
        error = errors.caught_up(record.last_error, attempt=attempts, generation=record.generation)
        record = record.but(last_error=error)
    begun = transitions.begun(record.but(attempt=attempts), now, f"retry: {request.reason}", curve_goes_on=True)
    return begun.but(give_up_at=record.give_up_at) if request.generation else begun


def reborn(record: Record, incarnation: str, now: datetime) -> Record:
    """An apply came while it was removed: a new life begins with it."""
    if record.successor is None:
        raise ValueError(f"nothing follows workload {record.host}/{record.name}")
    fresh = born(record.host, record.name, incarnation, now).but(
        history=record.history,
        turn=record.turn,
        central_give_up_after=record.central_give_up_after,
        host_seen_at=record.host_seen_at,
        host_lost_at=record.host_lost_at,
        host_told_at=record.host_told_at,
        applies={id_: apply for id_, apply in record.applies.items() if apply.verdict is not None},
    )
    return applied(fresh, record.successor, now)
