# SPDX-License-Identifier: Apache-2.0
"""What the server knows of a try, laid over what the workflow wrote down."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from client.statuses import PendingTry, merge, read_pending
from perdure.model.catalogue import make_fault
from perdure.model.faults import Fault, FaultClass, FaultKind, LastError, Phase
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import failures, names
from perdure.wire.converter import data_converter

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
REFUSED = Fault(
    kind=FaultKind.REGISTRY_UNREACHABLE,
    fault_class=FaultClass.TRANSIENT,
    phase=Phase.PULL,
    message="dial tcp 127.0.0.1:41234: connection refused",
)


def status(
    substate: Substate = Substate.PULL_BACKOFF, error: LastError | None = None, attempt: int = 0
) -> WorkloadStatus:
    return WorkloadStatus(
        state=State.PENDING,
        substate=substate,
        host="edge-1",
        name="web",
        generation=2,
        since=NOW,
        attempt=attempt,
        last_error=error,
    )


def known(attempt: int, at: datetime, message: str = REFUSED.message, generation: int = 2) -> LastError:
    return LastError(
        kind=REFUSED.kind,
        fault_class=REFUSED.fault_class,
        phase=REFUSED.phase,
        message=message,
        attempt=attempt,
        generation=generation,
        first_at=NOW,
        last_at=at,
        count=attempt,
    )


def test_without_a_try_nothing_changes() -> None:
    """A workload that runs has no pending activity."""
    assert merge(status(), None) == status()


def test_a_wait_shows_the_failed_attempt_and_the_next_try() -> None:
    """While it waits the attempt is the one that failed, and the next time is the server's."""
    at = NOW + timedelta(seconds=60)
    pending = PendingTry(
        Phase.PULL, running=False, fault=REFUSED, failed_attempt=7, failed_at=at, next_at=at + timedelta(seconds=30)
    )
    merged = merge(status(error=known(1, NOW), attempt=1), pending)
    assert (merged.attempt, merged.next_attempt_at) == (7, at + timedelta(seconds=30))
    assert merged.last_error is not None
    assert (merged.last_error.attempt, merged.last_error.count, merged.last_error.first_at) == (7, 7, NOW)
    assert merged.last_error.last_at == at


def test_a_running_try_is_one_more_and_has_no_next_time() -> None:
    """The attempt under way counts; when the next one is, nobody knows yet."""
    pending = PendingTry(
        Phase.PULL, running=True, fault=REFUSED, failed_attempt=3, failed_at=NOW + timedelta(seconds=1)
    )
    merged = merge(status(error=known(3, NOW), attempt=3).model_copy(update={"next_attempt_at": NOW}), pending)
    assert (merged.attempt, merged.next_attempt_at) == (4, None)


def test_the_first_try_after_a_retry_is_one_more() -> None:
    """The step was ordered anew, so the server knows no failure of it; the curve goes on."""
    again = PendingTry(Phase.PULL, running=True)
    before = status(error=known(5, NOW), attempt=5)
    assert merge(before, again).attempt == 6
    reported = before.model_copy(update={"attempt": 6, "next_attempt_at": NOW + timedelta(seconds=9)})
    assert merge(reported, again).attempt == 6, "its failure was reported, and the server does not know of it yet"


def test_a_lost_host_makes_no_next_try() -> None:
    """The server would give it the next one at once; nobody is there to take it."""
    lost = status().model_copy(update={"state": State.UNKNOWN, "substate": Substate.HOST_LOST})
    merged = merge(lost, PendingTry(Phase.PULL, running=False, fault=REFUSED, failed_at=NOW, next_at=NOW))
    assert (merged.state, merged.substate, merged.next_attempt_at) == (State.UNKNOWN, Substate.HOST_LOST, None)


def test_the_first_running_try_is_attempt_one() -> None:
    """Nothing has failed, something is under way."""
    merged = merge(status(Substate.PULLING), PendingTry(Phase.PULL, running=True))
    assert (merged.attempt, merged.substate) == (1, Substate.PULLING)


def test_a_failure_that_was_not_reported_yet_is_shown() -> None:
    """The substate follows: a workload with a failed try is never shown as still on its first one."""
    pending = PendingTry(Phase.PULL, running=False, fault=REFUSED, failed_attempt=1, failed_at=NOW)
    merged = merge(status(Substate.PULLING), pending)
    assert merged.substate is Substate.PULL_BACKOFF
    assert merged.last_error is not None
    assert merged.last_error.count == 1


