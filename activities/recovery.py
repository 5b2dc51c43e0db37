# SPDX-License-Identifier: Apache-2.0
"""What a host's worker asks Temporal when it starts: which workloads are its own, and which attempts died with its predecessor.

Reads lists, memos and descriptions only, never queries: a query can make a workflow's history unreplayable, and would wait for a
control worker that may be away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import (
    AsyncActivityHandle,
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from activities.telling import Teller
from perdure.model.catalogue import make_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.messages import RetryRequest
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import names

logger = logging.getLogger(__name__)

ASK_LIMIT = timedelta(seconds=5)
"""For one question: 200 workloads are listed in 0.1 s."""
AGAIN_AFTER = timedelta(milliseconds=100)
"""A lost attempt is made again at once: nothing says that it would fail."""

_PHASES = {names.PULL: Phase.PULL, names.ENSURE: Phase.START, names.STOP: Phase.STOP}
_AT_WORK = (State.PENDING, State.STOPPING, State.UNKNOWN)
_RESTING = (State.SUCCEEDED, State.FAILED, State.PAUSED, State.STOPPING)
"""In these states no container is started again that ends."""
_PARKED = ((State.FAILED, Substate.REJECTED), (State.FAILED, Substate.GAVE_UP))
RELEASED_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Known:
    """A workload of this host, as Temporal knows it."""

    workflow_id: str
    run_id: str
    status: WorkloadStatus


async def known_workloads(client: Client, host: str) -> dict[str, Known]:
    """The open workloads of a host by name, by one query of the list. One whose memo cannot be read is left out."""
    query = f'WorkflowType="{names.WORKLOAD_WORKFLOW}" AND ExecutionStatus="Running" AND {names.SA_HOST.name}="{host}"'
    known = {}
    async for row in client.list_workflows(query, page_size=500, rpc_timeout=ASK_LIMIT):
        status = await _status_of(row)
        if status is not None:
            known[status.name] = Known(row.id, row.run_id, status)
    return known


async def resting_workloads(client: Client, host: str) -> dict[str, str]:
    """The workloads of a host whose containers are to stay down once they are, with their incarnation; by one short query."""
    states = ", ".join(f'"{state}"' for state in _RESTING)
    query = (
        f'WorkflowType="{names.WORKLOAD_WORKFLOW}" AND ExecutionStatus="Running"'
        f' AND {names.SA_HOST.name}="{host}" AND {names.SA_STATE.name} IN ({states})'
    )
    found = {}
    async for row in client.list_workflows(query, page_size=500, rpc_timeout=ASK_LIMIT):
        status = await _status_of(row)
        if status is not None:
            found[status.name] = status.incarnation
    return found


async def _status_of(row: WorkflowExecution) -> WorkloadStatus | None:
    try:
        return WorkloadStatus.model_validate((await row.memo()).get(names.MEMO_STATUS))
    except ValidationError as error:
        logger.warning("a memo cannot be read", extra={"workflow": row.id, "cause": str(error)})
        return None


async def describe_open(client: Client, host: str, name: str) -> WorkflowExecutionDescription | None:
    """The open workflow of a workload, asked for by its id; None where there is none."""
    try:
        found = await client.get_workflow_handle(names.workload_id(host, name)).describe(rpc_timeout=ASK_LIMIT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return found if found.status is WorkflowExecutionStatus.RUNNING else None


async def wake_parked(teller: Teller, known: Mapping[str, Known]) -> None:
    """Have parked workloads try again: a worker that starts may have brought the cure (another Podman, another CPU)."""
    for name, workload in known.items():
        if (workload.status.state, workload.status.substate) in _PARKED:
            await teller.retry_now(name, RetryRequest(reason="the host's worker was started"))


async def release_lost_attempts(client: Client, host: str, workloads: Iterable[Known]) -> int:
    """Fail the attempts that a dead worker of this host had begun, so that they are made again at once.

    The server would wait for their heartbeat timeout. The host's lock tells that there is no other worker; so every attempt begun
    under another identity of this host is dead. Returns how many there were. One that cannot be released is left to its timeout.
    """
    at_work = [workload for workload in workloads if workload.status.state in _AT_WORK]
    slots = asyncio.Semaphore(RELEASED_AT_ONCE)

    async def release(workload: Known) -> int:
        async with slots:
            try:
                return await _release_all(client, host, workload)
            except RPCError as error:
                logger.warning(
                    "a lost attempt could not be released",
                    extra={"workload": workload.status.name, "cause": str(error)},
                )
                return 0

    return sum(await asyncio.gather(*(release(workload) for workload in at_work)))


async def _release_all(client: Client, host: str, workload: Known) -> int:
    released = 0
    found = await client.get_workflow_handle(workload.workflow_id).describe(rpc_timeout=ASK_LIMIT)
    for pending in found.raw_description.pending_activities:
        started = pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        ours = pending.last_worker_identity.startswith(f"host/{host}@")
        if started and ours and pending.last_worker_identity != client.identity:
            handle = client.get_async_activity_handle(
                workflow_id=found.id, run_id=found.run_id, activity_id=pending.activity_id
            )
            released += await _release(handle, host, _PHASES.get(pending.activity_type.name, Phase.START))
    return released


async def _release(handle: AsyncActivityHandle, host: str, phase: Phase) -> bool:
    message = f"the worker of host {host} ended in the middle of the attempt"
    fault = make_fault(FaultKind.WORKER_LOST, phase, message)
    lost = ApplicationError(
        fault.message,
        fault,
        0,
        type=fault.kind.value,
        next_retry_delay=AGAIN_AFTER,
        category=ApplicationErrorCategory.BENIGN,
    )
    try:
        await handle.fail(lost)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended meanwhile
            raise
        return False
    return True
