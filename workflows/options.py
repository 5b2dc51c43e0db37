# SPDX-License-Identifier: Apache-2.0
"""Every timeout and retry policy of the workflows, each with its reason."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict

from perdure.model.faults import Phase
from perdure.model.record import Record
from perdure.policy.shorten import shorten
from perdure.wire import names
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

HEARTBEAT = timedelta(seconds=5)
"""A dead worker is noticed after this long. Workers heartbeat every second; less would mistake a busy host for a dead one."""

PICK_UP = timedelta(seconds=10)
"""Work that no host has taken up after this long makes us ask whether the host is there."""

PICK_UP_MAXIMUM = timedelta(hours=1)
"""The longest wait between two such questions; they double from PICK_UP, since each costs history."""

START_LIMIT = timedelta(minutes=10)
"""One try of a start: far above what a slow disk needs, so that only a hung engine meets it. The stop grace comes on top."""

PULL_LIMIT = timedelta(hours=24)
"""One try of a pull: a large image on a slow link may take hours. A pull without progress is ended long before by its host."""

QUESTION_LIMIT = timedelta(seconds=20)
"""A question to the control worker; its answer is only good for the status, so it is not worth a long wait."""

DEFAULTS_LIMIT = timedelta(seconds=5)
"""Reading settings in memory."""

SIGN = timedelta(days=3650)
"""How long a sign stands at most. Long enough that none is ever seen to run out."""

SUMMARY_LIMIT_BYTES = 300
"""The server refuses a summary of more than 400 bytes, and with it what it is the summary of, for ever."""

BACKSTOP = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=300),
)
"""Tries for ever. The waits after a fault are set by the host (policy.backoff); these hold where a host could not answer."""


class StepOptions(TypedDict):
    """How an attempt of a step is scheduled."""

    task_queue: str
    activity_id: str
    summary: str
    start_to_close_timeout: timedelta
    schedule_to_close_timeout: timedelta | None
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType


def step(record: Record, phase: Phase, activity_id: str, now: datetime) -> StepOptions:
    """How to schedule a step of a host.

    A cancelled step is waited for (WAIT_CANCELLATION_COMPLETED): else an old and a new attempt could touch the container at
    the same time.
    """
    limit = PULL_LIMIT if phase is Phase.PULL else START_LIMIT
    if record.spec is not None and phase is not Phase.PULL:
        limit += record.spec.container.stop.timeout
    left = None
    if record.give_up_at is not None and phase is not Phase.STOP:
        left = max(timedelta(seconds=1), record.give_up_at - now)
    image = record.spec.container.image if record.spec else ""
    return StepOptions(
        task_queue=names.pull_queue(record.host) if phase is Phase.PULL else names.host_queue(record.host),
        activity_id=activity_id,
        summary=shorten(f"{image}, generation {record.generation}", SUMMARY_LIMIT_BYTES),
        start_to_close_timeout=limit,
        schedule_to_close_timeout=left,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=BACKSTOP,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )
