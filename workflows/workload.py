# SPDX-License-Identifier: Apache-2.0
"""One workload, for as long as it lives: waits for wishes and signs, and has its host do the next step.

It orders and remembers. What to do next is ``policy.plan``'s to say; what an event means, the other modules of ``policy``.
Signal handlers only change the record, at once and without waiting; the one coroutine of ``_live`` does everything else.

The fact that surprises: a query answered between a worker's death and the next workflow task can make a history that never
replays. So the whole status stands in the memo, and our own programs read it there; the queries are for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from perdure.model.faults import FaultClass, Phase
    from perdure.model.host import HostChange
    from perdure.model.messages import (
        ApplyRequest,
        AttemptOutcome,
        AttemptReport,
        Outcome,
        ReportKind,
        RetryRequest,
        WaitingOn,
    )
    from perdure.model.observation import Observation
    from perdure.model.record import Record
    from perdure.model.states import Substate
    from perdure.model.status import WorkloadStatus
    from perdure.model.workload import WorkloadSpec
    from perdure.policy import answers, attempts, dependencies, drift, host_loss, plan, sightings, wishes
    from perdure.policy.plan import Act, Step
    from perdure.wire import contract, failures, names

    from workflows import options, presentation, questions, steps, wording
    from workflows.display import Display
    from workflows.steps import Handle, Result


@workflow.defn(name=names.WORKLOAD_WORKFLOW)
class WorkloadWorkflow:
    """Keeps one container on one host as its manifest says, and never stops trying."""

    @workflow.init
    def __init__(self, carried: Record | None) -> None:
        info = workflow.info()
        identity = names.parse_workload_id(info.workflow_id)
        if identity is None:
            raise ApplicationError(
                f"{info.workflow_id!r} is not the id of a workload: it must read workload/HOST/NAME", non_retryable=True
            )
        host, name = identity
        self._record = carried or wishes.born(host, name, info.first_execution_run_id, workflow.now())
        self._display = Display(presentation.page)
        self._hashed: tuple[WorkloadSpec, str, str] | None = None
        self._defaults_for = 0
        self._scheduled: dict[tuple[str, int], int] = {}
        self._leaving = False
        self._report_is_fresh = False

    # ---- what users and hosts send ----
    # A signal can be sent by hand, from the Web UI, without its argument. A handler that cannot be called then would fail each
    # workflow task from there on, also those of a reset, which sends the signal again: so every argument may be missing.

    @workflow.signal(
        name=names.APPLY, description="Sent by perdure apply: a newer wish, which supersedes what is under way."
    )
    def apply(self, request: ApplyRequest | None = None) -> None:
        """Accept or refuse a wish; ``first_attempt`` tells which."""
        if request is not None:
            self._record = wishes.applied(self._record, request, workflow.now())

    @workflow.signal(
        name=names.REMOVE, description="Stop and remove the container, then end: the same as Request Cancellation."
    )
    def remove(self) -> None:
        """Remove the workload. Request Cancellation means the same."""
        self._record = wishes.removal_asked(self._record, workflow.now())

    @workflow.signal(name=names.PAUSE, description="Do nothing more; what runs goes on running.")
    def pause(self) -> None:
        """Suspend reconciliation."""
        self._record = wishes.paused(self._record, workflow.now())

    @workflow.signal(name=names.RESUME, description="Take up again what was paused.")
    def resume(self) -> None:
        """Resume reconciliation."""
        self._record = wishes.resumed(self._record, workflow.now())

    @workflow.signal(name=names.RETRY_NOW, description="Try now; also wakes what is parked. Needs no input.")
    def retry_now(self, request: RetryRequest | None = None) -> None:
        """Try again now, on the same curve. People who send it from the Web UI need not write a request."""
        self._record = wishes.retry_asked(self._record, request or RetryRequest(), workflow.now())

    @workflow.signal(name=names.REPORT, description="Only for hosts: they tell of an attempt that goes on.")
    def report(self, report: AttemptReport | None = None) -> None:
        """Take note of a failed try, or that a host took up the work."""
        if report is None:
            return
        before = self._heard()
        self._record = attempts.reported(before, report, workflow.now())
        if report.kind is ReportKind.FAILED and self._record is not before:
            self._report_is_fresh = True

    @workflow.signal(name=names.OBSERVE, description="Only for hosts: they tell what happened to the container.")
    def observe(self, seen: Observation | None = None) -> None:
        """Take note of an end, a disappearance, or a change of health."""
        if seen is not None:
            self._record = sightings.observed(self._heard(), seen, workflow.now())

    @workflow.signal(name=names.HOST_CHANGED, description="Only for hosts: the host was lost, or is back.")
    def host_changed(self, change: HostChange | None = None) -> None:
        """Take note that nobody knows what runs, or that it is known again."""
        if change is not None:
            self._record = host_loss.changed(self._record, change, workflow.now())

    @workflow.signal(
        name=names.ABANDON,
        description="End at once, without the host's word. What is left there is removed when the host is back.",
    )
    def abandon(self) -> None:
        """Sent by perdure delete --force, for a workload whose host will not answer in time."""
        self._record = host_loss.abandoned(self._record, workflow.now())

    @workflow.signal(
        name=names.WAITING_ON, description="Only for control workers: they tell which dependencies are not met."
    )
    def waiting_on(self, told: WaitingOn | None = None) -> None:
        """Take note of what is waited for."""
        if told is not None:
            self._record = dependencies.learned(self._record, told)

    # ---- what users and programs ask ----

    @workflow.update(
        name=names.FIRST_ATTEMPT, description="Wait for the first attempt of an apply, and tell its result."
    )
    async def first_attempt(self, apply_id: str = "") -> AttemptOutcome:
        """Released by the attempt's end, by a newer apply, by removal, and by the change to a new run (MOVED: ask again)."""
        await workflow.wait_condition(lambda: self._leaving or answers.answer(self._record, apply_id) is not None)
        return answers.answer(self._record, apply_id) or AttemptOutcome(outcome=Outcome.MOVED)

    @workflow.query(
        name=names.STATUS, description="Everything about the workload. The memo has the same, without a worker."
    )
    def status(self) -> WorkloadStatus:
        """The status as it is told to the world."""
        return self._record.status(*self._hashes())

    @workflow.query(name=names.SUBSTATE, description="State and substate, for example Pending/PullBackoff.")
    def substate(self) -> str:
        """State and substate in one word."""
        state, substate, _ = self._record.shown
        return f"{state}/{substate}"

    @workflow.query(name=names.LAST_ERROR, description="The latest error with its hint, or nothing.")
    def last_error(self) -> str:
        """Kind, text and hint of the latest error, and whether it is over."""
        return wording.last_error(self.status())

    # ---- its life ----

    @workflow.run
    async def run(self, carried: Record | None) -> str:  # noqa: ARG002 - taken by __init__
        """Live until removed. A request to cancel is a request to remove: it must never leave a container behind."""
        life = asyncio.create_task(self._live())
        is_cancelled = False
        while True:
            try:
                await asyncio.shield(life)
                break
            except asyncio.CancelledError:
                if is_cancelled or workflow.cancellation_reason() is None:
                    raise  # not a request: the worker drops the workflow from its memory
                is_cancelled = True
                self.remove()
        if self._leaving:
            workflow.continue_as_new(self._record, memo=self._display.memo)
        return f"removed at generation {self._record.generation}"

    async def _live(self) -> None:
        """Returns when the workload is gone, or when its life goes on in a new run."""
        while True:
            if self._is_time_to_leave():
                await self._leave()
                return
            step = plan.next_step(self._record, workflow.now())
            match step.act:
                case Act.REST:
                    await self._until(partial(self._may_go_on, step))
                case Act.WAIT:
                    headline = wording.headline(self.status())
                    await self._until(partial(self._may_go_on, step), step.until, summary=headline)
                case Act.AWAIT:
                    await self._await_dependencies(step)
                case Act.ENSURE | Act.PULL | Act.STOP:
                    await self._attempt(step)
                case Act.CLOSE:
                    if await self._close():
                        return

    def _may_go_on(self, step: Step) -> bool:
        """Whether the record asks for something else than to wait by now, or the run is to be left."""
        now = plan.next_step(self._record, workflow.now())
        return plan.is_stale(step, self._record) or now.act is not step.act or self._is_time_to_leave()

    async def _await_dependencies(self, step: Step) -> None:
        """Have the control worker look at others until they are as far as they must be, or until that is of no use any more."""
        self._record = dependencies.wait_begun(self._record, workflow.now())
        handle = steps.await_dependencies(self._record, self._next_activity_id(names.DEPENDENCIES))
        await self._until(lambda: handle.done() or plan.is_stale(step, self._record) or self._is_time_to_leave())
        if not handle.done():
            handle.cancel()
        try:
            await handle
        except ActivityError as error:
            if not is_cancelled_exception(error):
                workflow.logger.warning("the wait for dependencies ended too soon", extra={"cause": str(error.cause)})
                await self._until(lambda: plan.is_stale(step, self._record), workflow.now() + options.LOOK_AGAIN)
            return
        if not plan.is_stale(step, self._record):
            self._record = dependencies.met(self._record, workflow.now())

    async def _attempt(self, step: Step) -> None:
        """Have the host do a step, tried again by the server until it is done, is of no use, or is given up."""
        phase = step.phase
        self._record = attempts.step_begun(self._record, phase, workflow.now())
        self._report_is_fresh = False
        activity_id = self._next_activity_id(phase)
        handle = steps.begin(self._record, phase, activity_id, container_hash=self._hashes()[1])
        patience = options.PICK_UP
        while not self._is_attempt_over(handle, step):
            if self._record.failing:
                await self._learn_central_defaults()
            if self._is_known_to_wait():
                await self._until(lambda: not self._is_known_to_wait() or self._is_attempt_over(handle, step))
            elif not await self._until(
                lambda: self._is_known_to_wait() or self._is_attempt_over(handle, step),
                workflow.now() + patience,
                summary=f"limit for host {self._record.host} to take it up",
            ):
                await self._ask_for_host(activity_id)
                patience = min(2 * patience, options.PICK_UP_MAXIMUM)
        if not handle.done():
            handle.cancel()
        try:
            result = await handle
        except ActivityError as error:
            self._take_failure(step, phase, error)
        else:
            self._take_result(step, result)

    def _is_known_to_wait(self) -> bool:
        """Whether it is known why nothing happens: then the host tells by itself when that changes."""
        record = self._record
        return record.failing or record.substate is Substate.WAITING_FOR_HOST or record.host_lost_at is not None

    def _is_attempt_over(self, handle: Handle, step: Step) -> bool:
        """Whether there is nothing more to wait for: it ended, it is of no use any more, or the next run takes it over."""
        return handle.done() or plan.is_stale(step, self._record) or self._may_leave_attempt()

    def _next_activity_id(self, what: str) -> str:
        """No id is used twice in a run: a server may still know the cancelled one."""
        step = (what, self._record.container_generation)
        self._scheduled[step] = self._scheduled.get(step, 0) + 1
        return names.activity_id(*step, self._scheduled[step])

    def _take_result(self, step: Step, result: Result) -> None:
        """A step was done. What a stale one did counts only where nothing else follows it: the next step finds the rest."""
        now = workflow.now()
        self._record = self._heard()
        if plan.is_stale(step, self._record) and not self._record.paused:
            return
        match result:
            case contract.EnsureResult(live=None):
                self._record = attempts.image_found_missing(self._record, now)
            case contract.EnsureResult(live=live, ended=ended) if live is not None:
                self._record = attempts.container_started(self._record, live, now, ended=ended)
            case contract.PullResult(warning=warning):
                self._record = attempts.image_fetched(self._record, warning, now)
            case contract.StopResult():
                self._record = attempts.removed(self._record, now)

    def _take_failure(self, step: Step, phase: Phase, error: ActivityError) -> None:
        """A step ended without success: cancelled by us, refused for good, given up, or lost."""
        now = workflow.now()
        if isinstance(error.cause, ApplicationError):
            self._record = self._heard()
        if plan.is_stale(step, self._record):
            return
        if is_cancelled_exception(error) and self._may_leave_attempt():
            self._record = attempts.handed_over(self._record)
            return
        fault, attempt = failures.unpack(error)
        attempt = attempt or max(self._record.attempts_before, self._record.attempt)
        if error.retry_state is RetryState.TIMEOUT and self._record.give_up_at is not None:
            self._record = attempts.gave_up(self._record, fault, attempt, now)
        elif fault is not None and fault.fault_class is FaultClass.PERMANENT:
            self._record = attempts.rejected(self._record, fault, attempt, now)
        else:
            self._record = attempts.attempt_lost(self._record, fault or steps.unanswered(phase, error), now)

    def _heard(self) -> Record:
        """The record after a sign of the host itself."""
        return host_loss.heard(self._record, workflow.now())

    async def _ask_for_host(self, activity_id: str) -> None:
        """Find out why nobody answers; without an answer the status stays as it is."""
        presence = await questions.is_host_there(self._record.host, activity_id)
        if presence is not None:
            self._record = attempts.host_presence_learned(self._record, presence, workflow.now())

    async def _learn_central_defaults(self) -> None:
        """Read the central settings once for each generation that fails and leaves them open: they stand in the history then.

        Not before the first failure: what succeeds at once needs no limit, and should not pay for one.
        """
        record = self._record
        if record.spec is None or record.removing or record.spec.retry.give_up_after is not None:
            return
        if self._defaults_for == record.generation:
            return
        self._defaults_for = record.generation
        limit = await questions.central_give_up_after()
        self._record = attempts.central_defaults_learned(self._record, limit)

    async def _close(self) -> bool:
        """End, unless an apply came while the workload was removed: then a new life begins. Answers whether it ended."""
        self._publish()
        await workflow.wait_condition(lambda: self._record.successor is not None or workflow.all_handlers_finished())
        if self._record.successor is None:
            return True
        self._record = wishes.reborn(self._record, str(workflow.uuid4()), workflow.now())
        return False

    # ---- waiting and telling ----

    def _hashes(self) -> tuple[str, str]:
        """The hashes of the whole spec and of what makes the container, computed once for each spec: they are asked for often."""
        spec = self._record.spec
        if spec is None:
            return "", ""
        if self._hashed is None or self._hashed[0] is not spec:
            self._hashed = spec, drift.spec_hash(spec), drift.container_hash(spec.container)
        return self._hashed[1:]

    async def _until(self, ready: Callable[[], bool], deadline: datetime | None = None, summary: str = "") -> bool:
        """Wait until ready, telling every change meanwhile. False if the deadline came first.

        The summary is what the Web UI shows beside the timer of the deadline.
        """
        while not ready():
            self._publish()
            told = self._record
            left = None if deadline is None else deadline - workflow.now()
            if left is not None and left <= timedelta(0):
                return False
            try:
                await workflow.wait_condition(
                    partial(self._is_news, told, ready), timeout=left, timeout_summary=summary or None
                )
            except TimeoutError:
                return False
        return True

    def _is_news(self, told: Record, ready: Callable[[], bool]) -> bool:
        return ready() or self._record is not told

    def _publish(self) -> None:
        """Tell the world what changed."""
        self._display.show(self.status())

    # ---- going on in a new run ----

    def _is_time_to_leave(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()

    def _may_leave_attempt(self) -> bool:
        """A pending attempt is left only where its place on the curve is known exactly: right after it reported, or unbegun."""
        known = self._report_is_fresh or self._record.substate in (Substate.WAITING_FOR_HOST, Substate.QUEUED)
        return known and self._is_time_to_leave()

    async def _leave(self) -> None:
        """Let the handlers finish (``_leaving`` releases them). Nothing may be awaited between that and continue-as-new."""
        self._publish()
        self._leaving = True
        await workflow.wait_condition(workflow.all_handlers_finished)
