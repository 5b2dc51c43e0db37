# SPDX-License-Identifier: Apache-2.0
"""What follows from a container that runs and whose healthcheck fails: nothing, or a restart where its manifest asks for that.

The run that does no work goes on until its restart is due, and is ended only then: it may still serve somebody, and it may
recover while it waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from perdure.model.observation import Health, Run
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.policy import restart, transitions


def answered(record: Record, now: datetime, *, at_host: datetime | None = None) -> Record:
    """Restart the container that is unhealthy, if that is wanted; whatever else is true of it, nothing changes.

    ``at_host`` is the time by the clock of its host, where that is known: only that clock tells how long the container has run.
    """
    live, spec = record.live, record.spec
    if live is None or live.health is not Health.UNHEALTHY or spec is None or not spec.restart_unhealthy:
        return record
    if record.course is not Course.UP or record.paused or record.removing:
        return record
    ran_for = max(timedelta(0), (at_host or now) - live.started_at) if live.started_at else timedelta(0)
    seed = f"{record.incarnation}/{record.container_generation}"
    decision = restart.decide_unhealthy(spec.restart_backoff, ran_for, record.crashes, seed=seed)
    if decision is None:
        limit = spec.restart_backoff.limit
        return transitions.noted(record, now, f"unhealthy; the limit of {limit} restarts in a row is used up")
    record = record.but(unwanted_run=Run(container_id=live.container_id, started_at=live.started_at))
    return transitions.to_be_restarted(record, now, "unhealthy: restarted", decision.after, decision.crashes)


def recovered(record: Record, now: datetime) -> Record:
    """The container is healthy again before its restart was due: it is left alone, and the curve stays where it is."""
    waits = record.course is Course.START and record.unwanted_run is not None and record.resume_at is not None
    if not waits or record.removing or record.live is None or record.live.health is not Health.HEALTHY:
        return record
    record = record.but(
        course=Course.UP,
        turn=record.turn + 1,
        attempts_before=0,
        unwanted_run=None,
        restarts=record.restarts - 1,
        resume_at=None,
        give_up_at=None,
        **transitions.no_attempt(),
    )
    return transitions.entered(record, State.RUNNING, Substate.OK, now, "healthy again, before its restart")
