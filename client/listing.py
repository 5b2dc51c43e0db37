# SPDX-License-Identifier: Apache-2.0
"""Which workloads there are, by one search of the server.

What a search finds may be some 0.05 s old, so workloads that are asked for by name are then looked at one by one, like those
whose try goes on, of which the server knows more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio.client import Client, WorkflowExecution
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from client.errors import Incompatible, NotFound, ReconcilerError
from client.statuses import from_memo, unaccepted
from client.waiting import look
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import names

LOOKS_AT_ONCE: Final = 16
PAGE_SIZE: Final = 500
"""The first rows of a large fleet come after 0.1 s; larger pages gain nothing (measured)."""
RPC_TIMEOUT: Final = timedelta(seconds=30)
TRYING: Final = frozenset(
    {
        Substate.QUEUED,
        Substate.PULLING,
        Substate.PULL_BACKOFF,
        Substate.STARTING,
        Substate.START_BACKOFF,
        Substate.STOPPING,
        Substate.STOP_BACKOFF,
    }
)
"""In these the server knows more of the try under way than the workflow wrote down."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which workloads are wanted; what is empty does not restrict."""

    host: str = ""
    names: tuple[str, ...] = ()
    """Bare names, on any host."""
    states: tuple[State | Substate, ...] = ()
    """Any of these."""
    manifest: str = ""


EVERYTHING: Final = Filters()


async def find(client: Client, filters: Filters) -> tuple[WorkloadStatus, ...]:
    """The workloads that match, ordered by host and name.

    Raises:
        RPCError: the server does not answer.
    """
    rows = [row async for row in client.list_workflows(query(filters), page_size=PAGE_SIZE, rpc_timeout=RPC_TIMEOUT)]
    slots = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def complete(row: WorkflowExecution) -> WorkloadStatus | None:
        status = await _from_row(row)
        if status.substate not in TRYING and not filters.names:
            return status
        async with slots:
            try:
                return (await look(client, status.host, status.name)).status
            except NotFound:
                return None
            except (ReconcilerError, RPCError):
                return status

    found = await asyncio.gather(*(complete(row) for row in rows))
    return tuple(
        sorted((status for status in found if status is not None), key=lambda status: (status.host, status.name))
    )


async def hosts_of(client: Client, name: str) -> list[str]:
    """The hosts that have a workload of this name."""
    rows = client.list_workflows(query(Filters(names=(name,))), rpc_timeout=RPC_TIMEOUT)
    found = [names.parse_workload_id(row.id) async for row in rows]
    return sorted(identity[0] for identity in found if identity is not None)


def query(filters: Filters) -> str:
    """The search as Temporal writes it. Closed runs keep their last attributes, so only running ones count."""
    parts = [f'WorkflowType="{names.WORKLOAD_WORKFLOW}"', 'ExecutionStatus="Running"']
    if filters.host:
        parts.append(_among(names.SA_HOST, [filters.host]))
    if filters.manifest:
        parts.append(_among(names.SA_MANIFEST, [filters.manifest]))
    if filters.names:
        parts.append(_among(names.SA_WORKLOAD, filters.names))
    if filters.states:
        states = [value.value for value in filters.states if isinstance(value, State)]
        substates = [value.value for value in filters.states if isinstance(value, Substate)]
        either = [_among(names.SA_STATE, states)] * bool(states) + [_among(names.SA_SUBSTATE, substates)] * bool(
            substates
        )
        parts.append("(" + " OR ".join(either) + ")")
    return " AND ".join(parts)


def _among(key: SearchAttributeKey[str], values: Iterable[str]) -> str:
    quoted = ", ".join('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return f"{key.name} IN ({quoted})"


async def _from_row(row: WorkflowExecution) -> WorkloadStatus:
    """The status in a row; one that cannot be read is shown as far as it goes, and hides none of the others."""
    try:
        return await from_memo(row)
    except Incompatible as error:
        host, name = names.parse_workload_id(row.id) or ("", row.id)
        bare = unaccepted(host, name, "", "", row.start_time)
        return bare.model_copy(update={"warning": f"{error.message}. {error.hint}"})
