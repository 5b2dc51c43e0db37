# SPDX-License-Identifier: Apache-2.0
"""One try of one step: what surrounds every activity of a host.

It heartbeats, so that a dead worker is noticed; reports a failure to its workflow when it tells something new; sets the wait
before the next try; gives work back unharmed when the worker is shut down; and lets ``activities.wake`` know who waits for what.
The server counts the tries and repeats them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio import activity
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.common.v1 import Priority, WorkflowExecution
from temporalio.api.workflowservice.v1 import UpdateActivityOptionsRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.engine import EngineFault
from activities.notes import Notes
from activities.wake import Wake
from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.messages import AttemptReport, ReportKind
from perdure.policy import backoff, identity
from perdure.wire import failures, names
from perdure.wire.contract import Ticket

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_BEAT = timedelta(seconds=3)
"""Short tries end before that and send no heartbeat at all, also most of many that wait for their turn."""
BEAT = timedelta(seconds=2)
"""Each one is written to the server's disk: of 50 starts at once, one a second took a tenth of all CPU time."""
PICKED_UP_LATE = timedelta(seconds=9)
"""Work that waited longer than this may be shown as waiting for its host: tell that it is under way."""
LAST_TRY_RESERVE = timedelta(seconds=2)
"""Time kept free before a deadline, so that the last try still begins before it (the server's timers are exact to a second)."""
AFTER_SHUTDOWN = timedelta(seconds=1)
PRIORITY_RETRY = 4
"""Tries after a failure give way to first tries (3)."""


