# SPDX-License-Identifier: Apache-2.0
"""What hosts see of a workload's container, and what follows. Pure, and total; only the container believed to be up counts.

A container that ends at once may be seen to end before the answer of its start has arrived: the two travel on ways of their
own. Such news is kept until the answer comes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.model.observation import ContainerState, Health, Live, Observation
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.policy import restart, transitions, unhealthy

_ENDS = (ContainerState.EXITED, ContainerState.DEAD, ContainerState.MISSING)


def observed(record: Record, seen: Observation, now: datetime) -> Record:
    """A host saw something happen to the container. Only the container that is believed to be up counts."""
    if record.course is Course.START and seen.state in _ENDS:
        record = record.but(ended_early=seen)
    live = record.live
    if live is None or seen.container_id != live.container_id or record.course is Course.GONE:
        return record
    record = record.but(host_seen_at=seen.seen_at)
    match seen.state:
        case ContainerState.RUNNING | ContainerState.CREATED | ContainerState.STOPPING:
            return _health_seen(record, live, seen, now)
        case ContainerState.PAUSED:
            return _frozen(record, now)
        case ContainerState.EXITED | ContainerState.DEAD | ContainerState.MISSING:
            return _ended(record, live, seen, now)


def overtaken(record: Record, now: datetime) -> Record:
    """A start was answered: make up for the end of its container, if that was told before."""
    seen, live = record.ended_early, record.live
    if seen is None:
        return record
    record = record.but(ended_early=None)
    if live is None or seen.container_id != live.container_id or _is_of_an_earlier_run(seen, live):
        return record
    return observed(record, seen, now)


def _is_of_an_earlier_run(seen: Observation, live: Live) -> bool:
    """Whether the same container was started again since. Podman's list knows whole seconds only."""
    if seen.started_at is None or live.started_at is None:
        return False
    return seen.started_at < live.started_at.replace(microsecond=0)


def _health_seen(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    if seen.state is not ContainerState.RUNNING or seen.health in (Health.NONE, live.health):
        return record
    if _is_of_an_earlier_run(seen, live):
        return record
    record = record.but(live=live.model_copy(update={"health": seen.health}))
    if record.course is Course.UP and not record.removing:
        reason = f"{seen.health}: {seen.reason}" if seen.reason else seen.health.value
        substate = transitions.health_substate(seen.health)
        record = transitions.entered(record, State.RUNNING, substate, now, reason)
    return unhealthy.recovered(unhealthy.answered(record, now), now)


def _frozen(record: Record, now: datetime) -> Record:
    """Somebody paused the container on its host, and not the workload: the next start finds it and lets it go on."""
    if record.course is not Course.UP or record.removing:
        return record
    record = record.but(
        course=Course.START, turn=record.turn + 1, attempts_before=0, give_up_at=transitions.deadline(record, now)
    )
    reason = "the container was paused on its host"
    return transitions.entered(record, State.PENDING, transitions.WORKING[record.course], now, reason)


def _ended(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    record = record.but(live=None, last_exit=seen.exit or record.last_exit, unwanted_run=None)
    if record.course is not Course.UP or record.removing:
        return record
    spec = transitions.spec_of(record)
    ended_at = (seen.exit.at if seen.exit else None) or seen.seen_at
    ran_for = max(timedelta(0), ended_at - live.started_at) if live.started_at else timedelta(0)
    code = seen.exit.code if seen.exit else None
    ended = restart.Ended(code, ran_for, record.crashes)
    seed = f"{record.incarnation}/{record.container_generation}"
    decision = restart.decide(spec.restart, spec.restart_backoff, ended, seed=seed)
    if isinstance(decision, restart.Stay):
        record = record.but(course=Course.ENDED)
        state, substate = (State.SUCCEEDED, Substate.OK) if decision.succeeded else (State.FAILED, Substate.EXITED)
        return transitions.entered(record, state, substate, now, decision.reason)
    begin = now + decision.after
    record = record.but(
        course=Course.START,
        turn=record.turn + 1,
        attempts_before=0,
        restarts=record.restarts + 1,
        crashes=decision.crashes,
        resume_at=begin if decision.after else None,
        next_attempt_at=begin if decision.after else None,
        give_up_at=transitions.deadline(record, begin),
    )
    reason = seen.reason or f"the container ended with code {code}"
    return transitions.entered(record, State.PENDING, Substate.RESTART_BACKOFF, now, reason)
