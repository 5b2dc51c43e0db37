# SPDX-License-Identifier: Apache-2.0
"""An engine in memory, behind the same contract as Podman, for tests in which days pass or hundreds of generations storm.

It also records every mutation in order, so that a test can say "nothing below the accepted generation was touched".
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from activities.engine import (
    EngineFault,
    EngineInfo,
    Event,
    EventKind,
    Managed,
    Ownership,
    Probe,
    Pulled,
    PullProgress,
)
from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.observation import ContainerState, Health, LastExit, Live, Run
from perdure.model.workload import ContainerSpec, Healthcheck
from perdure.policy import identity

_PIDS = itertools.count(1)


def fault(
    kind: FaultKind,
    message: str = "it does not work",
    *,
    phase: Phase = Phase.PULL,
    fault_class: FaultClass = FaultClass.TRANSIENT,
    retry_after: timedelta | None = None,
) -> EngineFault:
    """A fault as an engine raises it."""
    return EngineFault(
        Fault(kind=kind, fault_class=fault_class, phase=phase, message=message, hint="do this"), retry_after
    )


@dataclass(frozen=True, slots=True)
class Mutation:
    """One thing that was done to the host."""

    what: str
    workload: str
    generation: int


@dataclass
class FakeEngine:
    """Containers and images in memory; faults on demand."""

    images: set[str] = field(default_factory=set)
    registry: set[str] | None = None
    """The images that can be pulled; None for all."""
    pull_faults: dict[str, EngineFault] = field(default_factory=dict)
    """By image, or "" for every image."""
    start_faults: dict[str, EngineFault] = field(default_factory=dict)
    progress: PullProgress = field(default_factory=lambda: PullProgress(1, 2))
    """What every pull tells at its begin."""
    hanging_pulls: set[str] = field(default_factory=set)
    hanging_starts: set[str] = field(default_factory=set)
    stop_seconds: float = 0.0
    stop_fault: EngineFault | None = None
    containers: dict[str, Managed] = field(default_factory=dict)
    pulls: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    most_alive: int = 0
    """The largest number of containers of one workload that were ever alive at once."""
    on_pull: Callable[[str], None] | None = None
    healthchecks: dict[str, Healthcheck] = field(default_factory=dict)
    """By workload."""
    probes: dict[str, Probe | EngineFault] = field(default_factory=dict)
    """By workload: what each run of its healthcheck tells; healthy where nothing is said."""
    checks: list[str] = field(default_factory=list)
    """The workloads whose healthcheck was run, in order."""
    followers: list[tuple[str, str, asyncio.Queue[Event | EngineFault]]] = field(default_factory=list)
    """Who follows the events, of which fleet and host."""

    async def info(self) -> EngineInfo:
        """Answer."""
        return EngineInfo("fake", "1")

    async def has_image(self, image: str) -> bool:
        """Whether the image is local."""
        return image in self.images

    async def pull(self, image: str, on_progress: Callable[[PullProgress], None]) -> Pulled:
        """Fetch, fail, or hang, as the test wants."""
        self.pulls.append(image)
        if self.on_pull is not None:
            self.on_pull(image)
        on_progress(self.progress)
        await self._hang(image in self.hanging_pulls, f"pull {image}")
        found = self.pull_faults.get(image) or self.pull_faults.get("")
        if found is not None:
            raise found
        if self.registry is not None and image not in self.registry:
            raise fault(FaultKind.IMAGE_NOT_FOUND, f"{image}: manifest unknown")
        self.images.add(image)
        return Pulled(f"id-of-{image}", f"digest-of-{image}")

    async def ensure_running(self, name: str, spec: ContainerSpec, owner: Ownership) -> Live:
        """Adopt or replace."""
        self.starts.append(spec.image)
        await self._hang(spec.image in self.hanging_starts, f"start {spec.image}")
        found = self.start_faults.get(spec.image) or self.start_faults.get("")
        if found is not None:
            raise found
        equal = self._equal(owner)
        if equal is None and spec.image not in self.images:
            raise fault(FaultKind.IMAGE_MISSING, f"{spec.image} is not local", phase=Phase.START)
        for other in self._of_workload(owner):
            if equal is None or other.container_id != equal.container_id:
                self._drop(other)
        if equal is None:
            container_name = identity.container_name(owner.workload, owner.generation, owner.incarnation)
            equal = self._make(container_name, owner)
        elif equal.state is not ContainerState.RUNNING:
            equal = replace(equal, state=ContainerState.RUNNING, exit=None, started_at=datetime.now(UTC))
            self._started(equal)
        alive = [one for one in self._of_workload(owner) if one.state is ContainerState.RUNNING]
        self.most_alive = max(self.most_alive, len(alive))
        return Live(generation=equal.owner.generation, container_id=equal.container_id, started_at=equal.started_at)

    async def ensure_absent(self, fleet: str, host: str, workload: str, grace: timedelta, *, fleet_id: str = "") -> int:
        """Remove all of a workload."""
        if self.stop_fault is not None:
            raise self.stop_fault
        await asyncio.sleep(self.stop_seconds)
        found = [one for one in self._of(fleet, host, workload) if one.owner.fleet_id == fleet_id]
        for one in found:
            self._drop(one)
        return len(found)

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """What is there."""
        return self._of(fleet, host, workload)

    async def exit_of(self, container_id: str) -> LastExit | None:
        """How it ended."""
        found = self.containers.get(container_id)
        return found.exit if found else None

    async def events(self, fleet: str, host: str) -> AsyncIterator[Event]:
        """What the other methods and the test do, as it happens."""
        queue: asyncio.Queue[Event | EngineFault] = asyncio.Queue()
        follower = (fleet, host, queue)
        self.followers.append(follower)
        try:
            while True:
                news = await queue.get()
                if isinstance(news, EngineFault):
                    raise news
                yield news
        finally:
            self.followers.remove(follower)

    async def start_again(self, container_id: str) -> Live | None:
        """Start what ended."""
        found = self.containers.get(container_id)
        if found is None or found.state not in (
            ContainerState.CREATED,
            ContainerState.EXITED,
            ContainerState.RUNNING,
        ):
            return None
        if found.state is not ContainerState.RUNNING:
            found = replace(found, state=ContainerState.RUNNING, exit=None, started_at=datetime.now(UTC))
            self._started(found)
        return Live(generation=found.owner.generation, container_id=container_id, started_at=found.started_at)

    async def end_run(self, run: Run, grace: timedelta) -> bool:
        """End it by SIGTERM, if it is that run."""
        found = self.containers.get(run.container_id)
        if found is None or found.state is not ContainerState.RUNNING or found.started_at != run.started_at:
            return False
        self.mutations.append(Mutation("end", found.owner.workload, found.owner.generation))
        self._ended(found, 143)
        return True

    async def healthcheck_of(self, container_id: str) -> Healthcheck | None:
        """What the test wants."""
        found = self.containers.get(container_id)
        return self.healthchecks.get(found.owner.workload) if found else None

    async def check_health(self, container_id: str) -> Probe:
        """What the test wants."""
        found = self.containers.get(container_id)
        if found is None or found.state is not ContainerState.RUNNING:
            raise fault(FaultKind.ENGINE_ERROR, f"container {container_id} does not run", phase=Phase.START)
        self.checks.append(found.owner.workload)
        told = self.probes.get(found.owner.workload, Probe(healthy=True))
        if isinstance(told, EngineFault):
            raise told
        return told

    async def logs(
        self, container_id: str, *, follow: bool, tail: int | None, since: datetime | None
    ) -> AsyncIterator[bytes]:
        """One line."""
        yield container_id.encode()

    async def close(self) -> None:
        """Nothing to let go of."""

    # ---- what tests do to it ----

    def end(self, workload: str, code: int) -> Managed:
        """The container of a workload ends by itself."""
        (one,) = [one for one in self.containers.values() if one.owner.workload == workload]
        return self._ended(one, code)

    def vanish(self, workload: str) -> Managed:
        """Somebody removes the container of a workload by hand."""
        (one,) = [one for one in self.containers.values() if one.owner.workload == workload]
        del self.containers[one.container_id]
        self._tell(one, EventKind.REMOVED)
        return one

    def change(self, workload: str, **changes: Any) -> Managed:
        """The container of a workload is otherwise from now on, and no event tells of it."""
        (one,) = [one for one in self.containers.values() if one.owner.workload == workload]
        changed = self.containers[one.container_id] = replace(one, **changes)
        return changed

    def break_events(self, why: EngineFault) -> None:
        """Nobody follows the events any longer."""
        for _, _, queue in self.followers:
            queue.put_nowait(why)

    def running(self, workload: str) -> list[Managed]:
        """The containers of a workload that run."""
        return [
            one
            for one in self.containers.values()
            if one.owner.workload == workload and one.state is ContainerState.RUNNING
        ]

    # ---- parts ----

    async def _hang(self, hangs: bool, what: str) -> None:
        if not hangs:
            return
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.append(what)

    def _of(self, fleet: str, host: str, workload: str | None) -> list[Managed]:
        return [
            one
            for one in self.containers.values()
            if (one.owner.fleet, one.owner.host) == (fleet, host) and workload in (None, one.owner.workload)
        ]

    def _of_workload(self, owner: Ownership) -> list[Managed]:
        return [one for one in self.containers.values() if one.owner.is_same_workload(owner)]

    def _equal(self, owner: Ownership) -> Managed | None:
        for one in self._of_workload(owner):
            if (one.owner.incarnation, one.owner.spec_hash) == (owner.incarnation, owner.spec_hash):
                return one
        return None

    def _make(self, name: str, owner: Ownership) -> Managed:
        pid = next(_PIDS)
        made = Managed(
            container_id=f"{pid:064x}",
            name=name,
            owner=owner,
            state=ContainerState.RUNNING,
            pid=0,
            started_at=datetime.now(UTC),
            exit=None,
            health=Health.NONE,
        )
        self.containers[made.container_id] = made
        self.mutations.append(Mutation("create", owner.workload, owner.generation))
        self._tell(made, EventKind.STARTED)
        return made

    def _started(self, one: Managed) -> None:
        self.containers[one.container_id] = one
        self.mutations.append(Mutation("start", one.owner.workload, one.owner.generation))
        self._tell(one, EventKind.STARTED)

    def _ended(self, one: Managed, code: int) -> Managed:
        ended = replace(one, state=ContainerState.EXITED, pid=0, exit=LastExit(code=code, at=datetime.now(UTC)))
        self.containers[one.container_id] = ended
        self._tell(one, EventKind.ENDED)
        return ended

    def _drop(self, one: Managed) -> None:
        del self.containers[one.container_id]
        self.mutations.append(Mutation("remove", one.owner.workload, one.owner.generation))
        self._tell(one, EventKind.REMOVED)

    def _tell(self, one: Managed, kind: EventKind) -> None:
        for fleet, host, queue in self.followers:
            if (fleet, host) == (one.owner.fleet, one.owner.host):
                queue.put_nowait(Event(one.owner.workload, one.container_id, kind))
