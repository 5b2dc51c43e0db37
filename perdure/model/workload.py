# SPDX-License-Identifier: Apache-2.0
"""What a manifest says of one workload on one host, in normal form: short forms are expanded, defaults are filled in.

This is what goes over the wire and what ``policy.drift`` compares. The forms that a user may write, and their errors, are in
``perdure.model.manifest``.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from perdure.model.base import Model
from perdure.model.values import Duration


class PullPolicy(StrEnum):
    """When the image is fetched."""

    MISSING = "missing"
    ALWAYS = "always"
    NEWER = "newer"
    NEVER = "never"


class RestartPolicy(StrEnum):
    """What to do when the container ends by itself."""

    ALWAYS = "always"
    ON_FAILURE = "onFailure"
    NEVER = "never"


class DependencyCondition(StrEnum):
    """How far another workload must be before one that depends on it is started."""

    RUNNING = "running"
    HEALTHY = "healthy"
    """Running, and its healthcheck says so."""
    SUCCEEDED = "succeeded"
    """It ran to its end, with exit code 0."""
    FAILED = "failed"
    """It ended otherwise, or was parked."""


class PortMapping(Model):
    """One published port."""

    container: int
    host: int
    protocol: Literal["tcp", "udp", "sctp"] = "tcp"
    ip: str = ""
    """The host's address to bind, empty for all."""


class BindMount(Model):
    """A file or directory of the host. It is never created by Perdure."""

    type: Literal["bind"] = "bind"
    source: str
    target: str
    read_only: bool = False
    relabel: Literal["", "shared", "private"] = ""


class VolumeMount(Model):
    """A named Podman volume, made when it is missing and kept when the workload goes."""

    type: Literal["volume"] = "volume"
    source: str
    target: str
    read_only: bool = False


class TmpfsMount(Model):
    """Memory that is lost with the container."""

    type: Literal["tmpfs"] = "tmpfs"
    target: str
    size: int | None = None
    """Bytes."""
    mode: int | None = None
    """Permission bits."""


Mount = BindMount | VolumeMount | TmpfsMount
"""Something put into the container's file system; ``type`` tells which."""


class File(Model):
    """A file written on the host by the worker and mounted read-only."""

    path: str
    content: str
    mode: int = 0o644


class SecretMount(Model):
    """A Podman secret, by name, shown to the container as a file or as a variable; its value never passes through Perdure."""

    name: str
    target: str = ""
    """The file in the container; empty means /run/secrets/NAME."""
    env: str = ""
    """The environment variable; if set there is no file."""


class Resources(Model):
    """Limits of one container."""

    memory: int | None = None
    """Bytes."""
    cpus: float | None = None
    pids: int | None = None


class Ulimit(Model):
    """One resource limit of the processes in the container."""

    soft: int
    hard: int


class Healthcheck(Model):
    """A command that tells whether the container does its work."""

    test: tuple[str, ...]
    """``("CMD", ...)`` or ``("CMD-SHELL", "...")`` or ``("NONE",)``."""
    interval: Duration = timedelta(seconds=30)
    timeout: Duration = timedelta(seconds=30)
    retries: int = 3
    start_period: Duration = timedelta(0)


class StopOptions(Model):
    """How the container is asked to end."""

    signal: str = "SIGTERM"
    timeout: Duration = timedelta(seconds=10)


class RestartBackoff(Model):
    """The waits between restarts of a container that ends by itself."""

    initial: Duration = timedelta(seconds=1)
    maximum: Duration = timedelta(seconds=300)
    reset_after: Duration = timedelta(minutes=10)
    """A run of this length starts the curve again."""
    limit: int | None = None
    """How many restarts in a row are made before the workload counts as failed; None is without end."""


class Retry(Model):
    """The waits between tries of a step that fails."""

    initial_interval: Duration = timedelta(milliseconds=500)
    maximum_interval: Duration = timedelta(seconds=300)
    give_up_after: Duration | None = None
    """The total time after which the workload is parked; None tries for ever, or as long as the central setting says."""


class ContainerSpec(Model):
    """What makes the container. A change here makes a new generation that replaces the container."""

    image: str
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    ports: tuple[PortMapping, ...] = ()
    mounts: tuple[Annotated[Mount, Field(discriminator="type")], ...] = ()
    files: tuple[File, ...] = ()
    secrets: tuple[SecretMount, ...] = ()
    networks: tuple[str, ...] = ()
    """Empty for Podman's default network; ``("host",)`` and ``("none",)`` are the network modes."""
    user: str = ""
    working_dir: str = ""
    hostname: str = ""
    init: bool = False
    read_only: bool = False
    privileged: bool = False
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    ulimits: dict[str, Ulimit] = Field(default_factory=dict)
    sysctls: dict[str, str] = Field(default_factory=dict)
    extra_hosts: dict[str, str] = Field(default_factory=dict)
    dns: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Resources()
    healthcheck: Healthcheck | None = None
    stop: StopOptions = StopOptions()


class WorkloadSpec(Model):
    """All that a manifest says of one workload on one host.

    Everything outside ``container`` takes effect without touching the container.
    """

    container: ContainerSpec
    pull_policy: PullPolicy = PullPolicy.MISSING
    restart: RestartPolicy = RestartPolicy.ALWAYS
    restart_backoff: RestartBackoff = RestartBackoff()
    retry: Retry = Retry()
    restart_unhealthy: bool = False
    """Whether a container whose healthcheck fails is restarted."""
    depends_on: dict[str, DependencyCondition] = Field(default_factory=dict)
    """What must be there before it is started, by ``HOST/NAME``."""
    tags: dict[str, str] = Field(default_factory=dict)