class Attempt:
    """The try that an activity makes now.

    Args:
        client: to tell the workflow by.
        notes: of the tries before.
        wake: told of every try, where there is one.
        ticket: what work this is.
        phase: the step of it.
        image: that is worked with, where there is one.
    """

    def __init__(
        self, client: Client, notes: Notes, wake: Wake | None, *, ticket: Ticket, phase: Phase, image: str = ""
    ) -> None:
        self._client = client
        self._notes = notes
        self._wake = wake
        self._image = image
        self._ticket = ticket
        self._phase = phase
        self._info = activity.info()
        self._note = notes.take(self._info)
        self._began = time.monotonic()
        self.number = ticket.attempts_before + self._info.attempt - self._note.burnt
        """The number of this try on the curve of its step, counted from 1."""

    @property
    def is_first(self) -> bool:
        """Whether nothing of this step has failed yet."""
        return self.number == 1

    @property
    def is_asked(self) -> bool:
        """Whether somebody wanted a further try now, and did not wait for the curve."""
        return self._info.attempt == 1 and self._ticket.attempts_before > 0

    def tell(self, detail: str) -> None:
        """Progress for people; it travels with the next heartbeat."""
        self._note = self._note.model_copy(update={"detail": detail})

    async def make(self, work: Callable[[], Awaitable[T]], *, yields_to_shutdown: bool) -> T:
        """Do the work. Raises ApplicationError for a fault, CancelledError if the workflow wants it no more.

        Work that ``yields_to_shutdown`` is ended when the worker is shut down, and burns no try; other work is short, and is
        finished in the worker's grace period.
        """
        if self._wake is not None:
            self._wake.began(self._ticket, self._phase)
        beats = asyncio.create_task(self._beat())
        try:
            result = await self._finish(work, yields_to_shutdown)
        except EngineFault as fault:
            raise await self._failure(fault) from None
        except asyncio.CancelledError:
            self._over()
            raise
        finally:
            beats.cancel()
        self._over()
        return result

    async def _finish(self, work: Callable[[], Awaitable[T]], yields_to_shutdown: bool) -> T:
        task = asyncio.ensure_future(work())
        shutdown = asyncio.create_task(activity.wait_for_worker_shutdown())
        watched = {task, shutdown} if yields_to_shutdown else {task}
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise self._given_back()
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                raise self._given_back() from None
            raise
        finally:
            shutdown.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _now(self) -> datetime:
        """The time by the server's clock: an edge host's own may be years off after a reboot."""
        return self._info.started_time + timedelta(seconds=time.monotonic() - self._began)

    async def _beat(self) -> None:
        told = not self._is_picked_up_late() or await self._report(ReportKind.PICKED_UP)
        await asyncio.sleep(FIRST_BEAT.total_seconds())
        while True:
            activity.heartbeat(self._note)
            told = told or await self._report(ReportKind.PICKED_UP)
            await asyncio.sleep(BEAT.total_seconds())

    def _is_picked_up_late(self) -> bool:
        """Whether the work may be shown as waiting for its host. After a failure that we reported it is shown as such."""
        waited = self._info.started_time - self._info.current_attempt_scheduled_time
        return waited >= PICKED_UP_LATE and not self._note.fingerprint

    async def _failure(self, raised: EngineFault) -> ApplicationError:
        """Report the fault if it tells something new, and set when to try again."""
        if raised.fault.fault_class is FaultClass.PERMANENT:
            self._over()
            return failures.pack(raised.fault, self.number)
        wait = self._wait(raised.retry_after)
        fault = self._promised(raised, wait)
        now = self._now()
        note = self._note
        mark = identity.fingerprint(fault)
        overdue = note.reported_at is not None and now - note.reported_at >= backoff.report_interval(note.repeats)
        failed = note.unreported + 1
        if mark != note.fingerprint or overdue:
            told = await self._report(
                ReportKind.FAILED, fault=fault, fingerprint=mark, failures=failed, next_attempt_at=now + wait
            )
            if told:
                repeats = note.repeats + 1 if mark == note.fingerprint else 0
                note = note.model_copy(update={"fingerprint": mark, "reported_at": now, "repeats": repeats})
                failed = 0
        self._notes.leave(self._info, note.model_copy(update={"unreported": failed, "detail": ""}))
        await self._give_way()
        return failures.pack(fault, self.number, next_retry_delay=wait)

    def _promised(self, raised: EngineFault, wait: timedelta) -> Fault:
        """The fault, with what is done about it besides waiting."""
        if self._wake is None:
            return raised.fault
        return self._wake.failed(
            self._ticket, self._phase, attempt=self.number, raised=raised, image=self._image, wait=wait
        )

    def _over(self) -> None:
        if self._wake is not None:
            self._wake.over(self._ticket)

    def _wait(self, retry_after: timedelta | None) -> timedelta:
        """The wait before the next try. One beyond the deadline makes the server give up at once, which then is right."""
        retry = self._ticket.retry
        seed = identity.seed(self._ticket.incarnation, self._ticket.generation, self._phase)
        wait = backoff.delay(self.number, seed=seed, base=retry.initial_interval, cap=retry.maximum_interval)
        if retry_after is not None:
            wait = min(max(wait, retry_after), retry.maximum_interval)
        limit = self._info.schedule_to_close_timeout
        if not limit:
            return wait
        left = self._info.scheduled_time + limit - self._now()
        clamped = backoff.clamp_to_deadline(wait, left, reserve=LAST_TRY_RESERVE)
        return clamped if clamped is not None else max(wait, left + LAST_TRY_RESERVE)

    async def _report(self, kind: ReportKind, **told: object) -> bool:
        """Tell the workflow. Answers whether that was possible; the next try tells it else."""
        report = AttemptReport.model_validate(
            {
                "kind": kind,
                "generation": self._ticket.generation,
                "phase": self._phase,
                "attempt": self.number,
                "at": self._now(),
                **told,
            }
        )
        handle = self._client.get_workflow_handle(self._info.workflow_id or "", run_id=self._info.workflow_run_id)
        try:
            await handle.signal(names.REPORT, report, rpc_timeout=timedelta(seconds=5))
        except RPCError as error:
            logger.warning(
                "a report could not be delivered", extra={"workload": self._ticket.name, "cause": str(error)}
            )
            return False
        return True

    async def _give_way(self) -> None:
        """After its first failure an attempt is served after the first attempts of others. Costs no history."""
        if self._info.attempt != 1:
            return
        request = UpdateActivityOptionsRequest(
            namespace=self._client.namespace,
            execution=WorkflowExecution(
                workflow_id=self._info.workflow_id or "", run_id=self._info.workflow_run_id or ""
            ),
            identity=self._client.identity,
            id=self._info.activity_id,
            activity_options=ActivityOptions(priority=Priority(priority_key=PRIORITY_RETRY)),
            update_mask=FieldMask(paths=["priority"]),
        )
        try:
            await self._client.workflow_service.update_activity_options(request, timeout=timedelta(seconds=5))
        except RPCError as error:
            logger.info("the server knows no priorities", extra={"cause": str(error)})

    def _given_back(self) -> ApplicationError:
        """The worker goes: the try does not count, and is made again as soon as there is a worker."""
        self._notes.leave(self._info, self._note.model_copy(update={"burnt": self._note.burnt + 1}))
        fault = Fault(
            kind=FaultKind.WORKER_SHUTDOWN,
            fault_class=FaultClass.TRANSIENT,
            phase=self._phase,
            message=f"the worker of host {self._ticket.host} was shut down",
            hint="it goes on when the worker is back",
        )
        return ApplicationError(
            fault.message,
            fault,
            self.number,
            type=fault.kind.value,
            next_retry_delay=AFTER_SHUTDOWN,
            category=ApplicationErrorCategory.BENIGN,
        )
