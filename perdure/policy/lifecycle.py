# SPDX-License-Identifier: Apache-2.0
"""The life of a workload: each function takes what is remembered and one event, and returns what is remembered after it.

Pure, and total: every event is answered in every state. An event that is stale, a duplicate or of another generation changes
nothing, so that signals may come late, twice and in any order. The picture is in ``perdure.model.states``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from perdure.model.faults import Fault, LastError, Phase
from perdure.model.messages import (
    ApplyRequest,
    AttemptOutcome,
    AttemptReport,
    HostPresence,
    Outcome,
    ReportKind,
    RetryRequest,
)
from perdure.model.observation import ContainerState, Health, Live, Observation
from perdure.model.record import Applied, Course, Record
from perdure.model.states import State, Substate
from perdure.model.status import HISTORY_LENGTH, Transition
from perdure.model.workload import PullPolicy, WorkloadSpec
from perdure.policy import backoff, drift, restart

REMEMBERED_APPLIES = 64
"""How many applies can still be asked about."""

_WORKING = {Course.PULL: Substate.PULLING, Course.START: Substate.STARTING}
_BACKOFF = {
    Phase.PULL: (State.PENDING, Substate.PULL_BACKOFF),
    Phase.START: (State.PENDING, Substate.START_BACKOFF),
    Phase.STOP: (State.STOPPING, Substate.STOP_BACKOFF),
}


def born(host: str, name: str, incarnation: str, now: datetime) -> Record:
    """A workload of which nothing is known but its identity."""
    return Record(host=host, name=name, incarnation=incarnation, since=now)


# ---- what users want ----


def applied(record: Record, request: ApplyRequest, now: datetime) -> Record:
    """A user wants a spec. The newest accepted one wins; what is refused is remembered with its reason."""
    if request.apply_id in record.applies:
        return record
    if record.removing:
        return _applied_while_removing(record, request)
    stale = _refusal(record, request)
    if stale is not None:
        return _remembering(record, request.apply_id, stale)
    change = drift.Change.CONTAINER if record.spec is None else drift.compare(record.spec, request.spec)
    accepted = _with(
        record,
        spec=request.spec,
        manifest=request.manifest,
        revision=record.revision if request.revision is None else request.revision,
    )
    if change is drift.Change.NONE:
        verdict = Outcome.UNCHANGED if record.course in (Course.UP, Course.ENDED) else None
        return _remembering(accepted, request.apply_id, Applied(generation=record.generation, verdict=verdict))
    generation = record.generation + 1
    accepted = _with(accepted, generation=generation)
    reason = f"generation {generation} applied" + (f" by {request.by}" if request.by else "")
    if change is drift.Change.SETTINGS:
        updated = _settings_changed(accepted, _spec(record), now, reason)
        verdict = Outcome.UPDATED if updated.course is record.course is Course.UP else None
        return _remembering(updated, request.apply_id, Applied(generation=generation, verdict=verdict))
    accepted = _with(accepted, container_generation=generation)
    begun = _begun(accepted, now, reason, curve_goes_on=False)
    return _remembering(begun, request.apply_id, Applied(generation=generation))


def _refusal(record: Record, request: ApplyRequest) -> Applied | None:
    """Why a request is not accepted, or None."""
    if request.revision is not None and record.revision is not None and request.revision < record.revision:
        return Applied(
            generation=record.generation,
            verdict=Outcome.STALE,
            message=f"revision {request.revision} is older than revision {record.revision}, which was accepted before",
        )
    if request.expect_generation is not None and request.expect_generation != record.generation:
        return Applied(
            generation=record.generation,
            verdict=Outcome.CONFLICT,
            message=f"expected generation {request.expect_generation}, but the workload is at {record.generation}",
        )
    return None


def _applied_while_removing(record: Record, request: ApplyRequest) -> Record:
    """The wish waits until the removal is done; of several the newest one counts."""
    waiting = record.successor
    if request.expect_generation:
        refusal = Applied(
            generation=0,
            verdict=Outcome.CONFLICT,
            message=f"expected generation {request.expect_generation}, but the workload is being removed",
        )
        return _remembering(record, request.apply_id, refusal)
    if (
        waiting
        and request.revision is not None
        and waiting.revision is not None
        and request.revision < waiting.revision
    ):
        refusal = Applied(
            generation=0,
            verdict=Outcome.STALE,
            message=f"revision {request.revision} is older than revision {waiting.revision}, which was accepted before",
        )
        return _remembering(record, request.apply_id, refusal)
    if waiting is not None:
        record = _remembering(record, waiting.apply_id, Applied(generation=0, verdict=Outcome.SUPERSEDED))
    return _with(record, successor=request)


def _settings_changed(record: Record, before: WorkloadSpec, now: datetime, reason: str) -> Record:
    """What does not touch the container takes effect at once, and never starts a curve again."""
    spec = _spec(record)
    match record.course:
        case Course.PARKED:
            return _begun(record, now, reason, curve_goes_on=True)
        case Course.ENDED if record.last_exit is not None:
            ended = restart.Ended(record.last_exit.code, timedelta(0), record.crashes)
            decision = restart.decide(spec.restart, spec.restart_backoff, ended, seed=record.incarnation)
            return _begun(record, now, reason, curve_goes_on=True) if isinstance(decision, restart.Restart) else record
        case Course.UP if record.live is not None:
            return _with(record, live=record.live.model_copy(update={"generation": record.generation}))
        case Course.START | Course.PULL if (spec.retry, spec.pull_policy) != (before.retry, before.pull_policy):
            started = record.last_error.first_at if record.failing and record.last_error else record.since
            return _with(
                record,
                turn=record.turn + 1,
                attempts_before=max(record.attempts_before, record.attempt),
                resume_at=record.resume_at or record.next_attempt_at,
                give_up_at=_deadline(record, started),
            )
    return record


def removal_asked(record: Record, now: datetime) -> Record:
    """A user wants it gone."""
    if record.removing or record.course is Course.GONE:
        return record
    record = _with(
        record,
        removing=True,
        turn=record.turn + 1,
        attempts_before=0,
        resume_at=None,
        give_up_at=None,
        **_no_attempt(),
    )
    return _entered(record, State.STOPPING, Substate.STOPPING, now, "removal asked for")


def paused(record: Record, now: datetime) -> Record:
    """Nothing more is done; what runs goes on running."""
    if record.paused or record.removing or record.course is Course.GONE:
        return record
    before = Transition(at=now, state=record.state, substate=record.substate, generation=record.generation)
    record = _with(
        record,
        paused=True,
        before_pause=before,
        turn=record.turn + 1,
        attempts_before=max(record.attempts_before, record.attempt),
        **_no_attempt(),
    )
    return _entered(record, State.PAUSED, Substate.OK, now, "paused")


def resumed(record: Record, now: datetime) -> Record:
    """What was left is taken up again; what ended or was parked stays so."""
    if not record.paused:
        return record
    record = _with(record, paused=False)
    if record.removing:
        return record
    match record.course:
        case Course.START | Course.PULL:
            return _begun(record, now, "resumed", curve_goes_on=True)
        case Course.UP if record.live is not None:
            return _entered(record, State.RUNNING, _health_substate(record.live.health), now, "resumed")
        case Course.ENDED if record.last_exit is not None and record.last_exit.code == 0:
            return _entered(record, State.SUCCEEDED, Substate.OK, now, "resumed")
        case Course.ENDED:
            return _entered(record, State.FAILED, Substate.EXITED, now, "resumed")
        case Course.PARKED if record.before_pause is not None:
            return _entered(record, record.before_pause.state, record.before_pause.substate, now, "resumed")
    return _entered(record, State.PENDING, Substate.INITIAL, now, "resumed")


def retry_asked(record: Record, request: RetryRequest, now: datetime) -> Record:
    """Somebody knows that a try is worth while now: parked work wakes, a wait ends; the curve goes on from where it was.

    A first attempt that is under way is left alone.
    """
    attempts = max(record.attempts_before, record.attempt, request.attempt)
    if record.removing:
        waits = record.failing or record.resume_at is not None
        return _with(record, turn=record.turn + 1, attempts_before=attempts, resume_at=None) if waits else record
    waits = record.course is Course.PARKED or (
        record.course in (Course.START, Course.PULL) and (record.failing or record.resume_at is not None)
    )
    if record.paused or not waits:
        return record
    return _begun(_with(record, attempt=attempts), now, f"retry: {request.reason}", curve_goes_on=True)


# ---- what attempts tell ----


def step_begun(record: Record, phase: Phase, now: datetime) -> Record:
    """An attempt is on its way to the host."""
    record = _with(record, resume_at=None)
    if record.failing or phase is Phase.STOP:
        return record
    return _entered(record, State.PENDING, _WORKING[record.course], now, "")


def reported(record: Record, report: AttemptReport, now: datetime) -> Record:
    """A host tells of an attempt that goes on. A report of another generation or step changes nothing."""
    if report.generation != record.container_generation or report.phase is not _phase(record):
        return record
    record = _with(record, host_seen_at=report.at)
    if report.kind is ReportKind.PICKED_UP or report.fault is None:
        if record.substate in (Substate.WAITING_FOR_HOST, Substate.QUEUED):
            return _entered(record, State.PENDING, _WORKING[record.course], now, "its host took it up")
        return record
    return _failed(record, report.fault, report, now)


def host_presence_learned(record: Record, presence: HostPresence, now: datetime) -> Record:
    """Work was not taken up in time: its host is busy, or away."""
    record = _with(record, host_seen_at=presence.seen_at or record.host_seen_at)
    if presence.picked_up or record.removing or record.failing or record.course not in _WORKING:
        return record
    if presence.alive:
        return _entered(record, State.PENDING, Substate.QUEUED, now, "its host is busy")
    seen = f"last seen {presence.seen_at:%Y-%m-%d %H:%M:%S} UTC" if presence.seen_at else "never seen"
    return _entered(record, State.PENDING, Substate.WAITING_FOR_HOST, now, f"no worker for host {record.host}, {seen}")


def central_defaults_learned(record: Record, give_up_after: timedelta | None, now: datetime) -> Record:
    """The control worker told its settings; they hold where the manifest is silent."""
    if give_up_after == record.central_give_up_after:
        return record
    record = _with(record, central_give_up_after=give_up_after)
    if record.course not in (Course.START, Course.PULL):
        return record
    return _with(record, give_up_at=_deadline(record, record.since))


def image_found_missing(record: Record, now: datetime) -> Record:
    """The container cannot be made before its image was fetched. An image that vanishes again and again is fetched ever more slowly."""
    refetches = record.refetches + 1 if record.fetched else 0
    wait = (
        backoff.delay(
            refetches, seed=f"{record.incarnation}/refetch", base=timedelta(seconds=1), cap=timedelta(seconds=300)
        )
        if refetches
        else None
    )
    record = _with(
        record,
        course=Course.PULL,
        attempts_before=0,
        refetches=refetches,
        resume_at=now + wait if wait else None,
        **_no_attempt(),
    )
    if record.failing:
        return _entered(record, State.PENDING, Substate.PULLING, now, "the image is missing")
    return record


def image_fetched(record: Record, warning: str, now: datetime) -> Record:
    """The image is local."""
    record = _with(record, course=Course.START, fetched=True, attempts_before=0, warning=warning, **_no_attempt())
    return _entered(record, State.PENDING, Substate.STARTING, now, "the image is here")


def container_started(record: Record, live: Live, now: datetime) -> Record:
    """The container runs, and is the only one of its workload."""
    record = _with(
        record,
        course=Course.UP,
        live=live.model_copy(update={"generation": record.generation}),
        attempts_before=0,
        refetches=0,
        give_up_at=None,
        resume_at=None,
        host_seen_at=now,
        **_no_attempt(),
    )
    reason = f"container {live.container_id[:12]} runs"
    return _entered(record, State.RUNNING, _health_substate(live.health), now, reason)


def rejected(record: Record, fault: Fault, attempt: int, now: datetime) -> Record:
    """A permanent fault: parked until something changes. A removal is never parked, it is tried again."""
    record = _with_error(record, fault, attempt, 1, now)
    if record.removing:
        return attempt_lost(record, fault, now)
    record = _parked(record, attempt)
    reason = f"{fault.kind}: tried no more until a newer manifest or a retry"
    return _entered(record, State.FAILED, Substate.REJECTED, now, reason)


def gave_up(record: Record, fault: Fault | None, attempt: int, now: datetime) -> Record:
    """The time limit passed."""
    if fault is not None:
        record = _with_error(record, fault, attempt, 1, now)
    return _entered(
        _parked(record, attempt), State.FAILED, Substate.GAVE_UP, now, "the time limit (giveUpAfter) passed"
    )


def _parked(record: Record, attempt: int) -> Record:
    return _with(
        record,
        course=Course.PARKED,
        parked_from=record.course,
        attempts_before=attempt,
        resume_at=None,
        **_no_attempt(),
    )


def attempt_lost(record: Record, fault: Fault, now: datetime) -> Record:
    """A step ended in a way that says nothing about the workload: it is taken up again after a wait on its curve."""
    attempt = max(record.attempts_before, record.attempt) + 1
    wait = backoff.delay(
        attempt, seed=f"{record.incarnation}/lost", base=timedelta(seconds=1), cap=timedelta(seconds=300)
    )
    record = _with_error(record, fault, attempt, 1, now)
    record = _with(record, attempts_before=attempt, attempt=attempt, resume_at=now + wait, next_attempt_at=now + wait)
    return _entered(record, *_BACKOFF[_phase(record)], now, fault.message)


def handed_over(record: Record) -> Record:
    """The run ends in the middle of a wait: the next run waits for the rest of it, then makes the next try."""
    return _with(
        record,
        attempts_before=max(record.attempts_before, record.attempt),
        resume_at=record.resume_at or record.next_attempt_at,
    )


def removed(record: Record, now: datetime) -> Record:
    """Nothing of it is left on the host."""
    record = _with(record, course=Course.GONE, live=None, resume_at=None, **_no_attempt())
    return _entered(record, State.REMOVED, Substate.OK, now, "removed")


def reborn(record: Record, incarnation: str, now: datetime) -> Record:
    """An apply came while it was removed: a new life begins with it."""
    if record.successor is None:
        raise ValueError(f"nothing follows workload {record.host}/{record.name}")
    fresh = _with(
        born(record.host, record.name, incarnation, now),
        history=record.history,
        turn=record.turn,
        central_give_up_after=record.central_give_up_after,
        applies={id_: apply for id_, apply in record.applies.items() if apply.verdict is not None},
    )
    return applied(fresh, record.successor, now)


# ---- what hosts see ----


def observed(record: Record, seen: Observation, now: datetime) -> Record:
    """A host saw something happen to the container. Only the container that is believed to be up counts."""
    live = record.live
    if live is None or seen.container_id != live.container_id or record.course is Course.GONE:
        return record
    record = _with(record, host_seen_at=seen.seen_at)
    match seen.state:
        case ContainerState.RUNNING | ContainerState.PAUSED | ContainerState.CREATED | ContainerState.STOPPING:
            return _health_seen(record, live, seen, now)
        case ContainerState.EXITED | ContainerState.DEAD | ContainerState.MISSING:
            return _ended(record, live, seen, now)


def _health_seen(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    if seen.state is not ContainerState.RUNNING or seen.health is live.health:
        return record
    record = _with(record, live=live.model_copy(update={"health": seen.health}))
    if record.course is not Course.UP or record.removing:
        return record
    return _entered(record, State.RUNNING, _health_substate(seen.health), now, f"health: {seen.health}")


def _ended(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    record = _with(record, live=None, last_exit=seen.exit or record.last_exit)
    if record.course is not Course.UP or record.removing:
        return record
    spec = _spec(record)
    ended_at = (seen.exit.at if seen.exit else None) or seen.seen_at
    ran_for = max(timedelta(0), ended_at - live.started_at) if live.started_at else timedelta(0)
    code = seen.exit.code if seen.exit else None
    ended = restart.Ended(code, ran_for, record.crashes)
    seed = f"{record.incarnation}/{record.container_generation}"
    decision = restart.decide(spec.restart, spec.restart_backoff, ended, seed=seed)
    if isinstance(decision, restart.Stay):
        record = _with(record, course=Course.ENDED)
        state, substate = (State.SUCCEEDED, Substate.OK) if decision.succeeded else (State.FAILED, Substate.EXITED)
        return _entered(record, state, substate, now, decision.reason)
    begin = now + decision.after
    record = _with(
        record,
        course=Course.START,
        turn=record.turn + 1,
        attempts_before=0,
        restarts=record.restarts + 1,
        crashes=decision.crashes,
        resume_at=begin if decision.after else None,
        next_attempt_at=begin if decision.after else None,
        give_up_at=_deadline(record, begin),
    )
    reason = seen.reason or f"the container ended with code {code}"
    return _entered(record, State.PENDING, Substate.RESTART_BACKOFF, now, reason)


# ---- answers ----


def answer(record: Record, apply_id: str) -> AttemptOutcome | None:
    """What became of the first attempt of an apply, or None while that is not known."""
    if record.successor is not None and record.successor.apply_id == apply_id:
        return None
    apply = record.applies.get(apply_id)
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
    if record.failing or record.substate is Substate.RESTART_BACKOFF:
        return _outcome(record, Outcome.RETRYING)
    if record.substate is Substate.WAITING_FOR_HOST:
        return _outcome(record, Outcome.NO_WORKER, record.history[-1].reason if record.history else "")
    return None


# ---- parts ----


def _outcome(record: Record, outcome: Outcome, message: str = "") -> AttemptOutcome:
    return AttemptOutcome(
        outcome=outcome,
        generation=record.generation,
        state=record.state,
        substate=record.substate,
        error=record.last_error,
        live=record.live,
        message=message,
    )


def _begun(record: Record, now: datetime, reason: str, *, curve_goes_on: bool) -> Record:
    """Start over with the present spec: on a fresh curve for a new generation, else from where the curve was."""
    spec = _spec(record)
    attempts = max(record.attempts_before, record.attempt) if curve_goes_on else 0
    fetch_first = spec.pull_policy in (PullPolicy.ALWAYS, PullPolicy.NEWER) and not (curve_goes_on and record.fetched)
    was_pulling = curve_goes_on and Course.PULL in (record.course, record.parked_from)
    begun = _with(
        record,
        course=Course.PULL if fetch_first or was_pulling else Course.START,
        parked_from=Course.START,
        turn=record.turn + 1,
        attempts_before=attempts,
        resume_at=None,
        fetched=record.fetched if curve_goes_on else False,
        refetches=record.refetches if curve_goes_on else 0,
        crashes=record.crashes if curve_goes_on else 0,
        give_up_at=_deadline(record, now),
        warning="" if not curve_goes_on else record.warning,
        next_attempt_at=None,
        attempt=attempts,
    )
    if curve_goes_on and record.failing:
        return begun
    return _entered(begun, State.PENDING, Substate.INITIAL, now, reason)


def _failed(record: Record, fault: Fault, report: AttemptReport, now: datetime) -> Record:
    same = record.last_fingerprint == report.fingerprint and record.last_error is not None
    if report.attempt < record.attempt and record.failing:
        return record
    record = _with_error(record, fault, report.attempt, report.failures, report.at, same=same)
    record = _with(
        record,
        last_fingerprint=report.fingerprint,
        attempt=report.attempt,
        next_attempt_at=report.next_attempt_at,
    )
    return _entered(
        record, *_BACKOFF[_phase(record)], now, f"{fault.kind}" if same else f"{fault.kind}: {fault.message}"
    )


def _with_error(
    record: Record, fault: Fault, attempt: int, failures: int, at: datetime, *, same: bool | None = None
) -> Record:
    known = record.last_error
    if same is None:
        same = known is not None and known.kind is fault.kind and known.message == fault.message
    goes_on = same and known is not None and known.generation == record.generation
    error = LastError(
        kind=fault.kind,
        fault_class=fault.fault_class,
        phase=fault.phase,
        message=fault.message,
        hint=fault.hint,
        attempt=attempt,
        generation=record.generation,
        first_at=known.first_at if goes_on and known else at,
        last_at=at,
        count=known.count + failures if goes_on and known else failures,
    )
    return _with(record, last_error=error)


def _phase(record: Record) -> Phase:
    if record.removing:
        return Phase.STOP
    return Phase.PULL if record.course is Course.PULL else Phase.START


def _deadline(record: Record, begin: datetime) -> datetime | None:
    limit = record.give_up_after
    return begin + limit if limit is not None else None


def _health_substate(health: Health) -> Substate:
    return Substate.UNHEALTHY if health is Health.UNHEALTHY else Substate.OK


def _spec(record: Record) -> WorkloadSpec:
    if record.spec is None:
        raise ValueError(f"workload {record.host}/{record.name} has no spec yet")
    return record.spec


def _no_attempt() -> dict[str, Any]:
    return {"attempt": 0, "next_attempt_at": None}


def _remembering(record: Record, apply_id: str, apply: Applied) -> Record:
    applies = {**record.applies, apply_id: apply}
    for oldest in list(applies)[: max(0, len(applies) - REMEMBERED_APPLIES)]:
        del applies[oldest]
    return _with(record, applies=applies)


def _entered(record: Record, state: State, substate: Substate, now: datetime, reason: str) -> Record:
    """Move to a state. The same state again is no transition, and what is paused shows that until it is resumed."""
    hidden = record.paused and not record.removing and state is not State.PAUSED
    if hidden or (record.state is state and record.substate is substate):
        return record
    transition = Transition(at=now, state=state, substate=substate, generation=record.generation, reason=reason)
    return _with(
        record,
        state=state,
        substate=substate,
        since=now,
        history=(*record.history, transition)[-HISTORY_LENGTH:],
    )


def _with(record: Record, **changes: Any) -> Record:
    return record.model_copy(update=changes)
