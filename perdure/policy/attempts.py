# SPDX-License-Identifier: Apache-2.0
"""What attempts tell of a workload: how each result, failure and silence changes what is remembered.

Pure, and total. A report of another generation or step changes nothing: it may have been under way for long.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.model.faults import Fault, Phase
from perdure.model.messages import AttemptReport, HostPresence, ReportKind
from perdure.model.observation import LastExit, Live
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.policy import backoff, sightings, transitions
from perdure.policy.hosts import latest, no_worker
from perdure.policy.shorten import shorten

REASON_LIMIT_BYTES = 200
"""Of an error, in the history: the whole text stands in the last error."""

_REFETCH = (timedelta(seconds=1), timedelta(seconds=300))
_LOST = (timedelta(seconds=1), timedelta(seconds=300))


def step_begun(record: Record, phase: Phase, now: datetime) -> Record:
    """An attempt is on its way to the host."""
    record = record.but(resume_at=None, next_attempt_at=None)
    if record.failing or phase is Phase.STOP:
        return record
    if record.host_lost_at is not None:
        return _waits_for_host(record, now)
    return transitions.entered(record, State.PENDING, transitions.WORKING[record.course], now, "")


def reported(record: Record, report: AttemptReport, now: datetime) -> Record:
    """A host tells of an attempt that goes on. A report of another generation or step changes nothing."""
    trying = record.course in transitions.WORKING if not record.removing else record.course is not Course.GONE
    ours = report.generation == record.container_generation and report.phase is transitions.phase_of(record)
    if not trying or not ours:
        return record
    record = record.but(host_seen_at=report.at)
    if report.kind is ReportKind.PICKED_UP or report.fault is None:
        if record.substate in (Substate.WAITING_FOR_HOST, Substate.QUEUED):
            return transitions.entered(
                record, State.PENDING, transitions.WORKING[record.course], now, "its host took it up"
            )
        return record
    return _failed(record, report.fault, report, now)


def _failed(record: Record, fault: Fault, report: AttemptReport, now: datetime) -> Record:
    same = record.last_fingerprint == report.fingerprint and record.last_error is not None
    if report.attempt < record.attempt and record.failing:
        return record
    failures = report.failures
    if same and record.last_error is not None and record.last_error.generation == record.generation:
        # A step that was begun anew does not know how many failures of its predecessor were never reported.
        failures = max(failures, report.attempt - record.last_error.attempt)
    record = transitions.with_error(record, fault, report.attempt, failures, report.at, same=same)
    latest_next = now + transitions.spec_of(record).retry.maximum_interval
    record = record.but(
        last_fingerprint=report.fingerprint,
        attempt=report.attempt,
        next_attempt_at=min(report.next_attempt_at, latest_next) if report.next_attempt_at else None,
    )
    return transitions.entered(
        record,
        *transitions.BACKOFF[transitions.phase_of(record)],
        now,
        shorten(f"{fault.kind}: {fault.message}", REASON_LIMIT_BYTES),
    )


def host_presence_learned(record: Record, presence: HostPresence, now: datetime) -> Record:
    """Work was not taken up in time: its host is busy, or away."""
    record = record.but(host_seen_at=latest(presence.seen_at, record.host_seen_at))
    if presence.picked_up or record.removing or record.failing or record.course not in transitions.WORKING:
        return record
    if presence.alive:
        return transitions.entered(record, State.PENDING, Substate.QUEUED, now, "its host is busy")
    return _waits_for_host(record, now)


def _waits_for_host(record: Record, now: datetime) -> Record:
    reason = no_worker(record.host, record.host_seen_at)
    return transitions.entered(record, State.PENDING, Substate.WAITING_FOR_HOST, now, reason)


def central_defaults_learned(record: Record, give_up_after: timedelta | None) -> Record:
    """The control worker told its settings; they hold where the manifest is silent.

    A limit that is new to a step under way takes effect at its next try, which is scheduled anew with it.
    """
    record = record.but(central_give_up_after=give_up_after)
    begun = record.last_error.first_at if record.failing and record.last_error else record.since
    give_up_at = transitions.deadline(record, begun)
    if record.course not in transitions.WORKING or record.give_up_at == give_up_at:
        return record
    return handed_over(record).but(give_up_at=give_up_at, turn=record.turn + 1)


def image_found_missing(record: Record, now: datetime) -> Record:
    """The container cannot be made before its image was fetched.

    An image that vanishes again and again is fetched ever more slowly.
    """
    refetches = record.refetches + 1 if record.fetched else 0
    resume_at = None
    if refetches:
        base, cap = _REFETCH
        resume_at = now + backoff.delay(refetches, seed=f"{record.incarnation}/refetch", base=base, cap=cap)
    record = record.but(
        course=Course.PULL,
        attempts_before=0,
        refetches=refetches,
        resume_at=resume_at,
        **transitions.no_attempt(),
    )
    if record.failing:
        return transitions.entered(record, State.PENDING, Substate.PULLING, now, "the image is missing")
    return record


def image_fetched(record: Record, warning: str, now: datetime) -> Record:
    """The image is local."""
    record = record.but(
        course=Course.START, fetched=True, attempts_before=0, warning=warning, **transitions.no_attempt()
    )
    return transitions.entered(record, State.PENDING, Substate.STARTING, now, "the image is here")


def container_started(record: Record, live: Live, now: datetime, *, ended: LastExit | None = None) -> Record:
    """The container runs, and is the only one of its workload; ``ended`` is how the run ended that was not wanted any more."""
    record = record.but(
        course=Course.UP,
        live=live.model_copy(update={"generation": record.generation}),
        attempts_before=0,
        refetches=0,
        dependencies_met=True,
        has_run=True,
        give_up_at=None,
        resume_at=None,
        unwanted_run=None,
        last_exit=ended or record.last_exit,
        host_seen_at=now,
        **transitions.no_attempt(),
    )
    reason = f"container {live.container_id[:12]} runs"
    record = transitions.entered(record, State.RUNNING, transitions.health_substate(live.health), now, reason)
    return sightings.overtaken(record, now)


def rejected(record: Record, fault: Fault, attempt: int, now: datetime) -> Record:
    """A permanent fault: parked until something changes. A removal is never parked, it is tried again."""
    seen = fault.seen_generation
    if seen is not None and seen >= record.container_generation and not record.removing:
        return _caught_up(record, seen, now)
    record = transitions.with_error(record, fault, attempt, 1, now)
    if record.removing:
        return attempt_lost(record, fault, now)
    record = _parked(record, attempt)
    reason = f"{fault.kind}: tried no more until a newer manifest or a retry"
    return transitions.entered(record, State.FAILED, Substate.REJECTED, now, reason)


def _caught_up(record: Record, seen: int, now: datetime) -> Record:
    """The host has seen later generations of this very life: somebody reset the workflow in Temporal, and left out their applies.

    What it remembers is wanted now, so it goes on under a number that is new to the host.
    """
    generation = seen + 1
    applies = {
        id_: apply.model_copy(update={"generation": generation}) if apply.generation == record.generation else apply
        for id_, apply in record.applies.items()
    }
    record = record.but(generation=generation, container_generation=generation, applies=applies)
    reason = f"the workflow was reset in Temporal and has forgotten generation {seen}: it goes on as {generation}"
    return transitions.begun(transitions.noted(record, now, reason), now, "", curve_goes_on=False)


def gave_up(record: Record, fault: Fault | None, attempt: int, now: datetime) -> Record:
    """The time limit passed."""
    known = record.last_error
    if fault is not None:
        unreported = attempt - known.attempt if known is not None and known.generation == record.generation else 1
        record = transitions.with_error(record, fault, attempt, max(1, unreported), now)
    return transitions.entered(
        _parked(record, attempt), State.FAILED, Substate.GAVE_UP, now, "the time limit (giveUpAfter) passed"
    )


def _parked(record: Record, attempt: int) -> Record:
    return record.but(
        course=Course.PARKED,
        parked_from=record.course,
        attempts_before=attempt,
        resume_at=None,
        give_up_at=None,
        **transitions.no_attempt(),
    )


def attempt_lost(record: Record, fault: Fault, now: datetime) -> Record:
    """A step ended in a way that says nothing about the workload: it is taken up again after a wait on its curve."""
    attempt = max(record.attempts_before, record.attempt) + 1
    wait = backoff.delay(
        attempt, seed=f"{record.incarnation}/lost", base=timedelta(seconds=1), cap=timedelta(seconds=300)
    )
    record = transitions.with_error(record, fault, attempt, 1, now)
    record = record.but(attempts_before=attempt, attempt=attempt, resume_at=now + wait, next_attempt_at=now + wait)
    return transitions.entered(
        record, *transitions.BACKOFF[transitions.phase_of(record)], now, shorten(fault.message, REASON_LIMIT_BYTES)
    )


def handed_over(record: Record) -> Record:
    """The run ends in the middle of a wait: the next run waits for the rest of it, then makes the next try."""
    return record.but(
        attempts_before=max(record.attempts_before, record.attempt),
        resume_at=record.resume_at or record.next_attempt_at,
    )


def removed(record: Record, now: datetime) -> Record:
    """Nothing of it is left on the host."""
    record = record.but(course=Course.GONE, live=None, resume_at=None, **transitions.no_attempt())
    return transitions.entered(record, State.REMOVED, Substate.OK, now, "removed")
