# SPDX-License-Identifier: Apache-2.0
"""Who waits for what on one host, and what was seen of each cause when it was last looked at.

A memory only: ``activities.wake`` fills it and acts on it, ``activities.breaker`` reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from activities.causes import Cause
from perdure.model.faults import Fault, FaultKind, Phase
from perdure.policy import waking
from perdure.wire.contract import Ticket

logger = logging.getLogger(__name__)

Look = Callable[[Cause], Awaitable[str | None]]
"""Why a cause is not there, or None where it is."""

LOOKS_APART: Final = timedelta(seconds=1)
"""Whatever happens, a cause is looked at no more often than this."""
FORGOTTEN_AFTER: Final = timedelta(seconds=60)
"""One who is not heard of this long after his try was due waits no more: he was paused, superseded or parked."""


@dataclass(slots=True)
class Waiting:
    """A workload whose tries fail. Times are seconds of the event loop's clock."""

    ticket: Ticket
    phase: Phase
    cause: Cause
    since: float
    due_at: float
    """When its next try comes by itself."""
    attempt: int = 0
    """The number of its latest failed try; 0 where it was not heard of, but read of."""
    fault: Fault | None = None
    """What its latest real try met."""
    told_of: str | None = None
    """Why the cause was away when that fault was met, as far as known."""
    is_trying: bool = False
    was_away: bool = False
    """Whether the cause was seen to be away since the latest wake."""
    wakes: int = 0
    woken_at: float = 0.0

    def may_be_woken(self) -> bool:
        """Whether a wake is worth while, now that the cause is there."""
        rested = timedelta(seconds=now() - self.woken_at) if self.wakes else timedelta(0)
        return not self.is_trying and waking.may_wake(wakes=self.wakes, was_away=self.was_away, rested=rested)

    def woken(self) -> None:
        """It was told to try now."""
        self.wakes, self.woken_at, self.was_away, self.due_at = self.wakes + 1, now(), False, now()


@dataclass(slots=True)
class Outage:
    """What is known of one cause for which somebody waits."""

    cause: Cause
    kind: FaultKind
    """Of the latest fault that it led to."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is a reason to look soon."""
    why: str | None = None
    """Why it is away; None where it is there, or was not looked at yet."""
    since: float = 0.0
    """How long it has been as it is."""
    looked_at: float | None = None
    looks: int = 0
    real_at: float = 0.0
    """When the latest real pull began or failed."""
    is_contradicted: bool = False
    """A pull succeeded while it seemed to be away: what is seen from here is not what Podman sees."""
    task: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_away(self) -> bool:
        """Whether the latest look saw it away."""
        return self.why is not None

    def stop(self) -> None:
        """Nobody looks any more."""
        if self.task is not None:
            self.task.cancel()


class Outages:
    """The memory of one host.

    Args:
        look: at a cause.
    """

    def __init__(self, look: Look) -> None:
        self._look_at = look
        self._waiting: dict[str, Waiting] = {}
        self._outages: dict[Cause, Outage] = {}

    def waiting(self, workload: str) -> Waiting | None:
        """What a workload waits for."""
        return self._waiting.get(workload)

    def find(self, cause: Cause) -> Outage | None:
        """What is known of a cause; None where nobody waits for it."""
        return self._outages.get(cause)

    def all(self) -> list[Outage]:
        """Everything for which anybody waits."""
        return list(self._outages.values())

    def who_waits(self, cause: Cause) -> list[Waiting]:
        """Those who wait for a cause, the longest first."""
        return sorted((one for one in self._waiting.values() if one.cause == cause), key=lambda one: one.since)

    def add(self, waiting: Waiting, kind: FaultKind) -> Outage:
        """Somebody waits for a cause, because of a fault of this kind."""
        self._waiting[waiting.ticket.name] = waiting
        outage = self._outages.get(waiting.cause)
        if outage is None:
            outage = self._outages[waiting.cause] = Outage(waiting.cause, kind, since=now())
        outage.kind = kind
        waiting.was_away = waiting.was_away or outage.is_away
        return outage

    def forget(self, workload: str) -> None:
        """It waits no more. A cause for which nobody waits is looked at not once more."""
        waiting = self._waiting.pop(workload, None)
        if waiting is not None and not self.who_waits(waiting.cause):
            outage = self._outages.pop(waiting.cause, None)
            if outage is not None:
                outage.stop()

    def forget_the_silent(self, cause: Cause) -> None:
        """Those whose try was due long ago, and came not."""
        silent_since = now() - FORGOTTEN_AFTER.total_seconds()
        for one in self.who_waits(cause):
            if not one.is_trying and one.due_at < silent_since:
                self.forget(one.ticket.name)

    async def look(self, outage: Outage) -> None:
        """Look, unless somebody has just looked. Who comes while another looks waits for what he sees."""
        async with outage.lock:
            if outage.looked_at is not None and now() - outage.looked_at < LOOKS_APART.total_seconds():
                return
            outage.news.clear()
            why = await self._look_at(outage.cause)
            if outage.looked_at is None or (why is None) is not (outage.why is None):
                outage.since = now()
                logger.info("a cause of failures was looked at", extra={"of": str(outage.cause), "away": why or "no"})
            outage.why, outage.looked_at, outage.looks = why, now(), outage.looks + 1
            if why is None:
                outage.is_contradicted = False
                return
            for one in self.who_waits(outage.cause):
                one.was_away = True
                one.told_of = one.told_of or why


def now() -> float:
    """Seconds of the event loop's clock."""
    return asyncio.get_running_loop().time()
