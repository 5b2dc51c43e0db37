# SPDX-License-Identifier: Apache-2.0
"""What hosts see of a workload's containers, and what follows. Pure, and total: each state has its answer, in every course.

A container that ends at once may be seen to end before the answer of its start has arrived: the two travel on ways of their
own. Such news is kept until the answer comes. News of an earlier run, or of an earlier life of the workload, changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.model.observation import ContainerState, Health, LastExit, Live, Observation
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.model.workload import RestartPolicy
from perdure.policy import restart, transitions, unexpected_runs, unhealthy

_ENDS = (ContainerState.EXITED, ContainerState.DEAD, ContainerState.MISSING)
_SPOILT = {
    ContainerState.STOPPING: "the container got stuck while it was stopped",
    ContainerState.UNMONITORED: "the container lost its monitor",
}
_UNKNOWN_END = {
    ContainerState.DEAD: "the container ended, and its monitor too",
    ContainerState.MISSING: "the container is missing",
}


def observed(record: Record, seen: Observation, now: datetime) -> Record:
    """A host saw something happen to a container of the workload."""
    is_of_another_life = seen.incarnation not in ("", record.incarnation)
    if record.course in (Course.UNBORN, Course.GONE) or is_of_another_life:
        return record
    if record.course is Course.START and seen.state in _ENDS:
        record = record.but(ended_early=seen)
    live = record.live
    if live is None or seen.container_id != live.container_id:
        return unexpected_runs.of_another_container(record, seen, now)
    if unexpected_runs.is_of_an_earlier_run(seen, live):
        return record
    match seen.state:
        case ContainerState.RUNNING:
            record = unexpected_runs.begun_anew(record, live, seen, now)
            return _health_seen(record, record.live or live, seen, now)
        case ContainerState.CREATED:
            return _rebooted(record, now)
        case ContainerState.PAUSED:
            return _frozen(record, now)
        case ContainerState.UNMONITORED | ContainerState.STOPPING:
            return _spoilt(record, live, seen, now)
        case ContainerState.EXITED | ContainerState.DEAD | ContainerState.MISSING:
            return _ended(record, live, seen, now)


def overtaken(record: Record, now: datetime) -> Record:
    """A start was answered: make up for the end of its container, if that was told before."""
    seen, live = record.ended_early, record.live
    if seen is None:
        return record
    record = record.but(ended_early=None)
    if live is None or seen.container_id != live.container_id:
        return record
    return observed(record, seen, now)


def _health_seen(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    if seen.state is not ContainerState.RUNNING or seen.health in (Health.NONE, live.health):
        return record
    record = record.but(live=live.model_copy(update={"health": seen.health}))
    if record.course is Course.UP and not record.removing:
        reason = f"{seen.health}: {seen.reason}" if seen.reason else seen.health.value
        substate = transitions.health_substate(seen.health)
        record = transitions.entered(record, State.RUNNING, substate, now, reason)
    return unhealthy.recovered(unhealthy.answered(record, now, at_host=seen.seen_at), now)


def _rebooted(record: Record, now: datetime) -> Record:
    """The container ran, and has not run since its host was started. That is no end: it comes back whatever the policy."""
    record = record.but(live=None, unwanted_run=None)
    if not _is_to_be_up(record):
        return record
    reason = "its host was restarted"
    return transitions.to_be_started(record, now, reason, restarts=record.restarts + 1)


def _frozen(record: Record, now: datetime) -> Record:
    """Somebody paused the container on its host, and not the workload: the next start finds it and lets it go on."""
    if not _is_to_be_up(record):
        return record
    return transitions.to_be_started(record, now, "the container was paused on its host")


def _spoilt(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    """The container runs, but cannot be trusted any more: the next start forces it out and makes another.

    What must never run twice is left to its end: that will tell.
    """
    if not _is_to_be_up(record):
        return record
    reason = _SPOILT[seen.state]
    if transitions.spec_of(record).restart is not RestartPolicy.NEVER:
        return _restarted(record, live, seen, now, reason)
    reason = f"{reason}; restart: never, so it is left to its end"
    is_noted = bool(record.history) and record.history[-1].reason == reason
    return record if is_noted else transitions.noted(record, now, reason)


def _ended(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    record = unexpected_runs.counted(record, seen)
    last_exit = seen.exit or LastExit(at=seen.seen_at)
    record = record.but(live=None, last_exit=last_exit, unwanted_run=None)
    if not _is_to_be_up(record):
        return record
    reason = seen.reason or _UNKNOWN_END.get(seen.state) or f"the container ended with code {last_exit.code}"
    return _restarted(record, live, seen, now, reason)


def _restarted(record: Record, live: Live, seen: Observation, now: datetime, reason: str) -> Record:
    """Start it again, if and when policy says so."""
    spec = transitions.spec_of(record)
    began_at = max(filter(None, (live.started_at, seen.started_at)), default=None)
    ended_at = (seen.exit.at if seen.exit else None) or seen.seen_at
    ended = restart.Ended(
        code=seen.exit.code if seen.exit else None,
        ran_for=max(timedelta(0), ended_at - began_at) if began_at else timedelta(0),
        crashes_before=record.crashes,
        vanished=seen.state is ContainerState.MISSING or seen.state in _SPOILT,
    )
    seed = f"{record.incarnation}/{record.container_generation}"
    decision = restart.decide(spec.restart, spec.restart_backoff, ended, seed=seed)
    if isinstance(decision, restart.Stay):
        record = record.but(course=Course.ENDED)
        state, substate = (State.SUCCEEDED, Substate.OK) if decision.succeeded else (State.FAILED, Substate.EXITED)
        return transitions.entered(record, state, substate, now, decision.reason)
    return transitions.to_be_restarted(record, now, reason, decision.after, decision.crashes)


def _is_to_be_up(record: Record) -> bool:
    return record.course is Course.UP and not record.removing
