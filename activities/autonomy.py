# SPDX-License-Identifier: Apache-2.0
"""Keeps a host's containers up while Temporal is away, by what their labels say.

Most hosts lose their link now and then; their containers should not notice. What ended is restarted by its policy and backoff,
and what a reboot took down is started again, also by a worker that has never reached Temporal. Nothing is made and nothing is
removed: that is for somebody who knows what is wanted now. All is done under the workload's lock, with a look right before, so
that nothing is started twice when Temporal is back; then the workloads are told what was done here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from pydantic import ValidationError
from temporalio.service import RPCError

from activities.background import outliving_own_faults
from activities.engine import Engine, EngineFault, Managed
from activities.fence import Fence
from activities.ledger import Ledger, LocalRuns
from activities.telling import Contact
from perdure.model.base import Model
from perdure.model.observation import ContainerState
from perdure.model.workload import RestartBackoff, RestartPolicy
from perdure.policy import backoff, restart

logger = logging.getLogger(__name__)

GRACE: Final = timedelta(seconds=3)
"""A server that is restarted, or a worker that has not connected yet, is no reason to act alone."""
LOOK_EVERY: Final = timedelta(seconds=1)
"""A list of 50 containers costs 40 ms."""
ASK_EVERY: Final = timedelta(seconds=30)
"""Which workloads rest is asked this often, while there is somebody to ask: the answer is short."""
TRY_AGAIN: Final = (timedelta(seconds=1), timedelta(seconds=300))
"""The waits between tries of a start that fails."""
_DOWN: Final = (ContainerState.CREATED, ContainerState.EXITED)

Resting = Callable[[], Awaitable[dict[str, str]]]
"""Asks Temporal for the workloads whose containers are to stay down, with their incarnation."""


class _Wish(Model):
    """What the restart label says: the policy of the time when the container was made."""

    restart: RestartPolicy = RestartPolicy.ALWAYS
    restart_backoff: RestartBackoff = RestartBackoff()


@dataclass(frozen=True, slots=True)
class _Due:
    """A container that is to be started now."""

    container: Managed
    crashes: int
    """Restarts in a row, this one included."""


@dataclass(slots=True)
class _Trouble:
    """Tries of a start that failed in a row."""

    tries: int
    next_at: datetime


class Autonomy:
    """The host on its own.

    Args:
        engine: of the host.
        fence: its locks are those of the workloads.
        contact: whether Temporal answers.
        ledger: what must outlive this process.
        fleet: whose containers.
        host: its name.
    """

    def __init__(
        self, engine: Engine, fence: Fence, contact: Contact, ledger: Ledger, *, fleet: str, host: str
    ) -> None:
        self._engine = engine
        self._fence = fence
        self.contact = contact
        self._ledger = ledger
        self._fleet = fleet
        self._host = host
        self._resting: Resting | None = None
        self._ask_now = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._troubles: dict[str, _Trouble] = {}
        self._complaints: dict[str, str] = {}

    # ---- what the other parts tell and ask ----

    def serve(self, fleet_id: str, resting: Resting) -> None:
        """Temporal was reached: this is its fleet, and this asks which of its workloads rest."""
        self._ledger.serve(fleet_id)
        self._resting = resting
        self._ask_now.set()

    def started(self, workload: str) -> None:
        """A container was made to run by its workload's wish: what was before is over."""
        self._ledger.forget(workload, resting=True)

    def restarts_of(self, workload: str, container_id: str, seen: Managed | None) -> LocalRuns | None:
        """What was done with a container that its workload was not told of; ``seen`` is as it is now, None where it is gone."""
        runs = self._ledger.runs_of(workload)
        if runs is None or runs.container_id != container_id:
            return None
        runs = _really_done(runs, seen)
        return runs if runs.restarts else None

    def told(self, workload: str) -> None:
        """The workload knows now."""
        self._ledger.forget(workload)

    # ---- its life ----

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be ready, until the end of the block."""
        lives = [asyncio.create_task(self._act_while_away()), asyncio.create_task(self._keep_informed())]
        try:
            yield
        finally:
            tasks = [*lives, *self._under_way.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act_while_away(self) -> None:
        while True:
            await self.contact.lost()
            if await self._is_back_within(GRACE):
                continue
            logger.warning("temporal is away: this host acts alone", extra={"host": self._host})
            while not await self._is_back_within(LOOK_EVERY):
                with outliving_own_faults("the host is looked at again", host=self._host):
                    await self._look()
            self._troubles.clear()
            self._complaints.clear()
            logger.info("temporal is back: this host acts alone no more", extra={"host": self._host})

    async def _is_back_within(self, wait: timedelta) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.contact.restored(), wait.total_seconds())
        return self.contact.is_there

    async def _keep_informed(self) -> None:
        """A host that cannot ask any more must know what is to stay down."""
        await self._ask_now.wait()
        while True:
            if self._resting is not None and self.contact.is_there:
                with outliving_own_faults("what rests is asked again", host=self._host):
                    await self._ask(self._resting)
            await asyncio.sleep(ASK_EVERY.total_seconds())

    async def _ask(self, resting: Resting) -> None:
        try:
            self._ledger.rest(await resting())
        except RPCError as error:
            logger.info("temporal could not be asked what rests", extra={"cause": str(error)})
            self.contact.note_error(error)

    # ---- alone ----

    async def _look(self) -> None:
        """Begin what is due. Each start goes its own way: one that hangs holds up no other."""
        try:
            found = await self._engine.list_managed(self._fleet, self._host)
        except EngineFault as fault:
            self._complain("", f"podman does not answer: {fault}")
            return
        self._complaints.pop("", None)
        now = datetime.now(UTC)
        for workload, containers in self._by_workload(found).items():
            if workload not in self._under_way and self._due(workload, containers, now) is not None:
                task = self._under_way[workload] = asyncio.create_task(self._start(workload))
                task.add_done_callback(partial(self._is_over, workload))

    def _is_over(self, workload: str, start: asyncio.Task[None]) -> None:
        del self._under_way[workload]
        if not start.cancelled() and (error := start.exception()) is not None:
            logger.error("a start came to an unexpected end", extra={"workload": workload}, exc_info=error)

    def _by_workload(self, found: Sequence[Managed]) -> Mapping[str, Sequence[Managed]]:
        """Those that can be of this fleet: another server may have one of the same name."""
        ours = defaultdict(list)
        for one in found:
            if not (self._ledger.fleet_id and one.owner.fleet_id) or one.owner.fleet_id == self._ledger.fleet_id:
                ours[one.owner.workload].append(one)
        return ours

    async def _start(self, workload: str) -> None:
        """Start what is due, after another look under the lock: a step that was under way may have changed everything."""
        async with self._fence.alone(workload):
            if self.contact.is_there:
                return
            try:
                found = await self._engine.list_managed(self._fleet, self._host, workload)
                due = self._due(workload, self._by_workload(found).get(workload, ()), datetime.now(UTC))
                if due is not None:
                    await self._restart(workload, due)
            except EngineFault as fault:
                self._failed(workload, str(fault))

    async def _restart(self, workload: str, due: _Due) -> None:
        """A worker that is killed in here leaves behind what it was about to do: the container tells whether it was done."""
        container = due.container
        before = self._runs_of(workload, container)
        runs = before.model_copy(
            update={
                "crashes": due.crashes,
                "crashes_before": before.crashes,
                "restarts": before.restarts + 1,
                "exit": container.exit or before.exit,
                "answers": container.exit,
                "started_at": None,
            }
        )
        self._ledger.note(workload, runs)
        try:
            live = await self._engine.start_again(container.container_id)
        except EngineFault:
            self._ledger.note(workload, before)
            raise
        if live is None:
            self._ledger.note(workload, before)
            self._failed(workload, "podman cannot start it as it is")
            return
        self._ledger.note(workload, runs.model_copy(update={"started_at": live.started_at}))
        self._troubles.pop(workload, None)
        self._complaints.pop(workload, None)
        cause = container.exit.model_dump(mode="json") if container.exit else "it has not run since the boot"
        logger.info("a container was restarted here", extra={"workload": workload, "cause": cause})

    def _due(self, workload: str, containers: Sequence[Managed], now: datetime) -> _Due | None:
        """The container of a workload that is to be started now."""
        container = self._candidate(workload, containers)
        trouble = self._troubles.get(workload)
        if container is None or (trouble is not None and trouble.next_at > now):
            return None
        if container.state is ContainerState.CREATED:
            return _Due(container, self._runs_of(workload, container).crashes)
        return self._due_by_policy(workload, container, now)

    def _candidate(self, workload: str, containers: Sequence[Managed]) -> Managed | None:
        """The container that is to be up, where none is and one should be."""
        if not containers or any(one.state not in _DOWN for one in containers):
            return None
        incarnations = {one.owner.incarnation for one in containers}
        if len(incarnations) > 1:
            self._complain(
                workload, "containers of several lives of the workload are there; which one is wanted is not known"
            )
            return None
        newest = max(containers, key=lambda one: one.owner.generation)
        return None if self._ledger.resting.get(workload) == newest.owner.incarnation else newest

    def _due_by_policy(self, workload: str, container: Managed, now: datetime) -> _Due | None:
        """By the label of a container that ended."""
        owner, ended = container.owner, container.exit
        try:
            wish = _Wish.model_validate_json(owner.restart or "{}")
        except ValidationError:
            self._complain(workload, "its restart label cannot be read")
            return None
        ended_at = ended.at if ended and ended.at else now
        decision = restart.decide(
            wish.restart,
            wish.restart_backoff,
            restart.Ended(
                code=ended.code if ended else None,
                ran_for=max(timedelta(0), ended_at - (container.started_at or ended_at)),
                crashes_before=self._runs_of(workload, container).crashes,
            ),
            seed=f"{owner.incarnation}/{owner.generation}",
        )
        if isinstance(decision, restart.Stay):
            return None
        # An end that lies ahead: the clock was set back since, as by a board that boots without one.
        waits = ended is not None and ended.at is not None and timedelta(0) <= now - ended_at < decision.after
        return None if waits else _Due(container, decision.crashes)

    def _runs_of(self, workload: str, container: Managed) -> LocalRuns:
        """What was done with this very container before."""
        runs = self._ledger.runs_of(workload)
        if runs is not None and runs.container_id == container.container_id:
            return _really_done(runs, container)
        return LocalRuns(container_id=container.container_id, incarnation=container.owner.incarnation)

    def _failed(self, workload: str, cause: str) -> None:
        tries = self._troubles[workload].tries + 1 if workload in self._troubles else 1
        base, cap = TRY_AGAIN
        wait = backoff.delay(tries, seed=f"{self._host}/{workload}/alone", base=base, cap=cap)
        self._troubles[workload] = _Trouble(tries, datetime.now(UTC) + wait)
        self._complain(workload, cause)

    def _complain(self, workload: str, cause: str) -> None:
        """Log a trouble once, and not with every look."""
        if self._complaints.get(workload) != cause:
            self._complaints[workload] = cause
            logger.warning("a container cannot be kept up here", extra={"workload": workload, "cause": cause})


def _really_done(runs: LocalRuns, seen: Managed | None) -> LocalRuns:
    """Without a restart that was written down and never done: the container is still as it was before it."""
    if runs.started_at is not None or seen is None or seen.state not in _DOWN or seen.exit != runs.answers:
        return runs
    done = {"restarts": max(0, runs.restarts - 1), "crashes": runs.crashes_before}
    return runs.model_copy(update={**done, "answers": None, "exit": None})
