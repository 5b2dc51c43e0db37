# SPDX-License-Identifier: Apache-2.0
"""Whether somebody works for a task queue: by the heartbeats that workers send to the server.

The pollers that the server lists do not tell: they stay there for minutes after a worker has died. A dead worker stays listed
here too, as running, but its heartbeat grows old; one that was stopped in peace says so at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.telemetry import WORKER_HEARTBEAT_INTERVAL

ALIVE_WITHIN: Final = 3 * WORKER_HEARTBEAT_INTERVAL
"""A heartbeat may come late on a busy machine; three in a row are not late by chance."""
POLLED_WITHIN: Final = timedelta(seconds=75)
"""How old the last poll of a live worker can be, on servers without heartbeats: a poll lasts 60 s."""
RPC_TIMEOUT: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Presence:
    """The latest sign of life for a task queue."""

    alive: bool
    seen_at: datetime | None
    """None where no worker was ever seen, or it is long forgotten."""


async def last_heartbeats(client: Client, queue: str, *, identity: str = "") -> Presence:
    """Ask whether a worker serves the task queue.

    Args:
        client: of the fleet.
        queue: the task queue.
        identity: of the only worker that counts; empty where any does.

    Raises:
        RPCError: the server does not answer.
    """
    try:
        return await _by_heartbeats(client, queue, identity)
    except RPCError as error:
        if error.status is not RPCStatusCode.UNIMPLEMENTED:
            raise
        return await _by_pollers(client, queue, identity)


async def _by_heartbeats(client: Client, queue: str, identity: str) -> Presence:
    request = ListWorkersRequest(namespace=client.namespace, query=f'TaskQueue="{queue}"', page_size=100)
    response = await client.workflow_service.list_workers(request, retry=True, timeout=RPC_TIMEOUT)
    now = datetime.now(UTC)
    seen_at, alive = None, False
    for info in response.workers_info:
        beat = info.worker_heartbeat
        if identity and beat.worker_identity != identity:
            continue
        at = beat.heartbeat_time.ToDatetime(tzinfo=UTC)
        seen_at = at if seen_at is None else max(seen_at, at)
        # By the worker's own clock: one that is far ahead must not make a dead worker live for as long.
        alive = alive or (beat.status == WorkerStatus.WORKER_STATUS_RUNNING and abs(now - at) <= ALIVE_WITHIN)
    return Presence(alive, seen_at)


async def _by_pollers(client: Client, queue: str, identity: str) -> Presence:
    polls = []
    for kind in (TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW):
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
        response = await client.workflow_service.describe_task_queue(request, retry=True, timeout=RPC_TIMEOUT)
        polls += [
            poller.last_access_time.ToDatetime(tzinfo=UTC)
            for poller in response.pollers
            if identity in ("", poller.identity)
        ]
    seen_at = max(polls, default=None)
    return Presence(seen_at is not None and datetime.now(UTC) - seen_at <= POLLED_WITHIN, seen_at)
