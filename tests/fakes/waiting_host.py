# SPDX-License-Identifier: Apache-2.0
"""A host whose pulls fail and succeed in time that leaps: the curve of each workload, what wakes it, and a registry.

It does what the activity of a pull does, in the same order, without a server: so hours with hundreds of workloads take seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from activities.causes import Cause
from activities.engine import EngineFault
from activities.telling import Told
from activities.wake import Wake
from perdure.model.faults import Fault, FaultKind, Phase
from perdure.model.messages import RetryRequest
from perdure.model.workload import Retry
from perdure.policy import backoff, identity
from perdure.wire.contract import Ticket
from tests.fakes.engine import fault

REGISTRY = "localhost:5000"
REFUSED_SECONDS = 3.0
"""How long Podman tries by itself."""
PULL_SECONDS = 0.2


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Try:
    """One try of a pull."""

    at: float
    workload: str
    attempt: int
    is_real: bool
    fault: Fault | None
    wait: float = 0.0


@dataclass
class Registry:
    """What Podman and what we see of it."""

    away: str | None = None
    """Why our own look sees it away."""
    fails: EngineFault | None = None
    """What Podman's pulls meet."""
    looks: list[float] = field(default_factory=list)

    def go(self, kind: FaultKind = FaultKind.REGISTRY_UNREACHABLE, why: str = "connection refused") -> None:
        """Nobody reaches it."""
        self.away, self.fails = why, fault(kind, f"cannot pull: {why}")

    def come(self) -> None:
        """Everybody reaches it."""
        self.away = self.fails = None

    async def look(self, cause: Cause) -> str | None:
        """What a look sees."""
        assert cause.name == REGISTRY
        self.looks.append(now())
        return self.away


class WaitingHost:
    """Workloads that want to be pulled."""

    def __init__(self, *, wakes: bool = True, retry: Retry | None = None) -> None:
        self.registry = Registry()
        self.retry = retry or Retry()
        self.tries: list[Try] = []
        self.woken: list[tuple[float, str, RetryRequest]] = []
        self.running_since: dict[str, float] = {}
        self.broken: set[str] = set()
        """Those whose own image cannot be had though the registry answers."""
        self.temporal = Told.DELIVERED
        self.wake = Wake(self.registry.look, self._retry_now, self._place) if wakes else None
        self._runs = asyncio.Event()
        self._asked: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.wake is not None:
            async with self.wake.running():
                pass

    def apply(self, *workloads: str) -> None:
        """Begin to pull for some workloads."""
        self._tasks += [asyncio.create_task(self._live(workload)) for workload in workloads]

    def ticket(self, workload: str) -> Ticket:
        """What its tries carry."""
        return Ticket(host="edge-1", name=workload, incarnation=f"life-of-{workload}", generation=1, retry=self.retry)

    def ask(self, workload: str) -> None:
        """A person wants a try now."""
        self._asked[workload].set()

    def attempts(self, workload: str) -> int:
        """How many tries there were."""
        return sum(one.workload == workload for one in self.tries)

    async def all_run(self, *workloads: str) -> None:
        """Wait until they run."""
        while not self.running_since.keys() >= set(workloads):
            self._runs.clear()
            await self._runs.wait()

    async def _live(self, workload: str) -> None:
        attempt, is_asked = 0, False
        self._asked[workload] = asyncio.Event()
        while True:
            attempt += 1
            wait = await self._try(workload, attempt, is_asked)
            if wait is None:
                self.running_since[workload] = now()
                self._runs.set()
                return
            self._asked[workload].clear()
            try:
                await asyncio.wait_for(self._asked[workload].wait(), wait.total_seconds())
                is_asked = True
            except TimeoutError:
                is_asked = False

    async def _try(self, workload: str, attempt: int, is_asked: bool) -> timedelta | None:
        ticket, image = self.ticket(workload), f"{REGISTRY}/{workload}:1"
        made = Try(now(), workload, attempt, is_real=False, fault=None)
        self.tries.append(made)
        try:
            if self.wake is not None:
                self.wake.began(ticket, Phase.PULL)
                await self.wake.breaker.refuse(ticket, image, attempt, is_first=attempt == 1, is_asked=is_asked)
                self.wake.breaker.pulling(image)
            made.is_real = True
            await self._pull(workload)
        except EngineFault as raised:
            seed = identity.seed(ticket.incarnation, 1, Phase.PULL)
            cap = self.retry.maximum_interval
            wait = backoff.delay(attempt, seed=seed, base=self.retry.initial_interval, cap=cap)
            wait = min(max(wait, raised.retry_after or wait), cap)
            made.fault, made.wait = raised.fault, wait.total_seconds()
            if self.wake is not None:
                made.fault = self.wake.failed(
                    ticket, Phase.PULL, attempt=attempt, raised=raised, image=image, wait=wait
                )
            return wait
        if self.wake is not None:
            self.wake.breaker.pulled(image)
            self.wake.over(ticket)
        return None

    async def _pull(self, workload: str) -> None:
        if self.registry.fails is not None:
            await asyncio.sleep(REFUSED_SECONDS)
        if self.registry.fails is not None:
            raise self.registry.fails
        await asyncio.sleep(PULL_SECONDS)
        if workload in self.broken:
            raise fault(FaultKind.REGISTRY_ERROR, "502 Bad Gateway")

    async def _retry_now(self, workload: str, request: RetryRequest) -> Told:
        if self.temporal is Told.DELIVERED:
            self.woken.append((now(), workload, request))
            self._asked[workload].set()
        return self.temporal

    async def _place(self, workload: str) -> int | None:
        return self.attempts(workload)
