# SPDX-License-Identifier: Apache-2.0
"""The status of a workload: what its workflow wrote down, completed by what the server knows of the try under way.

The workflow writes its status into its memo whenever something changes; repeated failures with the same error change nothing,
so that a long outage costs no history. Attempt number, latest failure and the time of the next try are therefore asked of the
server. Both work while every worker is down. Workflow queries are never used: a query between a worker's crash and the next
workflow task can leave a history that no replay gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import ValidationError
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecution, WorkflowExecutionDescription
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, FailureError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from client.errors import Incompatible
from perdure.model.catalogue import make_fault
from perdure.model.faults import MESSAGE_LIMIT_BYTES, Fault, FaultKind, LastError, Phase
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.policy import errors, identity
from perdure.wire import names

PHASES: Final = {names.PULL: Phase.PULL, names.ENSURE: Phase.START, names.STOP: Phase.STOP}
"""The steps by the names of their activities."""
_TRYING: Final = {
    Substate.PULLING: Substate.PULL_BACKOFF,
    Substate.STARTING: Substate.START_BACKOFF,
    Substate.STOPPING: Substate.STOP_BACKOFF,
}
_SILENT: Final = (FaultKind.WORKER_SHUTDOWN, FaultKind.SUPERSEDED)
"""Failures that tell how we work, and nothing about the workload."""
_OF_THE_WEB_UI: Final = ("ActivityPause", "ActivityReset")
"""How the SDK calls the failure of a try that a person has ended in the Temporal Web UI."""


@dataclass(frozen=True, slots=True)
class PendingTry:
    """What the server knows of the step under way."""

    phase: Phase
    running: bool
    """False while it waits for its time, or for a worker."""
    fault: Fault | None = None
    """Of the latest try that failed."""
    failed_attempt: int = 0
    """The number of that try on the curve of its generation, from 1; 0 where none has failed."""
    failed_at: datetime | None = None
    next_at: datetime | None = None
    paused_at: datetime | None = None
    """Since when a person has paused it in the Temporal Web UI."""


def merge(status: WorkloadStatus, pending: PendingTry | None) -> WorkloadStatus:
    """Complete a status by the try under way. Nothing newer in the status is overwritten.

    The attempt that is shown is the latest one that was begun: while a wait goes on it is the one that failed.
    """
    if pending is None:
        return status
    changes: dict[str, Any] = {"attempt": _attempt_begun(status, pending)}
    error = status.last_error
    if (
        pending.fault is not None
        and pending.failed_at is not None
        and (error is None or pending.failed_at > error.last_at)
    ):
        changes["last_error"] = _counted(status, pending, pending.fault, pending.failed_at)
        changes["substate"] = _TRYING.get(status.substate, status.substate)
    if pending.paused_at is not None:
        changes["next_attempt_at"] = None
        changes["warning"] = (
            f"Its tries were paused in the Temporal Web UI at {pending.paused_at:%Y-%m-%d %H:%M:%S} UTC."
        )
    elif pending.running or status.state is State.UNKNOWN:
        changes["next_attempt_at"] = None
    elif pending.next_at is not None:
        changes["next_attempt_at"] = pending.next_at
    return status.model_copy(update=changes)


def _attempt_begun(status: WorkloadStatus, pending: PendingTry) -> int:
    """The number of the latest try.

    A step that was ordered anew, after a retry, goes on from what the status tells; the server knows no failure of it yet. Its
    first try is shown as such until it is reported, and a report comes with the time of the next one.
    """
    known = pending.failed_attempt
    if not known and status.next_attempt_at is None:
        known = status.attempt
    return max(status.attempt, known + pending.running)


def _counted(status: WorkloadStatus, pending: PendingTry, fault: Fault, at: datetime) -> LastError:
    """The latest error, counted on where it is the one already known."""
    known = status.last_error
    is_same = known is not None and identity.fingerprint(known) == identity.fingerprint(fault)
    unreported = 1
    if known is not None and is_same and known.generation == status.generation:
        unreported = max(pending.failed_attempt - known.attempt, 0)
    return errors.counted(
        known,
        fault,
        is_same=is_same,
        attempt=pending.failed_attempt,
        generation=status.generation,
        failures=unreported,
        at=at,
    )


async def from_memo(execution: WorkflowExecution) -> WorkloadStatus:
    """What the workflow wrote down.

    Raises:
        Incompatible: it wrote something that this version cannot read.
    """
    try:
        return await execution.memo_value(names.MEMO_STATUS, type_hint=WorkloadStatus)
    except (KeyError, ValidationError, RuntimeError) as error:
        raise Incompatible(
            f"the status of {execution.id} cannot be read by this version of perdure", "Update this perdure."
        ) from error


async def from_description(description: WorkflowExecutionDescription) -> WorkloadStatus:
    """What the workflow wrote down, completed.

    A step that is being called off counts as well: the workflow writes down what comes after it only when it has ended.
    """
    status = await from_memo(description)
    steps = [item for item in description.raw_description.pending_activities if item.activity_type.name in PHASES]
    return merge(status, await read_pending(steps[-1], description.data_converter) if steps else None)


async def read_pending(info: PendingActivityInfo, converter: DataConverter) -> PendingTry:
    """Read what the server tells of an activity."""
    phase = PHASES[info.activity_type.name]
    error = await converter.decode_failure(info.last_failure) if info.HasField("last_failure") else None
    by_a_person = isinstance(error, ApplicationError) and error.type in _OF_THE_WEB_UI
    fault = _fault(error, info.last_worker_identity, phase) if error is not None and not by_a_person else None
    waits = info.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return PendingTry(
        phase=phase,
        running=info.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
        fault=None if fault is not None and fault.kind in _SILENT else fault,
        failed_attempt=_attempt(error, info.attempt - 1),
        failed_at=_time(info, "last_attempt_complete_time"),
        next_at=_time(info, "next_attempt_schedule_time") if waits else None,
        paused_at=_paused_at(info),
    )


def _fault(error: BaseException, worker: str, phase: Phase) -> Fault:
    if isinstance(error, ApplicationError) and error.details:
        try:
            return Fault.model_validate(error.details[0])
        except ValidationError:
            return _unclassified(phase, error)
    if isinstance(error, TemporalTimeoutError) and error.type is TimeoutType.HEARTBEAT:
        message = f"the worker {worker} stopped answering in the middle of a try"
        return make_fault(FaultKind.WORKER_LOST, phase, message)
    if isinstance(error, TemporalTimeoutError):
        return make_fault(FaultKind.TIMED_OUT, phase, "a try took longer than it may")
    return _unclassified(phase, error)


def _attempt(error: BaseException | None, failed_since_scheduled: int) -> int:
    """The number of the failed try: as its host counted it, else as the server counts, which forgets what was before.

    A try that ended because its worker was stopped has not failed, and is made again under the same number. Who tells that a try
    was lost with its worker does not know its number, and says 0.
    """
    if isinstance(error, ApplicationError) and len(error.details) > 1 and isinstance(error.details[1], int):
        number = error.details[1]
        if error.type == FaultKind.WORKER_SHUTDOWN:
            return max(0, number - 1)
        return number or failed_since_scheduled
    return failed_since_scheduled


def _unclassified(phase: Phase, error: BaseException) -> Fault:
    text = error.message if isinstance(error, FailureError) else str(error)
    message = text.encode()[:MESSAGE_LIMIT_BYTES].decode(errors="ignore")
    return make_fault(FaultKind.INTERNAL, phase, message)


def _time(info: PendingActivityInfo, field: str) -> datetime | None:
    if not info.HasField(field):  # type: ignore[arg-type] # the stubs know the fields one by one
        return None
    value: Timestamp = getattr(info, field)
    return value.ToDatetime(tzinfo=UTC)


def _paused_at(info: PendingActivityInfo) -> datetime | None:
    return info.pause_info.pause_time.ToDatetime(tzinfo=UTC) if info.paused else None


def unaccepted(host: str, name: str, manifest: str, image: str, now: datetime) -> WorkloadStatus:
    """What is shown of a workload whose workflow has not run yet, because no control worker is there."""
    return WorkloadStatus(
        state=State.PENDING,
        substate=Substate.INITIAL,
        host=host,
        name=name,
        manifest=manifest,
        image=image,
        since=now,
    )
