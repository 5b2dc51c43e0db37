# SPDX-License-Identifier: Apache-2.0
"""Has the healthchecks of a host's containers run, and tells their workloads how they are.

Podman leaves the timing of healthchecks to systemd. Where there is none, nobody runs them, and a container stays ``starting`` for
ever; so the worker does it. Where Podman does it, the worker only reads what came of it.

Nothing here starts or ends a container. What is told is what changed, and what was not delivered is told again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from activities.background import outliving_own_faults
from activities.engine import Engine, EngineFault, Managed, Probe
from activities.telling import Told
from perdure.model.observation import ContainerState, Health, Observation
from perdure.model.workload import Healthcheck
from perdure.policy.health import SOONEST, Judgement, judged, pause

logger = logging.getLogger(__name__)

SLOTS: Final = 4
"""Checks that are begun at once: each costs a fifth of a second of processor time."""
SLOT_LIMIT: Final = timedelta(seconds=2)
"""A check that takes longer waits for something, and keeps nobody else from being checked."""
LOOK_EVERY: Final = timedelta(seconds=5)
"""For what Podman found, where it runs the checks."""
JITTER: Final = 0.1
TROUBLE_WAIT: Final = timedelta(seconds=5)
SYSTEMD_RUNS: Final = Path("/run/systemd/system")
"""There if the machine was booted with systemd."""


@dataclass(slots=True)
class _Watched:
    """One container that is up."""

    workload: str
    container_id: str
    generation: int
    started_at: datetime | None = None
    held: Judgement = field(default_factory=Judgement)
    told: Health | None = None
    anew: asyncio.Event = field(default_factory=asyncio.Event)
    """It may be another run than before: its judgement begins anew then, and is told anew in any case."""
    has_check: bool | None = None
    """Whether there is anything to tell; None while that is not known."""
    task: asyncio.Task[None] | None = None
    complaint: str = ""
    """Why it could not be checked the last time."""


class HealthChecks:
    """The healthchecks of one host, a companion of its supervision.

    Args:
        engine: of the host.
        fleet: whose containers they are.
        host: its name.
        observe: tells a workload, see ``Teller.observe``.
        by_engine: whether the engine runs the checks by itself.
    """

    def __init__(
        self,
        engine: Engine,
        fleet: str,
        host: str,
        observe: Callable[[str, Observation], Awaitable[Told]],
        *,
        by_engine: bool,
    ) -> None:
        self._engine = engine
        self._fleet = fleet
        self._host = host
        self._observe = observe
        self._by_engine = by_engine
        self._watched: dict[str, _Watched] = {}
        self._slots = asyncio.Semaphore(SLOTS)

    # ---- what supervision tells ----

    def up(self, workload: str, container_id: str, generation: int) -> None:
        """A container runs: it was started, started again, or found running."""
        known = self._watched.get(workload)
        if known is not None and known.container_id == container_id:
            known.generation = generation
            known.anew.set()
            return
        self._forget(workload)
        watched = self._watched[workload] = _Watched(workload, container_id, generation)
        watched.anew.set()
        if not self._by_engine:
            watched.task = asyncio.create_task(self._keep_watching(watched))

    def down(self, workload: str, container_id: str) -> None:
        """A container runs no more."""
        known = self._watched.get(workload)
        if known is not None and known.container_id == container_id:
            self._forget(workload)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check what is up until the end of the block."""
        reader = asyncio.create_task(self._read_again_and_again()) if self._by_engine else None
        try:
            yield
        finally:
            tasks = [reader, *(watched.task for watched in self._watched.values())]
            ended = [task for task in tasks if task is not None]
            for task in ended:
                task.cancel()
            self._watched.clear()
            await asyncio.gather(*ended, return_exceptions=True)

    def _forget(self, workload: str) -> None:
        watched = self._watched.pop(workload, None)
        if watched is not None and watched.task is not None:
            watched.task.cancel()

    # ---- where the worker runs them: one task for each container ----

    async def _keep_watching(self, watched: _Watched) -> None:
        """Whatever goes wrong is begun anew: nobody would notice that one container is checked no more."""
        while True:
            with outliving_own_faults("checks are begun anew", workload=watched.workload):
                return await self._watch(watched)
            await asyncio.sleep(TROUBLE_WAIT.total_seconds())

    async def _watch(self, watched: _Watched) -> None:
        check = await self._check_of(watched)
        watched.has_check = check is not None
        if check is None:
            return
        while True:
            watched.anew.clear()
            while not await self._recognise(watched):
                await asyncio.sleep(SOONEST.total_seconds())
            wait = self._first_wait(watched, check)
            while not await _is_set_within(watched.anew, wait):
                await self._run(watched, check)
                wait = pause(watched.held, check, _since(watched.started_at))

    def _first_wait(self, watched: _Watched, check: Healthcheck) -> timedelta:
        """Those that a worker finds running at its start are not all checked at once."""
        if _since(watched.started_at) < check.interval:
            return min(SOONEST, check.interval)
        return check.interval * random.random()  # noqa: S311 - no secret

    async def _check_of(self, watched: _Watched) -> Healthcheck | None:
        """Its healthcheck, as soon as the engine tells whether it has one."""
        while True:
            try:
                async with self._slots:
                    return await self._engine.healthcheck_of(watched.container_id)
            except EngineFault as fault:
                self._complain(watched, str(fault))
                await asyncio.sleep(TROUBLE_WAIT.total_seconds())

    async def _recognise(self, watched: _Watched) -> bool:
        """Learn which run of the container this is; answers whether it runs at all."""
        try:
            found = await self._engine.list_managed(self._fleet, self._host, watched.workload)
        except EngineFault as fault:
            self._complain(watched, str(fault))
            return False
        container = _running(found).get(watched.container_id)
        if container is None:
            return False
        if container.started_at != watched.started_at:
            watched.held = Judgement()
        watched.started_at = container.started_at
        watched.told = None
        return True

    async def _run(self, watched: _Watched, check: Healthcheck) -> None:
        """Run the check once, and tell what follows from it."""
        ran_for = _since(watched.started_at)
        probe = None
        with outliving_own_faults("health is checked again", workload=watched.workload):
            try:
                probe = await self._probe(watched.container_id)
            except EngineFault as fault:
                self._complain(watched, str(fault))
        if probe is None:
            return
        watched.complaint = ""
        watched.held = judged(watched.held, check, succeeded=probe.healthy, ran_for=ran_for)
        reason = probe.detail if watched.held.health is Health.UNHEALTHY else ""
        await self._tell(watched, watched.held.health, reason)

    async def _probe(self, container_id: str) -> Probe:
        """A few are begun at once; one that hangs makes room for others after a moment."""
        async with self._slots:
            run = asyncio.create_task(self._engine.check_health(container_id))
            try:
                await asyncio.wait([run], timeout=SLOT_LIMIT.total_seconds())
            except asyncio.CancelledError:
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
                raise
        return await run

    # ---- where the engine runs them: one look at all ----

    async def _read_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY.total_seconds())
            with outliving_own_faults("health is read again", host=self._host):
                if any(watched.has_check is not False for watched in self._watched.values()):
                    await self._read()

    async def _read(self) -> None:
        """Tell what the engine has found."""
        try:
            running = _running(await self._engine.list_managed(self._fleet, self._host))
        except EngineFault as fault:
            logger.warning("health could not be read", extra={"host": self._host, "cause": str(fault)})
            return
        for watched in list(self._watched.values()):
            container = running.get(watched.container_id)
            if container is None:
                continue
            if watched.anew.is_set() or container.started_at != watched.started_at:
                watched.started_at, watched.told = container.started_at, None
                watched.anew.clear()
            watched.has_check = container.health is not Health.NONE
            await self._tell(watched, container.health, "")

    # ---- both ----

    async def _tell(self, watched: _Watched, health: Health, reason: str) -> None:
        """Tell a change. That it is starting every workload knows by itself."""
        if health in (watched.told, Health.STARTING, Health.NONE):
            return
        seen = Observation(
            container_id=watched.container_id,
            generation=watched.generation,
            state=ContainerState.RUNNING,
            health=health,
            started_at=watched.started_at,
            seen_at=datetime.now(UTC),
            reason=reason,
        )
        if await self._observe(watched.workload, seen) in (Told.DELIVERED, Told.GONE):
            logger.info("health changed", extra={"workload": watched.workload, "health": health.value, "cause": reason})
            watched.told = health

    def _complain(self, watched: _Watched, cause: str) -> None:
        """Log a trouble once, and not with every check."""
        if cause != watched.complaint:
            watched.complaint = cause
            logger.warning("health could not be checked", extra={"workload": watched.workload, "cause": cause})


def engine_runs_checks(systemd: Path = SYSTEMD_RUNS) -> bool:
    """Whether Podman finds systemd timers here, and so runs the healthchecks by itself."""
    return systemd.is_dir()


async def _is_set_within(event: asyncio.Event, wait: timedelta) -> bool:
    """Wait for an event about so long: what begins together should not meet for ever."""
    with suppress(TimeoutError):
        about = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret depends on it
        await asyncio.wait_for(event.wait(), wait.total_seconds() * about)
    return event.is_set()


def _since(started_at: datetime | None) -> timedelta:
    return max(timedelta(0), datetime.now(UTC) - started_at) if started_at else timedelta(0)


def _running(found: list[Managed]) -> dict[str, Managed]:
    return {one.container_id: one for one in found if one.state is ContainerState.RUNNING}
