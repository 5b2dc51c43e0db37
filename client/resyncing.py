# SPDX-License-Identifier: Apache-2.0
"""Having a host drop all that it believes, and look again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final
from uuid import uuid4

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from client import listing
from client.errors import HostFailed, NotFound, NoWorker, TimedOut
from client.hosts import open_workflow
from client.listing import Filters
from client.presence import Attendance, absence
from perdure.model.host import ResyncReport
from perdure.runtime.presence import last_heartbeats
from perdure.wire import names

ASK_AGAIN: Final = timedelta(milliseconds=300)
BACK_BY_ITSELF: Final = "It resyncs by itself as soon as its worker is back."
_ANSWERS: Final = (names.NO_WORKER, names.RESYNC_FAILED)
"""The types of the errors that are answers. After others the question is asked again: the workflow has moved to a new run."""


async def resync(client: Client, host: str, timeout: timedelta) -> ResyncReport:
    """Resync a host, and tell what differed and what was done about it.

    Raises:
        NotFound: there is no such host.
        NoWorker: nobody does the work.
        HostFailed: it could not be done, for example because Podman does not answer.
        TimedOut: it took too long; it goes on.
        RPCError: the server does not answer.
    """
    if await open_workflow(client, host) is None:
        raise await _absent(client, host)
    queues = (names.host_queue(host), names.CONTROL_QUEUE)
    async with Attendance(client, queues[0]) as worker, Attendance(client, queues[1]) as control:
        asking = asyncio.create_task(_ask(client, host))
        missing = [asyncio.create_task(attendance.missed()) for attendance in (worker, control)]
        try:
            done, _ = await asyncio.wait(
                (asking, *missing), timeout=timeout.total_seconds(), return_when=asyncio.FIRST_COMPLETED
            )
            if asking in done:
                return asking.result()
            for queue, attendance in zip(queues, (worker, control), strict=True):
                if (presence := attendance.absent) is not None:
                    raise NoWorker(absence(queue, presence), BACK_BY_ITSELF, presence.seen_at)
            raise TimedOut(
                f"host {host} has not ended its resync after {timeout.total_seconds():.3g} s",
                f"It goes on by itself: `perdure describe host {host}`.",
                None,
            )
        finally:
            for task in (asking, *missing):
                task.cancel()
            await asyncio.gather(asking, *missing, return_exceptions=True)


async def _absent(client: Client, host: str) -> NotFound | NoWorker:
    """Why there is no workflow of a host: nobody knows it, or workloads wait for it."""
    waiting = await client.count_workflows(listing.query(Filters(host=host)), rpc_timeout=listing.RPC_TIMEOUT)
    if not waiting.count:
        return NotFound.host(host)
    queue = names.host_queue(host)
    presence = await last_heartbeats(client, queue)
    if presence.alive:
        return NoWorker(
            f"nobody watches over host {host}: its workflow {names.host_id(host)} was ended, or is not begun yet",
            "Its worker begins it within a minute, and resyncs then.",
            presence.seen_at,
        )
    return NoWorker(
        f"{absence(queue, presence)}: {waiting.count} of its workloads wait for one",
        f"Start `perdure-worker --host {host}` on {host}.",
        presence.seen_at,
    )


async def _ask(client: Client, host: str) -> ResyncReport:
    """Ask until there is an answer: the workflow may move on to a new run, and the server may be away."""
    handle = client.get_workflow_handle(names.host_id(host))
    question = f"resync-{uuid4().hex}"
    while True:
        try:
            report: ResyncReport = await handle.execute_update(names.RESYNC, id=question, result_type=ResyncReport)
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type in _ANSWERS:
                raise await _refused(client, host, error.cause) from error
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            # The SDK makes this of our own cancellation, too.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NotFound.host(host) from error
            if error.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED):
                raise
        else:
            return report
        await asyncio.sleep(ASK_AGAIN.total_seconds())


async def _refused(client: Client, host: str, answer: ApplicationError) -> NoWorker | HostFailed:
    """What the workflow answers where there is no report."""
    if answer.type == names.RESYNC_FAILED:
        return HostFailed(answer.message, "It tries again by itself; its worker's log tells more.")
    presence = await last_heartbeats(client, names.host_queue(host))
    return NoWorker(answer.message, BACK_BY_ITSELF, presence.seen_at)
