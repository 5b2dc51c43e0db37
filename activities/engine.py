# SPDX-License-Identifier: Apache-2.0
"""What Perdure asks of a container engine.

Every method is safe to call twice, and after a crash at any point of an earlier call. Failures are raised as ``EngineFault``
and as nothing else; the only other exception is ``asyncio.CancelledError``, after which no work of the call goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from perdure.model.faults import Fault
from perdure.model.observation import ContainerState, Health, LastExit, Live, Run
from perdure.model.workload import ContainerSpec, Healthcheck


class EngineFault(Exception):
    """A failure of the engine, classified."""

    def __init__(self, fault: Fault, retry_after: timedelta | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.retry_after = retry_after
        """How long a registry asked us to wait, where it did."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who a container belongs to; written into its labels when it is made, and read back from them."""

    fleet: str
    host: str
    workload: str
    incarnation: str
    generation: int
    spec_hash: str
    """``policy.drift.container_hash`` of the ContainerSpec."""
    restart: str
    """The restart policy and backoff as JSON, for a host that must act alone."""
    manifest: str
    fleet_id: str = ""
    """Of the Temporal namespace: two servers may both have a fleet of one name, and each knows only its own workloads."""

    def is_same_workload(self, other: Ownership) -> bool:
        """Whether both belong to one workload, of whatever life and generation."""
        mine, theirs = ((one.fleet_id, one.fleet, one.host, one.workload) for one in (self, other))
        return mine == theirs


@dataclass(frozen=True, slots=True)
class Managed:
    """One container of ours, as the list shows it."""

    container_id: str
    name: str
    owner: Ownership
    state: ContainerState
    pid: int
    """The main process in the host's pid namespace, 0 where there is none."""
    started_at: datetime | None
    exit: LastExit | None
    health: Health
    stop_timeout: timedelta | None = None
    """Told of one that is stopping: how long it may take by itself. One that needs much longer is stuck."""
    image_digest: str = ""
    being_stopped: bool = False
    """Whether the engine says that somebody stops it, also where its process is gone already."""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull is."""

    done_bytes: int
    total_bytes: int
    """0 while the size is not known."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The image that is now local."""

    image_id: str
    digest: str
    warning: str = ""


class EventKind(StrEnum):
    """What happened to a container, as far as the engine's event stream tells."""

    STARTED = "started"
    ENDED = "ended"
    REMOVED = "removed"
    PAUSED = "paused"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class Event:
    """A hint that something happened to a container of ours. Events get lost: only a list is the truth."""

    workload: str
    container_id: str
    kind: EventKind


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of one run of a healthcheck."""

    healthy: bool
    detail: str = ""
    """The end of what the check printed, without secrets."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The engine behind the socket."""

    name: str
    version: str


class Engine(Protocol):
    """A container engine of one host."""

    async def info(self) -> EngineInfo:
        """Answer at once, or raise EngineUnreachable."""

    async def has_image(self, image: str) -> bool:
        """Whether the image is local."""

    async def pull(self, image: str, on_progress: Callable[[PullProgress], None]) -> Pulled:
        """Fetch the image from its registry, even if it is local. Silence of the registry is bounded by a progress deadline."""

    async def ensure_running(self, name: str, spec: ContainerSpec, owner: Ownership) -> Live:
        """Make this container the only one of its workload that lives, and let it run.

        An equal container (same incarnation and spec hash) is adopted if it runs, started if it does not, made again if it is
        broken. Every other container of the same workload on this host (same fleet, fleet id, host and workload) is stopped and
        removed after the new one was made and before it is started. A container of somebody else is never touched.
        Raises ImageMissing where the image is not local, and Superseded where a newer generation of the same incarnation is
        there already, before anything was changed.
        """

    async def ensure_absent(self, fleet: str, host: str, workload: str, grace: timedelta, *, fleet_id: str = "") -> int:
        """Stop and remove every container of the workload, and the files written for it. Returns how many were removed."""

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """The containers of a fleet of this name, running or not: the truth about the host, by one call."""

    async def exit_of(self, container_id: str) -> LastExit | None:
        """How a container ended; None while it runs or when it is gone."""

    def events(self, fleet: str, host: str) -> AsyncIterator[Event]:
        """What happens to containers of ours from the moment of the first ``anext`` on; ends by EngineFault alone."""

    async def start_again(self, container_id: str) -> Live | None:
        """Start a container that ended or was never started, as it is; None where it cannot be: nothing is made or removed."""

    async def end_run(self, run: Run, grace: timedelta) -> bool:
        """End one run of a container, and leave the container there; False where that run is over already."""

    async def healthcheck_of(self, container_id: str) -> Healthcheck | None:
        """The healthcheck in force, of the manifest or the image; None where there is none, or no such container."""

    async def check_health(self, container_id: str) -> Probe:
        """Run the container's healthcheck once. Raises EngineFault where it could not be run."""

    def logs(
        self, container_id: str, *, follow: bool, tail: int | None, since: datetime | None
    ) -> AsyncIterator[bytes]:
        """The lines of a container's output. A line longer than 64 KiB is cut with a mark."""

    async def close(self) -> None:
        """Let go of connections."""
