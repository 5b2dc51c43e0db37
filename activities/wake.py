# SPDX-License-Identifier: Apache-2.0
"""Wakes the workloads of a host as soon as what they wait for is there again.

It hears of every try and so knows who waits for which cause. Each cause is looked at by one task, however many wait for it, and
by none when nobody waits. Nothing depends on it: without it, or where it sees what Podman does not, the curve's waits hold.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from activities.background import outliving_own_faults
from activities.breaker import Breaker, KnownOutage
from activities.causes import Cause, cause_of
from activities.engine import EngineFault
from activities.outages import LOOKS_APART, Look, Outage, Outages, Waiting, now
from activities.recovery import Known
from activities.telling import Told
from perdure.model.faults import Fault, Phase
from perdure.model.messages import RetryRequest
from perdure.model.states import State
from perdure.model.status import WorkloadStatus
from perdure.policy import waking
from perdure.wire.contract import Ticket

logger = logging.getLogger(__name__)

RetryNow = Callable[[str, RetryRequest], Awaitable[Told]]
PlaceOnCurve = Callable[[str], Awaitable[int | None]]
"""The number of the latest failed try of a workload; None where Temporal cannot be asked."""

LONGEST_WAIT: Final = timedelta(seconds=300)


class Wake:
    """Listens to the tries of one host.

    Args:
        look: at a cause.
        retry_now: tells a workload that a try is worth while.
        place_on_curve: asked for a workload whose tries were read of, and not heard of.
    """

    def __init__(self, look: Look, retry_now: RetryNow, place_on_curve: PlaceOnCurve) -> None:
        self._retry_now = retry_now
        self._place_on_curve = place_on_curve
        self._outages = Outages(look)
        self.breaker = Breaker(self._outages)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Its tasks begin when somebody fails, and end with this at the latest."""
        try:
            yield
        finally:
            tasks = [outage.task for outage in self._outages.all() if outage.task is not None]
            for task in tasks:
                task.cancel()
            if tasks:  # a look at a Podman that hangs ends when that answers: nobody waits for it
                await asyncio.wait(tasks, timeout=1)

    # ---- what the tries tell ----

    def began(self, ticket: Ticket, phase: Phase) -> None:
        """A try is under way. One of another step or generation is the end of the wait before."""
        waiting = self._outages.waiting(ticket.name)
        if waiting is None:
            return
        same = (waiting.ticket.incarnation, waiting.ticket.generation) == (ticket.incarnation, ticket.generation)
        if waiting.phase is phase and same:
            waiting.is_trying = True
        else:
            self._outages.forget(ticket.name)

    def failed(
        self, ticket: Ticket, phase: Phase, *, attempt: int, raised: EngineFault, image: str, wait: timedelta
    ) -> Fault:
        """A try failed, and there will be another after a wait. Returns the fault, with what is promised about it."""
        fault = raised.fault
        waiting = self._outages.waiting(ticket.name)
        cause = cause_of(fault, image)
        if waiting is not None and waiting.cause != cause:
            self._outages.forget(ticket.name)
            waiting = None
        if cause is None:
            return fault
        waiting = waiting or Waiting(ticket, phase, cause, since=now(), due_at=now())
        waiting.attempt, waiting.is_trying, waiting.due_at = attempt, False, now() + wait.total_seconds()
        outage = self._outages.add(waiting, fault.kind)
        if not isinstance(raised, KnownOutage):
            waiting.fault, waiting.told_of = fault, outage.why
            outage.real_at = now()
            outage.news.set()
        self._begin(outage)
        return fault.model_copy(update={"hint": f"{fault.hint}; {cause.promise}"})

    def over(self, ticket: Ticket) -> None:
        """A try succeeded, failed for good, or is of no use any more."""
        self._outages.forget(ticket.name)

    # ---- what the list of workloads tells ----

    def learn(self, known: Mapping[str, Known]) -> None:
        """Take over, after a start of the worker, which workloads wait. What was heard of a try counts more."""
        for workload in known.values():
            status = workload.status
            error = status.last_error
            may_fail = status.attempt > 0 and status.state in (State.PENDING, State.UNKNOWN)
            if error is None or not may_fail or self._outages.waiting(status.name) is not None:
                continue
            fault = Fault(**{name: getattr(error, name) for name in Fault.model_fields})
            if (cause := cause_of(fault, status.image)) is not None:
                self._learn(status, fault, cause)

    def _learn(self, status: WorkloadStatus, fault: Fault, cause: Cause) -> None:
        ticket = Ticket(
            host=status.host, name=status.name, incarnation=status.incarnation, generation=status.generation
        )
        due_at = now() + LONGEST_WAIT.total_seconds()
        # What was away when the worker before told of it is woken for once if it is there now.
        waiting = Waiting(ticket, fault.phase, cause, since=now(), due_at=due_at, fault=fault, was_away=True)
        self._begin(self._outages.add(waiting, fault.kind))

    # ---- looking and waking ----

    def _begin(self, outage: Outage) -> None:
        if outage.task is None or outage.task.done():
            outage.task = asyncio.create_task(self._watch(outage), name=f"look at {outage.cause}")

    async def _watch(self, outage: Outage) -> None:
        """Look and wake until nobody waits: then this task is cancelled."""
        while True:
            with outliving_own_faults("a cause is looked at again", of=str(outage.cause)):
                await self._outages.look(outage)
                if not outage.is_away:
                    await self._wake_all(outage)
            await self._pause(outage)
            self._outages.forget_the_silent(outage.cause)

    async def _pause(self, outage: Outage) -> None:
        """Until it is time to look again, or somebody has news; never less than a second after the latest look."""
        lasted = timedelta(seconds=now() - outage.since)
        pause = waking.look_again(lasted, is_there=not outage.is_away, seed=str(outage.cause), n=outage.looks)
        with suppress(TimeoutError):
            await asyncio.wait_for(outage.news.wait(), pause.total_seconds())
        if outage.looked_at is not None:
            await asyncio.sleep(outage.looked_at + LOOKS_APART.total_seconds() - now())

    async def _wake_all(self, outage: Outage) -> None:
        """Wake those who wait, evenly spread. Where one of them fails meanwhile, make sure that it is still worth while."""
        began = now()
        waiting = [one for one in self._outages.who_waits(outage.cause) if one.may_be_woken()]
        for position, one in enumerate(waiting):
            moment = waking.moment(position, str(outage.cause)).total_seconds()
            await asyncio.sleep(began + moment - now())
            if outage.news.is_set():
                await self._outages.look(outage)
            if outage.is_away:
                return
            still_waits = self._outages.waiting(one.ticket.name) is one and one.may_be_woken()
            if still_waits and await self._wake(one) is Told.AWAY:
                return

    async def _wake(self, one: Waiting) -> Told:
        name = one.ticket.name
        attempt = one.attempt or await self._place_on_curve(name)
        if attempt is None:
            return Told.AWAY
        request = RetryRequest(reason=one.cause.recovery, attempt=attempt, generation=one.ticket.generation)
        told = await self._retry_now(name, request)
        if told is Told.GONE:
            self._outages.forget(name)
        elif told is not Told.AWAY:
            one.woken()
        return told
