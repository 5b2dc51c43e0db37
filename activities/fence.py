# SPDX-License-Identifier: Apache-2.0
"""Refuses what is out of date: after a generation was seen on this host, nothing is done for one below it.

Temporal may have two attempts under way at once (a heartbeat that came too late is enough). A lock for each workload puts them
in a row, and the fence lets only those pass that are not behind what was seen. Generations of one incarnation are ordered;
which of two incarnations is the present one only Temporal can tell, and is asked (that is rare).

While a full resync looks around, a gate in front of the locks is closed: what comes then is let in afterwards, once, and what
went in before is left out of the comparison. So nobody changes what is being looked at, and the look waits for nobody's stop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from activities.engine import EngineFault, Managed
from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.wire.contract import Ticket


@dataclass(frozen=True, slots=True)
class _Seen:
    incarnation: str
    generation: int


class Fence:
    """What was seen of each workload of one host, and one lock for each."""

    def __init__(self, current_incarnation: Callable[[str], Awaitable[str | None]]) -> None:
        self._current_incarnation = current_incarnation
        self._seen: dict[str, _Seen] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._gate = asyncio.Event()
        self._gate.set()
        self._under_way: Counter[str] = Counter()

    def learn(self, containers: Iterable[Managed]) -> None:
        """Take over what the labels of containers tell; done before the first work is accepted."""
        for container in containers:
            owner = container.owner
            before = self._seen.get(owner.workload)
            if before is None or owner.incarnation != before.incarnation or owner.generation > before.generation:
                self._seen[owner.workload] = _Seen(owner.incarnation, owner.generation)

    @asynccontextmanager
    async def admit(self, ticket: Ticket, phase: Phase) -> AsyncIterator[None]:
        """Hold the workload's lock for a request that is not out of date. Raises EngineFault(Superseded) for one that is."""
        while not self._gate.is_set():
            await self._gate.wait()
        self._under_way[ticket.name] += 1
        try:
            async with self.alone(ticket.name):
                await self._check(ticket, phase)
                self._see(ticket)
                yield
        finally:
            self._under_way[ticket.name] -= 1
            if not self._under_way[ticket.name]:
                del self._under_way[ticket.name]

    @asynccontextmanager
    async def resyncing(self) -> AsyncIterator[frozenset[str]]:
        """Let nobody new in, and tell for which workloads something is under way. One resync at a time."""
        self._gate.clear()
        try:
            yield frozenset(self._under_way)
        finally:
            self._gate.set()

    def is_busy(self, workload: str) -> bool:
        """Whether a request for the workload is under way."""
        return workload in self._under_way

    def alone(self, workload: str) -> asyncio.Lock:
        """The workload's lock, for somebody who only wants to look while nobody changes anything."""
        return self._locks.setdefault(workload, asyncio.Lock())

    def _see(self, ticket: Ticket) -> None:
        seen = self._seen.get(ticket.name)
        known = seen.generation if seen is not None and seen.incarnation == ticket.incarnation else 0
        self._seen[ticket.name] = _Seen(ticket.incarnation, max(known, ticket.generation))

    async def _check(self, ticket: Ticket, phase: Phase) -> None:
        seen = self._seen.get(ticket.name)
        if seen is None:
            return
        if seen.incarnation == ticket.incarnation:
            # A removal is the last wish of an incarnation, whatever its number: a reset workflow may have forgotten some.
            if ticket.generation < seen.generation and phase is not Phase.STOP:
                why = f"generation {seen.generation} was seen on the host before"
                raise _superseded(why, ticket, phase, seen.generation)
            return
        current = await self._current_incarnation(ticket.name)
        if current != ticket.incarnation:
            raise _superseded(f"the workload lives on as incarnation {current or 'none'}", ticket, phase)


def _superseded(why: str, ticket: Ticket, phase: Phase, seen_generation: int | None = None) -> EngineFault:
    return EngineFault(
        Fault(
            kind=FaultKind.SUPERSEDED,
            fault_class=FaultClass.PERMANENT,
            phase=phase,
            message=f"generation {ticket.generation} of {ticket.host}/{ticket.name} is out of date: {why}",
            hint="nothing is to be done: a newer one goes its own way, and a workflow that was reset in Temporal catches up",
            seen_generation=seen_generation,
        )
    )
