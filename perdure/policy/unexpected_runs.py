# SPDX-License-Identifier: Apache-2.0
"""Runs that Perdure did not begin: by hand, or by the host itself while Temporal was away. What runs is the truth.

Podman's list knows whole seconds only, so times are compared by the second. Where a host says that it restarted the container
itself, no time is asked: a small board may start its clock anew with every boot. And what is seen after another run began is no
news of an earlier one, whatever its own time says: the host's clock was set back in between.
"""

from __future__ import annotations

from datetime import datetime

from perdure.model.observation import ContainerState, LastExit, Live, Observation
from perdure.model.record import Course, Record
from perdure.model.states import State
from perdure.policy import restart, transitions


def is_of_an_earlier_run(seen: Observation, live: Live) -> bool:
    """Whether the same container was started again since."""
    if seen.restarts or seen.started_at is None or live.started_at is None:
        return False
    began_before = _second(seen.started_at) < _second(live.started_at)
    return began_before and _second(seen.seen_at) <= _second(live.started_at)


def counted(record: Record, seen: Observation) -> Record:
    """Take note of the restarts that the host made by itself, on the curve that it shares with us."""
    if not seen.restarts:
        return record
    crashes = record.crashes + seen.restarts
    ended_at, began_at = seen.exit.at if seen.exit else None, record.live.started_at if record.live else None
    if seen.restarts == 1 and ended_at and began_at:
        settings = transitions.spec_of(record).restart_backoff
        crashes = restart.crashes_after(settings, ended_at - began_at, record.crashes)
    return record.but(
        restarts=record.restarts + seen.restarts, crashes=crashes, last_exit=seen.exit or record.last_exit
    )


def begun_anew(record: Record, live: Live, seen: Observation, now: datetime) -> Record:
    """The container that is believed to be up runs: perhaps it is another run of it than the one that is believed in."""
    if seen.started_at is None or live.started_at is None or _second(seen.started_at) == _second(live.started_at):
        return record
    waits_for_start = record.course is Course.START and live.generation == record.generation
    if waits_for_start and not record.removing:
        return _adopted(record, seen, now)
    record = record.but(restarts=record.restarts + 1) if not seen.restarts else counted(record, seen)
    record = record.but(
        live=live.model_copy(update={"started_at": seen.started_at, "health": seen.health}),
        last_exit=seen.exit or record.last_exit,
        unwanted_run=None,
    )
    if record.course is not Course.UP or record.removing:
        return record
    record = transitions.noted(record, now, _words(seen))
    return transitions.entered(record, State.RUNNING, transitions.health_substate(seen.health), now, seen.health.value)


def of_another_container(record: Record, seen: Observation, now: datetime) -> Record:
    """A container runs that is not believed to be up: it is taken as it is where one should be up and none is.

    Where one is up already, the next start leaves only one of the two.
    """
    if seen.state is not ContainerState.RUNNING or record.removing:
        return record
    if record.course is Course.UP:
        is_old_news = record.live is not None and _is_before(seen.seen_at, record.live.started_at)
        return record if is_old_news else transitions.to_be_started(record, now, _words(seen))
    is_present = seen.generation >= record.container_generation
    is_over = record.last_exit is not None and not seen.restarts and _has_ended(seen, record.last_exit)
    if record.live is not None or not is_present or is_over:
        return record
    if record.course in (Course.ENDED, Course.START, Course.PARKED):
        return _adopted(record, seen, now)
    return record


def _adopted(record: Record, seen: Observation, now: datetime) -> Record:
    """The container is up: what was under way to that is of no use any more."""
    record = counted(record, seen)
    live = Live(
        generation=record.generation,
        container_id=seen.container_id,
        started_at=seen.started_at,
        health=seen.health,
    )
    record = record.but(
        course=Course.UP,
        turn=record.turn + 1,
        live=live,
        unwanted_run=None,
        ended_early=None,
        attempts_before=0,
        refetches=0,
        resume_at=None,
        give_up_at=None,
        **transitions.no_attempt(),
    )
    return transitions.entered(record, State.RUNNING, transitions.health_substate(seen.health), now, _words(seen))


def _words(seen: Observation) -> str:
    if seen.restarts:
        times = "once" if seen.restarts == 1 else f"{seen.restarts} times"
        return f"its host restarted it {times} while Temporal was away"
    return seen.reason or "it was started on its host, not by Perdure"


def _has_ended(seen: Observation, ended: LastExit) -> bool:
    """Whether the run that was seen is the one whose end is known."""
    return _is_before(seen.started_at, ended.at) and not _is_before(ended.at, seen.seen_at)


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and _second(one) < _second(other)


def _second(at: datetime) -> datetime:
    return at.replace(microsecond=0)
