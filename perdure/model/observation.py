# SPDX-License-Identifier: Apache-2.0
"""What was seen on a host: facts about one container, never decisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from perdure.model.base import Model
from perdure.model.values import Telling

MOST_RESTARTS: Final = 1_000_000_000
"""More than a host can make: a larger number, or one below zero, was sent by hand."""


class ContainerState(StrEnum):
    """A container as it really is, which is not always what Podman calls it."""

    CREATED = "created"
    """It has not run since its host was started."""
    RUNNING = "running"
    PAUSED = "paused"
    UNMONITORED = "unmonitored"
    """Its process runs, but Podman's monitor of it is gone: its output is lost, and nobody will learn how it ends."""
    STOPPING = "stopping"
    """Somebody stops it, or that was broken off. It is observed only where it takes much longer than it may."""
    EXITED = "exited"
    DEAD = "dead"
    """Its process is gone, and Podman has not noticed: nobody knows how it ended."""
    MISSING = "missing"
    """It is not there any more, or its removal was begun."""


class Health(StrEnum):
    """What the last healthcheck said."""

    NONE = "none"
    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class LastExit(Model):
    """How a container ended."""

    code: int | None = None
    """The exit code, or None where the container vanished before it could be read."""
    signal: Telling | None = None
    """The signal's name where the code is above 128, for example SIGKILL."""
    oom: bool = False
    """True where Podman says that the kernel ended it for want of memory."""
    at: AwareDatetime | None = None


class Live(Model):
    """The container that is really up."""

    generation: int
    container_id: str
    image_digest: str = ""
    started_at: AwareDatetime | None = None
    health: Health = Health.NONE
    pid: int = Field(default=0, exclude=True)
    """The main process in the host's pid namespace, 0 where it has ended. Of use on the host alone, so it is never sent."""


class Run(Model):
    """One run of a container, from its start to its end."""

    container_id: str
    started_at: AwareDatetime | None = None


class Observation(Model):
    """One thing that a host saw happen to a container of a workload."""

    container_id: Telling
    generation: int
    incarnation: Telling = ""
    """By the container's label; empty where there is no container to read it from."""
    state: ContainerState
    exit: LastExit | None = None
    health: Health = Health.NONE
    started_at: AwareDatetime | None = None
    seen_at: AwareDatetime
    restarts: Annotated[int, Field(ge=0, le=MOST_RESTARTS)] = 0
    """How often the host restarted it by itself while Temporal was away; ``exit`` then is how its run before ended."""
    reason: Telling = ""
    """Short cause for the history, for example "died" or "removed by hand"."""
