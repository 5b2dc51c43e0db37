# SPDX-License-Identifier: Apache-2.0
"""How a wish of the user gets to its workload, and what became of it.

Two steps. A signal that starts the workflow where there is none: it is durable at once, even while no worker is there. Then
the update ``first_attempt``, which answers when the first attempt has ended. Both can be repeated without harm: the signal by
its apply id, the update by its own id, which is made of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from client import cycles
from client.errors import Duplicate, Incompatible, TooLarge
from client.presence import Attendance
from client.statuses import unaccepted
from perdure.model.messages import ApplyRequest, AttemptOutcome, Outcome
from perdure.model.states import State, Substate
from perdure.wire import failures, names

if TYPE_CHECKING:
    from perdure.model.manifest import Manifest, Target

SENDS_AT_ONCE: Final = 16
"""More gain nothing on a small server (measured), and a few hundred would crowd out everybody else."""
SEND_TIMEOUT: Final = timedelta(seconds=10)
REQUEST_LIMIT_BYTES: Final = 1024 * 1024
"""Temporal takes 2 MiB; the workflow's own memory and its activity inputs hold the spec again, with other things."""
WORKFLOW_TASK_TIMEOUT: Final = timedelta(seconds=5)
"""How long the server waits for a control worker that died in the middle of a task."""
ASK_AGAIN: Final = timedelta(milliseconds=300)
_DETAILS: Final = """\
- `perdure describe {label}` tells everything about it
- `perdure retry {label}` saves a wait, and wakes what is parked
- `perdure delete {label}` and **Request Cancellation** are the same: its container is removed
- **Terminate** and **Reset** are not for workloads

**Current Details** are empty while no control worker runs: then look at **Memo**.
"""
"""Stands beside the current details in the Web UI. Nothing in it may change with a generation: it is written once."""


