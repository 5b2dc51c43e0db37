# SPDX-License-Identifier: Apache-2.0
"""One host, for as long as it is known: sees by its worker's supervision whether it answers, and tells its workloads.

It watches over the worker, not over containers: those the worker watches by itself, with or without Temporal. When a host is
believed and when it is lost is for ``policy.hosts`` to say. Signal handlers only change the record, at once and without waiting.

The fact that surprises: for a host that is lost a supervision stays ordered. A worker that was only cut off or stopped takes it
up from its task queue when it can, and so it is back by itself, without being started again.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

with workflow.unsafe.imports_passed_through():
    from perdure.model.host import HostChange, HostSign, HostStatus, ResyncReport, WorkerInfo
    from perdure.model.host_record import HostRecord
    from perdure.policy import hosts
    from perdure.policy.hosts import End
    from perdure.wire import contract, names

    from workflows import host_page, options
    from workflows.display import Display


@workflow.defn(name=names.HOST_WORKFLOW)
class HostWorkflow:
    """Knows whether the worker of one host answers."""

    @workflow.init
    def __init__(self, carried: HostRecord | None) -> None:
        workflow_id = workflow.info().workflow_id
        host = names.parse_host_id(workflow_id)
        if host is None:
            raise ApplicationError(
                f"{workflow_id!r} is not the id of a host: it must read host/HOST", non_retryable=True
            )
        self._record = carried or hosts.born(host, workflow.now())
        self._display = Display(host_page.page)
        self._supervision: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._tells: HostChange | None = None
        self._is_cancelled = False

    # ---- what hosts and users send ----
    # A signal can be sent by hand, from the Web UI, without its argument, and must do no harm then.

    @workflow.signal(
        name=names.WORKER_STARTED, description="Only for hosts: a worker begins to serve; replaces what went before."
    )
    def worker_started(self, worker: WorkerInfo | None = None) -> None:
        """Order a supervision of this worker, in the place of an earlier one's, which may hang for good."""
        if worker is not None:
            self._record = hosts.worker_started(self._record, worker, workflow.now())

    @workflow.signal(name=names.SUPERVISING, description="Only for hosts: the worker has looked around, and answers.")
    def supervising(self, sign: HostSign | None = None) -> None:
        """Take note of a sign of life, and of what the latest resync found."""
        if sign is not None:
            self._record = hosts.supervising(self._record, sign, workflow.now())

    @workflow.update(
        name=names.RESYNC, description="Have the host drop what it believes and look again; answers what it found."
    )
    async def resync(self) -> ResyncReport:
        """Answers within a bound, also where nobody serves the host: by an error of a type of its own."""
        try:
            report = await workflow.execute_activity(
                contract.resync, contract.ResyncRequest(host=self._record.host), **options.resync(self._record.host)
            )
        except ActivityError as error:
            raise self._why_no_resync(error) from error
        self._record = hosts.resynced(self._record, report, workflow.now())
        return report

    @workflow.query(
        name=names.STATUS, description="Everything about the host. The memo has the same, without a control worker."
    )
    def status(self) -> HostStatus:
        """The status as it is told to the world."""
        return self._record.status()

    # ---- its life ----

    @workflow.run
    async def run(self, carried: HostRecord | None) -> str:  # noqa: ARG002 - taken by __init__
        """Live until forgotten. A request to cancel is a request to forget: it takes effect when the host is lost."""
        life = asyncio.create_task(self._live())
        while True:
            try:
                await asyncio.shield(life)
                break
            except asyncio.CancelledError:
                if self._is_cancelled or workflow.cancellation_reason() is None:
                    raise  # not a request: the worker drops the workflow from its memory
                self._is_cancelled = True
                self._record = hosts.forget_asked(self._record, workflow.now())
        if not hosts.is_forgotten(self._record):
            workflow.continue_as_new(hosts.carried(self._record, workflow.now()), memo=self._display.memo)
        return f"forgotten; {hosts.last_seen(self._record.seen_at)}"

    async def _live(self) -> None:
        """Returns when the host is forgotten, or when its life goes on in a new run. Nothing may be awaited after that."""
        while True:
            self._record = hosts.time_passed(self._record, workflow.now())
            if self._may_end():
                self._display.show(self.status())
                return
            self._order_supervision()
            self._tell_workloads()
            self._display.show(self.status())
            await self._until_news()

    def _may_end(self) -> bool:
        """Whether this run is over. Whoever waits for a resync is answered first.

        A run hears one request to cancel only: if that has become void, the next one is for a new run to hear.
        """
        is_void = self._is_cancelled and not self._record.to_forget
        is_long = workflow.info().is_continue_as_new_suggested()
        return (hosts.is_forgotten(self._record) or is_void or is_long) and workflow.all_handlers_finished()

    async def _until_news(self) -> None:
        """Wait until something is to be done: because something happened, or because it did not."""
        record = self._record
        wakes_at = hosts.wakes_at(record)
        timeout = None if wakes_at is None else wakes_at - workflow.now()
        try:
            await workflow.wait_condition(
                lambda: self._record is not record or self._may_end(),
                timeout=timeout,
                timeout_summary="limit for a sign of the worker",
            )
        except TimeoutError:
            return

    # ---- supervision ----

    def _order_supervision(self) -> None:
        """Order the one that is due. An earlier one is given up at once: it may be that of a dead worker."""
        if self._record.order_at is None or self._record.order_at > workflow.now():
            return
        if self._supervision is not None:
            self._supervision.cancel()
        self._record = hosts.ordered(self._record)
        self._supervision = asyncio.create_task(self._supervise(self._record.orders))

    async def _supervise(self, number: int) -> None:
        request = contract.SuperviseRequest(host=self._record.host)
        begun_at = workflow.now()
        try:
            result = await workflow.execute_activity(
                contract.supervise, request, **options.supervise(self._record, number)
            )
        except ActivityError as error:
            seen_at = _last_sign(error, begun_at)
            end, reason = _how_it_ended(error)
        else:
            seen_at = workflow.now()
            end, reason = End.PEACE, f"its worker ended in peace: {result.reason}"
        self._record = hosts.supervision_ended(self._record, number, end, reason, seen_at, workflow.now())

    def _why_no_resync(self, error: ActivityError) -> ApplicationError:
        host, cause = self._record.host, error.cause
        if not isinstance(cause, TemporalTimeoutError):
            return ApplicationError(
                f"the worker of host {host} could not look again: {cause}", type=names.RESYNC_FAILED
            )
        seen = hosts.last_seen(self._record.seen_at)
        if cause.type is TimeoutType.SCHEDULE_TO_START:
            return ApplicationError(f"no worker serves host {host}, {seen}", type=names.NO_WORKER)
        return ApplicationError(
            f"the worker of host {host} did not answer within {options.RESYNC_LIMIT}, {seen}", type=names.RESYNC_FAILED
        )

    # ---- telling ----

    def _tell_workloads(self) -> None:
        """Tell the latest change until all know it; an older one is told no more."""
        change = self._record.news
        if change == self._tells:
            return
        if self._telling is not None:
            self._telling.cancel()
        self._tells = change
        self._telling = asyncio.create_task(self._tell(change)) if change is not None else None

    async def _tell(self, change: HostChange) -> None:
        request = contract.TellRequest(host=self._record.host, change=change)
        try:
            await workflow.execute_activity(contract.tell_workloads, request, **options.tell(change))
        except ActivityError as error:
            # Only where a later change took its place: there is no limit to the tries.
            workflow.logger.info("the workloads of a host are told something newer", extra={"cause": str(error.cause)})
            return
        self._record = hosts.told(self._record, change)


def _how_it_ended(error: ActivityError) -> tuple[End, str]:
    match error.cause:
        case TemporalTimeoutError(type=TimeoutType.HEARTBEAT):
            return End.SILENCE, "its worker no longer answers"
        case TemporalTimeoutError():
            return End.SILENCE, "no worker serves it"
        case cause:
            return End.TROUBLE, f"its worker could not supervise it: {cause}"


def _last_sign(error: ActivityError, begun_at: datetime) -> datetime | None:
    """The latest sign of life of a supervision that failed: what it wrote last, or else when it was at the latest taken up."""
    if not isinstance(error.cause, TemporalTimeoutError):
        return workflow.now()
    if error.cause.type is not TimeoutType.HEARTBEAT or not error.cause.last_heartbeat_details:
        return None
    note = contract.SuperviseNote.model_validate(error.cause.last_heartbeat_details[0])
    return note.at or begun_at
