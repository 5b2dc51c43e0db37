# SPDX-License-Identifier: Apache-2.0
"""Which hosts there are, whether they can be believed, and what runs on them.

A host's workflow knows its state. Three things it does not know, because telling them would cost history: when its worker was
heard of last, what the latest resync without news saw, and how its workloads are. The server is asked for these. All of it
works while every worker is down.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import AwareDatetime, Field, ValidationError
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from client import listing
from client.listing import Filters
from client.presence import absence
from perdure.model.base import Model
from perdure.model.host import HostState, HostStatus, HostTransition, ResyncReport, WorkerInfo
from perdure.model.states import State
from perdure.policy.hosts import latest
from perdure.runtime.presence import Presence, last_heartbeats
from perdure.wire import names
from perdure.wire.contract import SuperviseNote

LOOKS_AT_ONCE: Final = 16
RPC_TIMEOUT: Final = timedelta(seconds=5)


class HostView(Model):
    """A host as a user sees it."""

    host: str
    state: HostState
    since: AwareDatetime | None = None
    """When the state was entered; None where it was never seen."""
    seen_at: AwareDatetime | None = None
    """The latest sign of life of its worker."""
    worker: WorkerInfo | None = None
    workloads: dict[State, int] = Field(default_factory=dict)
    """How many of its workloads are in each state."""
    last_resync: ResyncReport | None = None
    last_differences: ResyncReport | None = None
    """The latest resync that found something to differ."""
    warning: str = ""
    history: tuple[HostTransition, ...] = ()

    @property
    def lasting(self) -> HostView:
        """What stays the same while nothing happens: all but the sign of life."""
        return self.model_copy(update={"seen_at": None})


@dataclass(frozen=True, slots=True)
class HostFilters:
    """Which hosts are wanted; what is empty does not restrict."""

    names: tuple[str, ...] = ()
    states: tuple[HostState, ...] = ()


EVERY_HOST: Final = HostFilters()


async def find(client: Client, filters: HostFilters) -> tuple[HostView, ...]:
    """The hosts that match, ordered by name: those with a worker, now or once, and those that a workload names.

    Raises:
        RPCError: the server does not answer.
    """
    counts, unattended = await asyncio.gather(_workloads(client, filters), _unattended(client))
    wanted = set(filters.names) or {*counts, *await _with_a_workflow(client)}
    slots = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def view(host: str) -> HostView | None:
        async with slots:
            found = await look(client, host, counts.get(host, {}))
            if found is None or found.warning or found.state is not HostState.READY:
                return found
            return found.model_copy(update={"warning": unattended})

    found = await asyncio.gather(*(view(host) for host in sorted(wanted)))
    return tuple(host for host in found if host is not None and (not filters.states or host.state in filters.states))


async def look(client: Client, host: str, workloads: Mapping[State, int]) -> HostView | None:
    """One host with these workloads; None where there is nothing of it at all."""
    description, presence = await asyncio.gather(
        _latest_workflow(client, host), last_heartbeats(client, names.host_queue(host))
    )
    counts = dict(workloads)
    if description is None or description.status is not WorkflowExecutionStatus.RUNNING:
        if not counts:
            return None
        if description is None or description.status is WorkflowExecutionStatus.COMPLETED:
            return HostView(host=host, state=HostState.NEVER_SEEN, seen_at=presence.seen_at, workloads=counts)
        return _unwatched(description, host, presence, counts)
    supervisions = [
        item for item in description.raw_description.pending_activities if item.activity_type.name == names.SUPERVISE
    ]
    supervision = supervisions[-1] if supervisions else None
    note = await _note(supervision, description.data_converter) if supervision else None
    try:
        status = await _status(description, host)
    except (ValidationError, RuntimeError):
        warning = "Its status cannot be read by this version of perdure. Update this perdure."
        status = HostStatus(host=host, since=description.start_time)
    else:
        warning = ""
    # The heartbeats of workers bear the time of their own clocks, which may be years off.
    seen_at = latest(status.seen_at, _heartbeat(supervision) if supervision else None) or presence.seen_at
    view = merge(status, note, seen_at, counts)
    return view.model_copy(update={"warning": warning})


async def open_workflow(client: Client, host: str) -> WorkflowExecutionDescription | None:
    """The workflow of a host, while it is open; None where there is none."""
    found = await _latest_workflow(client, host)
    return found if found is not None and found.status is WorkflowExecutionStatus.RUNNING else None


async def _latest_workflow(client: Client, host: str) -> WorkflowExecutionDescription | None:
    """The workflow of a host, open or not; None where there never was one, or it ended long ago."""
    try:
        return await client.get_workflow_handle(names.host_id(host)).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def _unwatched(
    ended: WorkflowExecutionDescription, host: str, presence: Presence, workloads: dict[State, int]
) -> HostView:
    """A host whose workflow was ended by hand, and not by forgetting it: what its workloads show may be false by now."""
    warning = f"Its workflow {names.host_id(host)} was ended: nobody watches over its worker"
    cure = (
        "which begins it anew within a minute" if presence.alive else "so its workloads may show what is no longer true"
    )
    return HostView(
        host=host,
        state=HostState.WAITING if presence.alive else HostState.LOST,
        since=ended.close_time,
        seen_at=presence.seen_at,
        workloads=workloads,
        warning=f"{warning}, {cure}.",
    )


def merge(
    status: HostStatus, note: SuperviseNote | None, seen_at: datetime | None, workloads: dict[State, int]
) -> HostView:
    """Complete what the workflow of a host knows by what the server knows."""
    known = (status.last_resync, status.last_differences, note.resync if note else None)
    resyncs = [report for report in known if report is not None]
    differing = [report for report in resyncs if report.differences]
    return HostView(
        host=status.host,
        state=status.state,
        since=status.since,
        seen_at=seen_at,
        worker=status.worker,
        workloads=workloads,
        last_resync=max(resyncs, key=_at, default=None),
        last_differences=max(differing, key=_at, default=None),
        history=status.history,
    )


def _at(report: ResyncReport) -> datetime:
    return report.at


async def _unattended(client: Client) -> str:
    """That nobody is there to notice what becomes of hosts; empty where somebody is."""
    presence = await last_heartbeats(client, names.CONTROL_QUEUE)
    if presence.alive:
        return ""
    return (
        f"There is {absence(names.CONTROL_QUEUE, presence)}: what is shown of it and its workloads may be out of date."
    )


async def _workloads(client: Client, filters: HostFilters) -> dict[str, Counter[State]]:
    """How many workloads each host has in each state."""
    counts: dict[str, Counter[State]] = defaultdict(Counter)
    query = listing.query(Filters(host=filters.names[0]) if len(filters.names) == 1 else listing.EVERYTHING)
    async for row in client.list_workflows(query, page_size=listing.PAGE_SIZE, rpc_timeout=listing.RPC_TIMEOUT):
        identity = names.parse_workload_id(row.id)
        if identity is not None:
            state = row.typed_search_attributes.get(names.SA_STATE)
            counts[identity[0]][State(state) if state else State.PENDING] += 1
    return counts


async def _with_a_workflow(client: Client) -> set[str]:
    query = f'WorkflowType="{names.HOST_WORKFLOW}" AND ExecutionStatus="Running"'
    rows = client.list_workflows(query, page_size=listing.PAGE_SIZE, rpc_timeout=listing.RPC_TIMEOUT)
    return {host async for row in rows if (host := names.parse_host_id(row.id)) is not None}


async def _status(description: WorkflowExecutionDescription, host: str) -> HostStatus:
    """What the workflow wrote down; before it has run at all that is nothing."""
    try:
        return await description.memo_value(names.MEMO_STATUS, type_hint=HostStatus)
    except KeyError:
        return HostStatus(host=host, since=description.start_time.astimezone(UTC))


def _heartbeat(info: PendingActivityInfo) -> datetime | None:
    """When supervision was heard of last, by the server's clock."""
    return info.last_heartbeat_time.ToDatetime(tzinfo=UTC) if info.HasField("last_heartbeat_time") else None


async def _note(info: PendingActivityInfo, converter: DataConverter) -> SuperviseNote | None:
    """What the worker told with its latest heartbeat."""
    if not info.heartbeat_details.payloads:
        return None
    try:
        (note,) = await converter.decode(list(info.heartbeat_details.payloads[:1]), [SuperviseNote])
    except (ValidationError, RuntimeError):
        return None  # of a worker of another version: only the latest resync is missing by that
    return note if isinstance(note, SuperviseNote) else None