def test_an_older_failure_does_not_hide_a_newer_one() -> None:
    """The workflow may know more than the server's last failure, for example after a retry."""
    newer = known(9, NOW + timedelta(seconds=5))
    pending = PendingTry(Phase.PULL, running=False, fault=REFUSED, failed_attempt=8, failed_at=NOW)
    assert merge(status(error=newer, attempt=9), pending).last_error == newer


@pytest.mark.parametrize(
    ("before", "count"),
    [
        (
            known(2, NOW, message="dial tcp 127.0.0.1:55555: connection refused"),
            5,
        ),  # another source port: the same error
        (known(2, NOW, message="no route to host"), 1),
        (known(2, NOW, generation=1), 1),
    ],
)
def test_errors_are_counted_on_while_they_are_the_same(before: LastError, count: int) -> None:
    """The same kind and text, numbers aside, of the same generation."""
    pending = PendingTry(
        Phase.PULL, running=False, fault=REFUSED, failed_attempt=5, failed_at=NOW + timedelta(seconds=9)
    )
    merged = merge(status(error=before), pending)
    assert merged.last_error is not None
    assert merged.last_error.count == count


def test_a_pause_in_the_web_ui_is_told() -> None:
    """It touches none of our attributes, and yet nothing is tried."""
    merged = merge(status(), PendingTry(Phase.PULL, running=False, next_at=NOW, paused_at=NOW))
    assert merged.next_attempt_at is None
    assert "paused in the Temporal Web UI" in merged.warning


async def failed_with(error: BaseException, attempt: int = 4) -> PendingActivityInfo:
    failure = Failure()
    await data_converter().encode_failure(error, failure)
    info = PendingActivityInfo(
        activity_id="pull-g2",
        state=PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED,
        attempt=attempt,
        last_failure=failure,
        last_worker_identity="host/edge-1@812",
    )
    info.activity_type.name = names.PULL
    moment = Timestamp()
    moment.FromDatetime(NOW)
    info.last_attempt_complete_time.CopyFrom(moment)
    info.next_attempt_schedule_time.CopyFrom(moment)
    return info


async def test_a_fault_is_read_from_the_failure() -> None:
    """With the number that its host counted, which goes on where the server begins again at 1."""
    pending = await read_pending(await failed_with(failures.pack(REFUSED, 12)), data_converter())
    assert (pending.fault, pending.failed_attempt, pending.failed_at, pending.next_at) == (REFUSED, 12, NOW, NOW)


async def test_a_failure_of_another_kind_is_told_too() -> None:
    """An error without a fault is an internal one, with its text; the server's count stands in for the host's."""
    pending = await read_pending(await failed_with(ApplicationError("boom")), data_converter())
    assert pending.fault is not None
    assert (pending.fault.kind, pending.fault.message, pending.failed_attempt) == (FaultKind.INTERNAL, "boom", 3)


async def test_a_workers_shutdown_is_no_error_of_the_workload() -> None:
    """It tells how we work, not what is wrong."""
    shutdown = REFUSED.model_copy(update={"kind": FaultKind.WORKER_SHUTDOWN})
    pending = await read_pending(await failed_with(failures.pack(shutdown, 7)), data_converter())
    assert pending.fault is None
    assert pending.failed_attempt == 6, "it is made again as number 7"


@pytest.mark.parametrize("kind", ["ActivityPause", "ActivityReset"])
async def test_a_try_that_was_ended_in_the_web_ui_is_no_error_of_the_workload(kind: str) -> None:
    """Who presses Pause while a try goes on sees the error before, and not one that the button has made."""
    ended = ApplicationError("Unhandled activity cancel error produced by activity pause", type=kind)
    pending = await read_pending(await failed_with(ended), data_converter())
    assert (pending.fault, pending.failed_attempt) == (None, 3)


async def test_a_try_that_was_lost_with_its_worker_is_counted() -> None:
    """Who tells of it does not know its number: the count must not go back for that. It says what to do, too."""
    lost = make_fault(FaultKind.WORKER_LOST, Phase.PULL, "the worker ended")
    pending = await read_pending(await failed_with(failures.pack(lost, 0), attempt=6), data_converter())
    assert (pending.fault, pending.failed_attempt) == (lost, 5)
    silent = TemporalTimeoutError("", type=TimeoutType.HEARTBEAT, last_heartbeat_details=[])
    pending = await read_pending(await failed_with(silent, attempt=6), data_converter())
    assert pending.fault is not None
    assert (pending.fault.kind, pending.failed_attempt) == (FaultKind.WORKER_LOST, 5)
    assert pending.fault.hint
