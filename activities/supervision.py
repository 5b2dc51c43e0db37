# SPDX-License-Identifier: Apache-2.0
"""How a host keeps its own truth, from the start of its worker to its end, with or without Temporal.

What the workflows believe is compared with what Podman has. A container's death is noticed at once by its process; Podman's
events are hints that a workload should be looked at; a cheap list now and then is the truth, and a full resync drops every
belief and begins anew. Nothing here starts or stops a container of a workload: it only tells, by ``observe`` signals.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.autonomy import Autonomy
from activities.background import outliving_own_faults
from activities.beliefs import Belief, Beliefs, Companion
from activities.deaths import Deaths
from activities.engine import Engine, EngineFault, Event, EventKind
from activities.fence import Fence
from activities.inspection import Inspection
from activities.recovery import Known, release_lost_attempts, wake_parked
from activities.resync import Resync
from activities.sight import Sight
from activities.telling import Contact, Teller
from perdure.model.host import ResyncReason, ResyncReport
from perdure.model.observation import Live

logger = logging.getLogger(__name__)

LIST_EVERY: Final = timedelta(seconds=30)
"""While all processes and the events are followed: a list finds what both have missed. It costs 40 ms for 50 containers."""
LIST_ALONE_EVERY: Final = timedelta(seconds=8)
"""While the list is the only one that tells: everything is to be noticed within ten seconds."""
RESYNC_EVERY: Final = timedelta(minutes=5)
RESYNC_JITTER: Final = 0.2
"""So that the hosts of a fleet do not ask Temporal all at once."""
TROUBLE_WAIT: Final = timedelta(seconds=2)
LONGEST_EVENTS_WAIT: Final = timedelta(seconds=30)
LASTED: Final = timedelta(seconds=5)
"""A stream of events that lasted this long was a real one: its end means that Podman was away."""

KNOCK_TIMEOUT: Final = timedelta(seconds=2)
_NEWS_OF_THE_BELIEVED: Final = (EventKind.ENDED, EventKind.REMOVED, EventKind.PAUSED)
_WAKES_A_LOOK: Final = (EventKind.REMOVED, EventKind.STARTED)
_NEWS_OF_OTHERS: Final = (EventKind.STARTED, EventKind.RESUMED)


class Supervision:
    """Watches the containers of one host.

    Args:
        client: of the fleet.
        engine: of the host.
        sight: what Podman has there for the fleet.
        fence: of the host; filled before this begins.
        autonomy: of the host, for whether Temporal answers, and what was done here while it did not.
        resync_every: the mean time between two full resyncs.
        companions: told of every container that is up.
        on_known: told of the workloads that each resync has found in Temporal.
    """

    def __init__(
        self,
        client: Client,
        engine: Engine,
        sight: Sight,
        fence: Fence,
        *,
        autonomy: Autonomy | None = None,
        resync_every: timedelta = RESYNC_EVERY,
        companions: Sequence[Companion] = (),
        on_known: Callable[[Mapping[str, Known]], None] | None = None,
    ) -> None:
        self._client = client
        self._engine = engine
        self._host = sight.host
        self._sight = sight
        self._fence = fence
        self._resync_every = resync_every
        self._on_known = on_known
        self._contact = autonomy.contact if autonomy else Contact()
        self._beliefs = Beliefs(companions)
        self._deaths = Deaths(self._died)
        self._teller = Teller(client, sight.host, on_contact=self._contact.note)
        self._inspection = Inspection(
            engine=engine,
            sight=sight,
            fence=fence,
            teller=self._teller,
            deaths=self._deaths,
            beliefs=self._beliefs,
            contact=self._contact,
            autonomy=autonomy,
        )
        self._resync = Resync(
            client=client,
            engine=engine,
            fence=fence,
            sight=sight,
            beliefs=self._beliefs,
            inspection=self._inspection,
            spawn=self._spawn,
        )
        self._one_resync = asyncio.Lock()
        self._asked: ResyncReason | None = ResyncReason.START
        self._wake = asyncio.Event()
        self._next_resync = 0.0
        self._events_flow = False
        self._checks: dict[str, bool] = {}
        """The workloads that are being checked, and whether to check once more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.latest: ResyncReport | None = None
        """The latest full resync; None before the first one."""
        self.news = asyncio.Event()
        """Set by the next resync, which puts another in its place."""

    # ---- what the activities tell ----

    def started(self, workload: str, live: Live) -> None:
        """A container runs; its workflow will believe so."""
        self._beliefs.change(workload, Belief.of_live(live))
        if not self._deaths.follow(workload, live.container_id, live.pid):
            self._check_soon(workload)

    def removed(self, workload: str) -> None:
        """Nothing of a workload is left, by its own wish."""
        self._beliefs.change(workload, None)

    def ask(self, reason: ResyncReason) -> None:
        """Ask for a resync soon. One that was asked for already is enough."""
        self._asked = self._asked or reason
        self._wake.set()

    # ---- its life ----

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch in the background. The fence is filled before this begins: no stale attempt may come first."""
        lives = [asyncio.create_task(life) for life in (self._watch(), self._follow_events(), self._mind_contact())]
        try:
            yield
        finally:
            for task in (*lives, *self._tasks):
                task.cancel()
            await asyncio.gather(*lives, *self._tasks, return_exceptions=True)
            self._deaths.close()

    async def resync(self, reason: ResyncReason) -> ResyncReport:
        """Drop what is believed, and start from what Temporal wants and Podman has. Raises EngineFault or RPCError."""
        async with self._one_resync:
            asked, self._asked = self._asked, None
            try:
                resynced = await self._resync.make(reason)
            except BaseException:
                if asked is not None:
                    self.ask(asked)
                raise
            spread = random.uniform(1 - RESYNC_JITTER, 1 + RESYNC_JITTER)  # noqa: S311 - no secret depends on it
            self._next_resync = time.monotonic() + self._resync_every.total_seconds() * spread
            self._contact.note(True)
            if self._on_known is not None:
                self._on_known(resynced.known)
            if self.latest is None:
                self._spawn(self._take_up(resynced.known))
            report = self.latest = resynced.report
        if report.differences:
            told = {"reason": report.reason, "differences": [one.model_dump() for one in report.differences]}
            logger.info("a resync found differences", extra={"host": self._host, **told})
        self.news.set()
        self.news = asyncio.Event()
        return report

    def in_words(self) -> str:
        """How things are, for people, for example "11 containers are up; resync 40 s ago"."""
        up = sum(belief.is_up for belief in self._beliefs.all().values())
        if self.latest is None:
            return "looks around for the first time"
        ago = (datetime.now(UTC) - self.latest.at).total_seconds()
        return f"{up} containers are up; resync {ago:.0f} s ago"

    async def _take_up(self, known: Mapping[str, Known]) -> None:
        """What only a worker's start makes up for: attempts of its predecessor, and faults that it may have cured."""
        await release_lost_attempts(self._client, self._host, known.values())
        await wake_parked(self._teller, known)

    async def _watch(self) -> None:
        while True:
            wait = TROUBLE_WAIT
            with outliving_own_faults("the host is looked at again", host=self._host):
                if await self._look():
                    wait = self._pause()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait.total_seconds())
            self._wake.clear()

    async def _look(self) -> bool:
        """Do what is due; answers whether Podman and Temporal let it be done."""
        reason = self._due()
        try:
            if not self._contact.is_there:
                await self._knock()
            elif reason is not None:
                await self.resync(reason)
            else:
                await self._compare()
        except (EngineFault, RPCError) as error:
            self._failed(error, reason or ResyncReason.RECONNECT)
            return False
        return True

    def _due(self) -> ResyncReason | None:
        """Why a full resync is due now, if it is."""
        if self._asked is None and time.monotonic() >= self._next_resync:
            return ResyncReason.PERIODIC
        return self._asked

    def _pause(self) -> timedelta:
        """How long everything that happens is noticed without a list."""
        if self._asked is not None or not self._contact.is_there:
            return timedelta(0) if self._contact.is_there else TROUBLE_WAIT
        is_followed = all(
            belief.container_id in self._deaths for belief in self._beliefs.all().values() if belief.is_up
        )
        until_resync = timedelta(seconds=max(0.0, self._next_resync - time.monotonic()))
        return min(until_resync, LIST_EVERY if is_followed and self._events_flow else LIST_ALONE_EVERY)

    def _failed(self, error: EngineFault | RPCError, reason: ResyncReason) -> None:
        """Podman or Temporal did not answer: as soon as it does, everything is looked at anew."""
        if isinstance(error, RPCError):
            self._contact.note_error(error)
        self._asked = self._asked or reason
        logger.warning("the host could not be looked at", extra={"host": self._host, "cause": str(error)})

    async def _knock(self) -> None:
        """Ask Temporal whether it is back. Raises RPCError while it is not."""
        await self._client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=KNOCK_TIMEOUT)
        self._contact.note(True)

    async def _mind_contact(self) -> None:
        """Whoever sends something may learn that Temporal is away, or back; when it is, everything is looked at anew."""
        while True:
            await self._contact.lost()
            self._wake.set()
            await self._contact.restored()
            if not self._one_resync.locked():  # else it was one that has just reached Temporal
                self.ask(ResyncReason.RECONNECT)

    async def _compare(self) -> None:
        """The cheap look: only Podman is asked."""
        for workload in self._inspection.compare(await self._sight.all()):
            self._check_soon(workload)

    # ---- hints ----

    async def _follow_events(self) -> None:
        wait = TROUBLE_WAIT
        while True:
            began = time.monotonic()
            self._events_flow = True
            with outliving_own_faults("podman's events are followed anew", host=self._host):
                await self._take_hints()
            self._events_flow = False
            if time.monotonic() - began >= LASTED.total_seconds():
                wait = TROUBLE_WAIT
                self.ask(ResyncReason.RECONNECT)
            else:
                wait = min(2 * wait, LONGEST_EVENTS_WAIT)
                self._wake.set()
            await asyncio.sleep(wait.total_seconds())

    async def _take_hints(self) -> None:
        try:
            async for event in self._engine.events(self._client.namespace, self._host):
                self._hint(event)
        except EngineFault as error:
            logger.warning("podman's events are not followed", extra={"host": self._host, "cause": str(error)})

    def _hint(self, event: Event) -> None:
        """Look at a workload where an event tells something that is not our own doing, as far as can be told."""
        if event.kind in _WAKES_A_LOOK:
            self._inspection.hint(event.workload)
        belief = self._beliefs.of(event.workload)
        if belief is None or self._fence.is_busy(event.workload):
            return
        is_believed = event.container_id == belief.container_id
        # What is being checked may be believed otherwise in a moment.
        if event.workload in self._checks or event.kind in (_NEWS_OF_THE_BELIEVED if is_believed else _NEWS_OF_OTHERS):
            self._check_soon(event.workload)

    def _died(self, workload: str, container_id: str) -> None:
        belief = self._beliefs.of(workload)
        if belief is not None and belief.container_id == container_id:
            self._check_soon(workload)

    # ---- checks in the background ----

    def _check_soon(self, workload: str) -> None:
        """Check, once at a time: one workload that is slow to stop must not keep the others from being seen."""
        is_running = workload in self._checks
        self._checks[workload] = is_running
        if not is_running:
            self._spawn(self._check(workload))

    async def _check(self, workload: str) -> None:
        try:
            await self._inspection.check(workload)
            while self._checks[workload]:
                self._checks[workload] = False
                await self._inspection.check(workload)
        finally:
            del self._checks[workload]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something in the background; what fails is made up for by the next list."""
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        with outliving_own_faults("the next list makes up for it", host=self._host):
            try:
                await work
            except (EngineFault, RPCError) as error:
                logger.warning("a container could not be looked at", extra={"host": self._host, "cause": str(error)})