class Progress(StrEnum):
    """How far an apply was followed."""

    NOT_SENT = "notSent"
    UNCERTAIN = "uncertain"
    """It was sent, and the server died before it answered."""
    ACCEPTED = "accepted"
    """It is kept; nobody waited for more."""
    NO_CONTROL_WORKER = "noControlWorker"
    """It is kept, and nobody is there to act on it."""
    IN_PROGRESS = "inProgress"
    """It is kept, and its first attempt did not end in time."""
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of the apply of one workload."""

    host: str
    name: str
    apply_id: str
    progress: Progress = Progress.NOT_SENT
    answer: AttemptOutcome | None = None
    """Set where the progress is ANSWERED."""
    detail: str = ""
    """Why it is not."""

    @property
    def label(self) -> str:
        """``HOST/NAME``."""
        return f"{self.host}/{self.name}"

    @property
    def is_accepted(self) -> bool:
        """Whether the server keeps it. What it is worth, the answer tells."""
        return self.progress not in (Progress.NOT_SENT, Progress.UNCERTAIN)


@dataclass(frozen=True, slots=True)
class Wish:
    """One workload to apply, ready to be sent."""

    target: Target
    request: ApplyRequest

    @property
    def label(self) -> str:
        """``HOST/NAME``."""
        return f"{self.target.host}/{self.target.name}"

    @property
    def nothing_yet(self) -> ApplyResult:
        """The result before anything was done."""
        return ApplyResult(self.target.host, self.target.name, self.request.apply_id)


Listener = Callable[[ApplyResult], None]


def prepare(manifests: Sequence[Manifest], *, expect_generation: int | None, by: str) -> list[Wish]:
    """Make the wishes of manifests, or refuse all of them.

    Raises:
        Duplicate: two manifests want the same workload.
        Circular: some would wait for each other.
        TooLarge: one is larger than what can be sent.
    """
    wishes: dict[tuple[str, str], Wish] = {}
    for manifest in manifests:
        for target in manifest.targets():
            known = wishes.get((target.host, target.name))
            if known is not None:
                raise Duplicate(
                    f"{target.host}/{target.name} is in two manifests: {known.request.manifest} and {manifest.name}",
                    "Give one of them another name, or another host.",
                )
            request = ApplyRequest(
                apply_id=uuid4().hex,
                spec=target.spec,
                manifest=manifest.name,
                revision=manifest.revision,
                expect_generation=expect_generation,
                by=by,
            )
            size = len(request.model_dump_json().encode())
            if size > REQUEST_LIMIT_BYTES:
                raise TooLarge(
                    f"{target.host}/{target.name} has {size / 1024:.0f} KiB, the most is {REQUEST_LIMIT_BYTES // 1024} KiB",
                    "Put large files on the host or into the image, and mount them.",
                )
            wishes[target.host, target.name] = Wish(target, request)
    cycles.refuse(wish.target for wish in wishes.values())
    return list(wishes.values())


class Applying:
    """One apply of several workloads.

    Args:
        client: of the fleet.
        wishes: what to send.
        listener: told of every step of every workload, for people who wait.
        asks: whether ``follow`` will be called: then each is asked about as soon as it is sent. Where its workflow has not begun
            by that time, the question costs the server no task of its own.
    """

    def __init__(self, client: Client, wishes: Sequence[Wish], listener: Listener, *, asks: bool = False) -> None:
        self._client = client
        self._wishes = wishes
        self._listener = listener
        self._results = {wish.request.apply_id: wish.nothing_yet for wish in wishes}
        self._server_failed = asyncio.Event()
        self._asks = asks
        self._asking: dict[str, asyncio.Task[AttemptOutcome]] = {}

    @property
    def results(self) -> tuple[ApplyResult, ...]:
        """How far each is, in the order of the manifests."""
        return tuple(self._results.values())

    async def send(self) -> tuple[ApplyResult, ...]:
        """Send all, each behind those that it depends on; after the first failure of the server nothing more.

        So nobody mistakes what a workload is now for what it was asked to be. The results say what was accepted and what not.
        """
        slots = asyncio.Semaphore(SENDS_AT_ONCE)
        sent = {wish.label: asyncio.Event() for wish in self._wishes}

        async def send(wish: Wish) -> None:
            for label in wish.target.spec.depends_on.keys() & sent.keys():
                await sent[label].wait()
            try:
                async with slots:
                    if not self._server_failed.is_set():
                        await self._send(wish)
            finally:
                sent[wish.label].set()

        try:
            await asyncio.gather(*(send(wish) for wish in self._wishes))
        except BaseException:
            for asking in self._asking.values():
                asking.cancel()
            raise
        return self.results

    async def follow(self, timeout: timedelta) -> tuple[ApplyResult, ...]:
        """Wait for the first attempts of what was accepted, at most so long."""
        accepted = [wish for wish in self._wishes if self._results[wish.request.apply_id].is_accepted]
        if accepted:
            async with Attendance(self._client, names.CONTROL_QUEUE) as control:
                await asyncio.gather(*(self._follow(wish, timeout, control) for wish in accepted))
        return self.results

    async def _send(self, wish: Wish) -> None:
        target, request = wish.target, wish.request
        container = target.spec.container
        now = datetime.now(UTC)
        first = unaccepted(target.host, target.name, request.manifest, container.image, now)
        first = first.model_copy(update={"depends_on": target.spec.depends_on})
        try:
            await self._client.start_workflow(
                names.WORKLOAD_WORKFLOW,
                args=[None],
                id=names.workload_id(target.host, target.name),
                task_queue=names.CONTROL_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=names.APPLY,
                start_signal_args=[request],
                task_timeout=WORKFLOW_TASK_TIMEOUT,
                memo={names.MEMO_STATUS: first, names.MEMO_IMAGE: container.image},
                search_attributes=TypedSearchAttributes(
                    [
                        SearchAttributePair(names.SA_HOST, target.host),
                        SearchAttributePair(names.SA_WORKLOAD, target.name),
                        SearchAttributePair(names.SA_MANIFEST, request.manifest),
                        SearchAttributePair(names.SA_STATE, State.PENDING.value),
                        SearchAttributePair(names.SA_SUBSTATE, Substate.INITIAL.value),
                    ]
                ),
                static_summary=f"container {target.name} of host {target.host}",
                static_details=_DETAILS.format(label=wish.label),
                rpc_timeout=SEND_TIMEOUT,
            )
        except RPCError as error:
            self._note_failed_send(wish, error)
        else:
            self._note(wish, Progress.ACCEPTED)
            if self._asks:
                self._asking[wish.request.apply_id] = asyncio.create_task(self._ask(wish))

    def _note_failed_send(self, wish: Wish, error: RPCError) -> None:
        self._server_failed.set()
        if error.status in failures.NO_ANSWER:
            self._note(wish, Progress.UNCERTAIN, f"the server did not answer: {error.message}")
        else:
            self._note(wish, Progress.NOT_SENT, f"the server refused it: {error.message}")

    async def _follow(self, wish: Wish, timeout: timedelta, control: Attendance) -> None:
        asking = self._asking.get(wish.request.apply_id) or asyncio.create_task(self._ask(wish))
        missing = asyncio.create_task(control.missed())
        try:
            done, _ = await asyncio.wait(
                (asking, missing), timeout=timeout.total_seconds(), return_when=asyncio.FIRST_COMPLETED
            )
            if asking in done:
                self._note(wish, Progress.ANSWERED, answer=asking.result())
            elif missing in done:
                self._note(wish, Progress.NO_CONTROL_WORKER, missing.result())
            else:
                limit = f"{timeout.total_seconds():g} s"
                self._note(wish, Progress.IN_PROGRESS, f"its first attempt did not end within {limit}; it goes on")
        finally:
            for task in (asking, missing):
                task.cancel()
            await asyncio.gather(asking, missing, return_exceptions=True)

    async def _ask(self, wish: Wish) -> AttemptOutcome:
        """Ask what became of it, again while the answer is only that the workflow has moved on, or the server is away."""
        apply_id = wish.request.apply_id
        handle = self._client.get_workflow_handle(names.workload_id(wish.target.host, wish.target.name))
        while True:
            try:
                answer: AttemptOutcome = await handle.execute_update(
                    names.FIRST_ATTEMPT, apply_id, id=f"first-{apply_id}", result_type=AttemptOutcome
                )
                if answer.outcome is not Outcome.MOVED:
                    return answer
            except WorkflowUpdateFailedError:
                pass  # the run ended under the question, by removal or by moving on: the next round tells which
            except WorkflowUpdateRPCTimeoutOrCancelledError:
                # The SDK makes this of our own cancellation, too.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise asyncio.CancelledError from None
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return AttemptOutcome(
                        outcome=Outcome.REMOVED,
                        state=State.REMOVED,
                        substate=Substate.OK,
                        message="it was removed meanwhile",
                    )
                if error.status in (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED):
                    raise Incompatible(f"the server refuses to tell what became of it: {error.message}") from error
            await asyncio.sleep(ASK_AGAIN.total_seconds())

    def _note(self, wish: Wish, progress: Progress, detail: str = "", *, answer: AttemptOutcome | None = None) -> None:
        key = wish.request.apply_id
        self._results[key] = replace(self._results[key], progress=progress, detail=detail, answer=answer)
        self._listener(self._results[key])
