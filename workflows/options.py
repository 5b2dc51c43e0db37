# SPDX-License-Identifier: Apache-2.0
"""Every timeout and retry policy of the workflows, each with its reason."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TypedDict

from perdure.model.faults import Phase
from perdure.model.host import HostChange, HostState
from perdure.model.host_record import HostRecord
from perdure.model.record import Record
from perdure.policy.shorten import shorten
from perdure.wire import names
from temporalio.common import Priority, RetryPolicy
from temporalio.workflow import ActivityCancellationType

HEARTBEAT = timedelta(seconds=5)
"""A dead worker is noticed after this long. Workers heartbeat every two seconds: a busy one must not be taken for dead."""

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

LOOK_LIMIT = timedelta(seconds=20)
"""One try of looking at other workloads; a control worker that died in the middle of it is noticed after this long."""

LOOK_AGAIN = timedelta(seconds=5)
"""The wait before others are looked at anew where that ended without an answer, for example by somebody's hand."""

AFTER_OTHERS = Priority(priority_key=4)
"""Of looks that nobody is in a hurry for."""

BACKSTOP = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=300),
)
"""Tries for ever. The waits after a fault are set by the host (policy.backoff); these hold where a host could not answer."""


SUPERVISE_HEARTBEAT = timedelta(seconds=10)
"""A worker's silence is noticed after this long. It heartbeats every three seconds."""

SUPERVISE_PICK_UP = timedelta(seconds=15)
"""A worker that answers takes up its supervision at once; nobody does in this time only where there is none."""

SUPERVISE_PICK_UP_LOST = timedelta(hours=1)
"""The same while the host is lost: the order waits for it to be back, and is renewed now and then in case it went astray."""

SUPERVISE_LIMIT = timedelta(days=3650)
"""Its end is told by heartbeats; the server wants a limit."""

RESYNC_PICK_UP = timedelta(seconds=10)
"""Whoever asks for a resync is told by then that no worker is there."""

RESYNC_LIMIT = timedelta(seconds=60)
"""Far above what a slow engine needs to list hundreds of containers: only a hung one, or a stopped worker, meets it."""

TELL_LIMIT = timedelta(minutes=2)
"""One try of telling a host's workloads: hundreds of signals, each sent within seconds or given up until the next try."""

TELL_HEARTBEAT = timedelta(seconds=15)
"""A control worker that died while it told them is noticed after this long."""

ONCE = RetryPolicy(maximum_attempts=1)
"""Another try is for the workflow, or for whoever asked, to decide."""

UNTIL_TOLD = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=30)
)
"""A workload that was not told would show something false: it is tried for ever."""

FIRST = Priority(priority_key=1)
"""Before all work that waits for a host's slots."""


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


class HostOptions(TypedDict, total=False):
    """How an activity of a host's workflow is scheduled."""

    task_queue: str
    activity_id: str
    summary: str
    schedule_to_start_timeout: timedelta
    start_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType
    priority: Priority


def supervise(record: HostRecord, number: int) -> HostOptions:
    """How to order a supervision. A cancelled one is not waited for (TRY_CANCEL): its worker may be dead."""
    is_lost = record.state is HostState.LOST
    worker = record.worker.identity if record.worker else f"any worker of host {record.host}"
    return HostOptions(
        task_queue=names.host_queue(record.host),
        activity_id=f"{names.SUPERVISE}-{number}",
        summary=shorten(f"waits for {worker} to be back" if is_lost else worker, SUMMARY_LIMIT_BYTES),
        schedule_to_start_timeout=SUPERVISE_PICK_UP_LOST if is_lost else SUPERVISE_PICK_UP,
        start_to_close_timeout=SUPERVISE_LIMIT,
        heartbeat_timeout=SUPERVISE_HEARTBEAT,
        retry_policy=ONCE,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        priority=FIRST,
    )


def resync(host: str) -> HostOptions:
    """How to ask for a resync."""
    return HostOptions(
        task_queue=names.host_queue(host),
        summary="asked for",
        schedule_to_start_timeout=RESYNC_PICK_UP,
        start_to_close_timeout=RESYNC_LIMIT,
        retry_policy=ONCE,
        priority=FIRST,
    )


def tell(change: HostChange) -> HostOptions:
    """How to have a host's workloads told, by a control worker."""
    return HostOptions(
        summary="the host is lost" if change.lost else "the host is back",
        start_to_close_timeout=TELL_LIMIT,
        heartbeat_timeout=TELL_HEARTBEAT,
        retry_policy=UNTIL_TOLD,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
    )
