# SPDX-License-Identifier: Apache-2.0
"""Waits for other workloads: looks at what they say of themselves until they are as far as somebody needs them.

It looks, fails, and is tried again by the server, so that a wait of days costs no history. While things move it looks several
times within one try, which makes chains quick; thousands may wait, so only few tries at a time linger like that. What is told is
read from the memo, never asked by a query (a query can make a history that never replays), and a workload that was sent
something which it has not taken up yet is not believed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from activities.notes import Notes
from perdure.model.messages import WaitingOn
from perdure.model.status import WorkloadStatus
from perdure.model.workload import DependencyCondition
from perdure.policy import dependencies
from perdure.policy.shorten import shorten
from perdure.wire import names
from perdure.wire.contract import AttemptNote, DependenciesRequest

logger = logging.getLogger(__name__)

LOOKS_AT_ONCE = 16
"""More gain nothing on a small server (measured), and would crowd out everybody else."""
LINGERERS = 32
"""Tries that look several times. The others give their slot back after one look."""
TRIES_PER_SECOND = 10
"""In all, for waits that go on. Each costs some 10 ms of CPU, nearly all of it the server's: a crowd that waits for one database
takes a tenth of a core, however large it is."""
RPC_TIMEOUT = timedelta(seconds=5)
UNMET = "DependenciesUnmet"
"""The type of the failure that a wait goes on with."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often others are looked at."""

    between_looks: timedelta = timedelta(milliseconds=250)
    """Within one try."""
    linger: timedelta = timedelta(seconds=3)
    """A try goes on looking for so long after the latest news."""
    longest_try: timedelta = timedelta(seconds=8)
    quiet: timedelta = timedelta(seconds=1)
    """At the begin of a wait nothing is told for so long: a quick chain is through by then, and saves the history."""
    slowest: timedelta = dependencies.SLOWEST_LOOK
    """The longest wait between two tries."""


PACE = Pace()


class DependencyActivities:
    """What the control worker does for workloads that wait for others."""

    def __init__(self, client: Client, pace: Pace = PACE) -> None:
        self._client = client
        self._pace = pace
        self._notes = Notes()
        self._looks = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._lingering = 0
        self._crowd = _Crowd()

    @activity.defn(name=names.DEPENDENCIES)
    async def dependencies(self, request: DependenciesRequest) -> None:
        """Return when all are met; else fail, so that it is tried again."""
        info = activity.info()
        note = self._notes.take(info)
        clock = _ServerClock(info)
        with self._lingerer() as may_linger:
            news_at = clock.now() if note.reported_at is None else note.reported_at
            while unmet := await self._unmet(request):
                known, note = note, await self._told(note, request, unmet, clock)
                news_at = clock.now() if note != known else news_at
                if not may_linger or not self._lingers(news_at, clock):
                    break
                await asyncio.sleep(self._pace.between_looks.total_seconds())
            else:
                return
        self._notes.leave(info, note)
        raise ApplicationError(
            shorten(dependencies.listed(unmet)),
            type=UNMET,
            next_retry_delay=self._next_look(info, clock.waited()),
            category=ApplicationErrorCategory.BENIGN,
        )

    def _next_look(self, info: activity.Info, waited: timedelta) -> timedelta:
        slowest = max(self._pace.slowest, timedelta(seconds=self._crowd.size() / TRIES_PER_SECOND))
        wait = dependencies.next_look(waited, random.random(), slowest)  # noqa: S311 - it only spreads them
        self._crowd.expect(f"{info.workflow_run_id}/{info.activity_id}", wait)
        return wait

    @contextmanager
    def _lingerer(self) -> Iterator[bool]:
        """Whether this try may look several times."""
        self._lingering += 1
        try:
            yield self._lingering <= LINGERERS
        finally:
            self._lingering -= 1

    def _lingers(self, news_at: datetime, clock: _ServerClock) -> bool:
        still_moves = clock.now() - news_at < self._pace.linger
        return still_moves and clock.tried() < self._pace.longest_try and not activity.is_worker_shutdown()

    async def _unmet(self, request: DependenciesRequest) -> tuple[str, ...]:
        """The dependencies that are not met, in words."""
        found = await asyncio.gather(*(self._look(*one) for one in request.depends_on.items()))
        return tuple(words for words in found if words)

    async def _look(self, label: str, condition: DependencyCondition) -> str:
        """Why a dependency is not met; empty where it is."""
        host, _, name = label.partition("/")
        async with self._looks:
            try:
                handle = self._client.get_workflow_handle(names.workload_id(host, name))
                description = await handle.describe(rpc_timeout=RPC_TIMEOUT)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return dependencies.unmet(label, condition, None)
                return dependencies.unreadable(label, condition, error.status.name)
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return dependencies.unmet(label, condition, None)
        if description.raw_description.HasField("pending_workflow_task"):
            return dependencies.unsettled(label, condition)
        try:
            status = await description.memo_value(names.MEMO_STATUS, type_hint=WorkloadStatus)
        except (KeyError, ValidationError, RuntimeError):
            return dependencies.unreadable(label, condition, "its status is of another version")
        return "" if dependencies.is_met(condition, status) else dependencies.unmet(label, condition, status)

    async def _told(
        self, note: AttemptNote, request: DependenciesRequest, unmet: tuple[str, ...], clock: _ServerClock
    ) -> AttemptNote:
        """Tell the workload what it waits for, if that is news; the note for the next look."""
        mark = blake2b("\n".join(unmet).encode(), digest_size=8).hexdigest()
        if mark == note.fingerprint:
            return note
        now = clock.now()
        if note.reported_at is None:
            is_due, told = clock.waited() >= self._pace.quiet, 0
        else:
            since = now - note.reported_at
            told = note.repeats if since < dependencies.QUIET else 0
            is_due = since >= dependencies.telling_interval(told)
        if not is_due or not await self._tell(WaitingOn(turn=request.turn, unmet=unmet)):
            return note
        return AttemptNote(
            detail=shorten(dependencies.listed(unmet)), fingerprint=mark, reported_at=now, repeats=told + 1
        )

    async def _tell(self, news: WaitingOn) -> bool:
        """Whether the workload could be told; the next look tries again else."""
        info = activity.info()
        handle = self._client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        try:
            await handle.signal(names.WAITING_ON, news, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                logger.warning(
                    "a workload could not be told what it waits for",
                    extra={"workflow": info.workflow_id, "cause": str(error)},
                )
                return False
        return True  # also where it went while we looked


class _Crowd:
    """How many waits go on, as far as this process knows: a wait that is called off between two tries simply stays away."""

    def __init__(self) -> None:
        self._expected: dict[str, float] = {}

    def expect(self, wait: str, after: timedelta) -> None:
        """A wait will be back, if it goes on. Twice the time is given: the server may be slow, or another worker be chosen."""
        self._expected[wait] = time.monotonic() + 2 * after.total_seconds() + 1

    def size(self) -> int:
        """Those that are not overdue."""
        now = time.monotonic()
        self._expected = {wait: until for wait, until in self._expected.items() if until > now}
        return len(self._expected)


class _ServerClock:
    """The time by the server's clock, which also counted the time since the wait began."""

    def __init__(self, info: activity.Info) -> None:
        self._info = info
        self._began = time.monotonic()

    def tried(self) -> timedelta:
        """How long this try goes on."""
        return timedelta(seconds=time.monotonic() - self._began)

    def now(self) -> datetime:
        return self._info.started_time + self.tried()

    def waited(self) -> timedelta:
        """How long this wait goes on, over all tries."""
        return self.now() - self._info.scheduled_time
