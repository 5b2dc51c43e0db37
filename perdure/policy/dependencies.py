# SPDX-License-Identifier: Apache-2.0
"""When the workloads that another one depends on are as far as it needs them, and what is said of those that are not.

A generation waits once, before its first pull or start. What has run once never waits again: a restart, a resume or a retry
that hung on others would turn one crash into many.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from perdure.model.messages import WaitingOn
from perdure.model.observation import Health
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.model.workload import DependencyCondition
from perdure.policy import transitions
from perdure.policy.shorten import shorten

NAMED = 8
"""How many dependencies are told by name; the others are counted."""
REASON_LIMIT_BYTES = 200
SOONEST_LOOK = timedelta(milliseconds=500)
SLOWEST_LOOK = timedelta(seconds=5)
QUIET = timedelta(minutes=10)
"""After this long without news the next one is told at once again."""


# ---- what another workload's status is worth ----


def is_met(condition: DependencyCondition, status: WorkloadStatus) -> bool:
    """Whether a workload with this status is as far as wanted. One whose host is lost is not: nobody knows what it does."""
    match condition:
        case DependencyCondition.RUNNING:
            return status.state is State.RUNNING
        case DependencyCondition.HEALTHY:
            return status.state is State.RUNNING and _health(status) is Health.HEALTHY
        case DependencyCondition.SUCCEEDED:
            return status.state is State.SUCCEEDED
        case DependencyCondition.FAILED:
            return status.state is State.FAILED


def unmet(label: str, condition: DependencyCondition, status: WorkloadStatus | None) -> str:
    """Why a dependency is not met, for example ``edge-1/db is Pending/Pulling, wanted: running``; None where it is not there."""
    if status is None:
        return f"{label} does not exist yet, wanted: {condition}"
    also = ""
    if condition is DependencyCondition.HEALTHY and status.state is State.RUNNING:
        also = " and has no healthcheck" if _health(status) is Health.NONE else f" and its health is {_health(status)}"
    return f"{label} is {status.state}/{status.substate}{also}, wanted: {condition}"


def unsettled(label: str, condition: DependencyCondition) -> str:
    """It was sent something that it has not taken note of yet: what it says of itself may be of the wish before."""
    return f"{label} is taking up what was sent to it, wanted: {condition}"


def unreadable(label: str, condition: DependencyCondition, cause: str) -> str:
    """It cannot be told how far it is."""
    return f"{label} cannot be looked at ({cause}), wanted: {condition}"


def _health(status: WorkloadStatus) -> Health:
    return status.live.health if status.live is not None else Health.NONE


def listed(items: tuple[str, ...]) -> str:
    """Several of them in one line."""
    more = len(items) - NAMED
    return "; ".join(items[:NAMED]) + (f"; and {more} more" if more > 0 else "")


def wanted(depends_on: Mapping[str, DependencyCondition]) -> str:
    """What is waited for, for example ``edge-1/db: running``."""
    return listed(tuple(f"{label}: {condition}" for label, condition in depends_on.items()))


# ---- how often ----


def next_look(waited: timedelta, chance: float, slowest: timedelta = SLOWEST_LOOK) -> timedelta:
    """The wait before the next look: about a tenth of what was waited so far, so that little is lost and a long wait is cheap.

    ``chance``, of [0, 1], spreads those that began together.
    """
    wait = min(max(waited / 10, SOONEST_LOOK), slowest)
    return wait * (0.8 + 0.4 * chance)


def telling_interval(told: int) -> timedelta:
    """How long news is kept back after that many were told in a row: a dependency in a crash loop must not fill the history."""
    return timedelta(seconds=min(0.25 * 2 ** min(told, 12), 300))


# ---- the wait of a workload ----


def wait_begun(record: Record, now: datetime) -> Record:
    """Others are looked at from now on."""
    reason = shorten(f"waits for {wanted(transitions.spec_of(record).depends_on)}", REASON_LIMIT_BYTES)
    return transitions.entered(record, State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, now, reason)


def learned(record: Record, told: WaitingOn) -> Record:
    """Some are not met. What is told for a wait that is over may come late, and changes nothing."""
    if told.turn != record.turn or record.course is not Course.DEPENDENCIES or record.removing or record.paused:
        return record
    return record.but(waiting_on=told.unmet[: len(transitions.spec_of(record).depends_on)])


def met(record: Record, now: datetime) -> Record:
    """All are met. Only from now on does a time limit count: nobody gives up because others are slow."""
    record = record.but(
        course=transitions.first_step(record),
        dependencies_met=True,
        waiting_on=(),
        give_up_at=transitions.deadline(record, now),
    )
    return transitions.entered(
        record, State.PENDING, transitions.WORKING[record.course], now, "its dependencies are met"
    )


def reconsidered(record: Record, before: Mapping[str, DependencyCondition]) -> Record:
    """Other dependencies are wanted of the same container: those that are new were never met. What has run once is left alone."""
    is_new = transitions.spec_of(record).depends_on.items() - before.items()
    return record.but(dependencies_met=False) if is_new and not record.has_run else record


def awaited_anew(record: Record, now: datetime) -> Record:
    """A wait for others begins, or begins again with other ones, before the first start; its curve of tries goes on after it."""
    record = record.but(
        course=Course.DEPENDENCIES,
        turn=record.turn + 1,
        attempts_before=max(record.attempts_before, record.attempt),
        resume_at=None,
        give_up_at=None,
        waiting_on=(),
        **transitions.no_attempt(),
    )
    return record if transitions.spec_of(record).depends_on else met(record, now)
