# SPDX-License-Identifier: Apache-2.0
"""Tells the workflow of a host that its worker is there, for as long as it is, and answers what is asked of it.

The ``supervise`` activity is a sign of life and a channel, and nothing else: supervision itself goes on without it. Its heartbeat
costs no history; a signal goes out only with news. A worker tells of its start, and again when nobody has ordered a supervision
of it for a while: the server may have come back without some of its memory, or somebody has ended the host's workflow.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.background import beside
from activities.engine import EngineFault
from activities.supervision import Supervision
from perdure.model.host import HostSign, ResyncReason, ResyncReport, WorkerInfo
from perdure.wire import names
from perdure.wire.contract import ResyncRequest, SuperviseNote, SuperviseRequest, SuperviseResult

logger = logging.getLogger(__name__)

BEAT: Final = timedelta(seconds=3)
"""A third of the time after which a silent host is lost."""
LASTED: Final = timedelta(seconds=8)
"""The server takes longer than this to give a supervision up for lost."""
UNORDERED: Final = timedelta(seconds=20)
"""How long a worker goes without an order to supervise before it tells of itself again; grows, since each costs history."""
UNORDERED_MAXIMUM: Final = timedelta(minutes=5)
BETWEEN_QUIET_SIGNS: Final = timedelta(seconds=30)
"""The time between two signs of resyncs that found nothing."""
TELL_TIMEOUT: Final = timedelta(seconds=5)
TASK_TIMEOUT: Final = timedelta(seconds=2)
"""After the death of a control worker another takes up the workflow this soon."""


class Attendance:
    """What one worker tells its host's workflow.

    Args:
        client: of the fleet.
        host: its name.
        worker: this worker.
        supervision: of the host.
    """

    def __init__(self, client: Client, host: str, worker: WorkerInfo, supervision: Supervision) -> None:
        self._client = client
        self._host = host
        self._worker = worker
        self._supervision = supervision
        self._order = 0
        """The number of the latest order to supervise."""
        self._began_at: float | None = None
        self._outdated: ResyncReport | None = None
        """Was made before the latest silence, so it tells nothing about now."""
        self._superseded = asyncio.Event()
        self._ordered = asyncio.Event()
        self._unordered = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell of the worker in the background: work waits for no answer."""
        async with beside(self._announce()):
            yield

    # ---- that there is a worker ----

    async def _announce(self) -> None:
        """Tell of the worker, and again whenever nobody has ordered a supervision of it for a while."""
        wait = UNORDERED
        while True:
            if not await self._tell_of_the_worker():
                await asyncio.sleep(TELL_TIMEOUT.total_seconds())
                continue
            while await self._is_ordered_within(wait):
                wait = UNORDERED
                await self._unordered.wait()
            wait = min(2 * wait, UNORDERED_MAXIMUM)

    async def _tell_of_the_worker(self) -> bool:
        """Start the host's workflow where it is not there yet."""
        try:
            await self._client.start_workflow(
                names.HOST_WORKFLOW,
                args=[None],
                id=names.host_id(self._host),
                task_queue=names.CONTROL_QUEUE,
                start_signal=names.WORKER_STARTED,
                start_signal_args=[self._worker],
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK_TIMEOUT,
                rpc_timeout=TELL_TIMEOUT,
            )
        except RPCError as error:
            logger.warning("the worker's start could not be told", extra={"host": self._host, "cause": str(error)})
            return False
        return True

    async def _is_ordered_within(self, wait: timedelta) -> bool:
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - no secret depends on it
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ordered.wait(), wait.total_seconds() * spread)
        return self._ordered.is_set()

    # ---- that it is still there ----

    @activity.defn(name=names.SUPERVISE)
    async def supervise(self, request: SuperviseRequest) -> SuperviseResult:
        """Be there: ends when the worker is shut down or another supervision begins; silence means that the host is lost."""
        order = self._begin()
        logger.info("supervision is ordered", extra={"host": request.host, "order": order})
        shutdown = asyncio.create_task(activity.wait_for_worker_shutdown())
        try:
            return SuperviseResult(reason=await self._attend(self._superseded, shutdown))
        finally:
            shutdown.cancel()
            if order == self._order:
                self._ordered.clear()
                self._unordered.set()

    def _begin(self) -> int:
        """Take the place of an earlier order.

        One that had lasted was lost because Temporal was away, or took us for it: so everything is looked at anew. A worker that
        starts may find two orders: one that its predecessor left, and its own.
        """
        lasted = self._began_at is not None and time.monotonic() - self._began_at > LASTED.total_seconds()
        self._began_at = time.monotonic()
        self._order += 1
        self._superseded.set()
        self._superseded = asyncio.Event()
        self._unordered.clear()
        self._ordered.set()
        if lasted:
            self._outdated = self._supervision.latest
            self._supervision.ask(ResyncReason.RECONNECT)
        return self._order

    async def _attend(self, superseded: asyncio.Event, shutdown: asyncio.Task[None]) -> str:
        """Heartbeat, and tell the host's workflow what is news; answers why that ended.

        By the first sign workloads show again what they take to be so: it waits until that was looked at.
        """
        told: ResyncReport | None = None
        told_at = 0.0
        started_at, began = activity.info().started_time, time.monotonic()
        while True:
            # By the server's clock: an edge host's own may be years off after a reboot.
            now = started_at + timedelta(seconds=time.monotonic() - began)
            news = self._supervision.news
            latest = self._supervision.latest
            activity.heartbeat(SuperviseNote(detail=self._supervision.in_words(), resync=latest, at=now))
            if (
                latest is not None
                and latest not in (self._outdated, told)
                and (told is None or _is_news(latest, since=time.monotonic() - told_at))
                and await self._sign(latest)
            ):
                told, told_at = latest, time.monotonic()
            await _first_of(shutdown, superseded.wait(), news.wait(), within=BEAT)
            if superseded.is_set():
                return "a newer order took its place"
            if shutdown.done():
                return "the worker is shut down"

    async def _sign(self, report: ResyncReport) -> bool:
        """A sign of life, and what the resync found."""
        handle = self._client.get_workflow_handle(names.host_id(self._host))
        try:
            await handle.signal(
                names.SUPERVISING, HostSign(worker=self._worker, resync=report), rpc_timeout=TELL_TIMEOUT
            )
        except RPCError as error:
            logger.warning("a sign of life could not be sent", extra={"host": self._host, "cause": str(error)})
            return False
        return True

    # ---- what is asked of it ----

    @activity.defn(name=names.RESYNC)
    async def resync(self, request: ResyncRequest) -> ResyncReport:
        """Drop all beliefs about a host and look again."""
        try:
            return await self._supervision.resync(request.reason)
        except EngineFault as error:
            raise ApplicationError(error.fault.message, type=error.fault.kind.value) from None
        except RPCError as error:
            raise ApplicationError(
                f"the worker of host {request.host} could not ask Temporal for the workloads: {error}"
            ) from None


def _is_news(report: ResyncReport, *, since: float) -> bool:
    """Whether it is worth a signal. What found nothing is in the heartbeat as well, and a link may break every few seconds."""
    if report.differences or report.orphans:
        return True
    return report.reason is not ResyncReason.PERIODIC and since >= BETWEEN_QUIET_SIGNS.total_seconds()


async def _first_of(running: asyncio.Task[None], *begun: Coroutine[Any, Any, Any], within: timedelta) -> None:
    """Wait for the first of several; the first one alone goes on."""
    tasks = [asyncio.ensure_future(one) for one in begun]
    try:
        await asyncio.wait((running, *tasks), timeout=within.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
