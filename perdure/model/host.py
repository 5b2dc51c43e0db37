# SPDX-License-Identifier: Apache-2.0
"""What is known of a host: whether its worker answers, what that worker is, and what its latest full resync found."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime

from perdure.model.base import Model
from perdure.model.values import Duration, Telling

HISTORY_LENGTH = 30
"""How many changes of its state a host's status keeps."""
DIFFERENCES_SHOWN = 50
"""How many differences a resync report names; the others are counted."""


class HostState(StrEnum):
    """Whether a host can be believed."""

    WAITING = "Waiting"
    """Its worker was started and has not looked around yet."""
    READY = "Ready"
    """Its worker answers: what its workloads show is what runs."""
    LOST = "Lost"
    """Its worker does not answer: what runs there now is not known."""
    NEVER_SEEN = "NeverSeen"
    """No worker ever served it; workloads name it. Only clients say so: such a host has no workflow."""


class ResyncReason(StrEnum):
    """Why a host dropped what it believed, and looked again."""

    START = "start"
    RECONNECT = "reconnect"
    """Podman or Temporal was away, and answers again."""
    PERIODIC = "periodic"
    ASKED = "asked"


class Difference(Model):
    """One thing that a resync found to be other than believed."""

    workload: Telling
    found: Telling
    """In words, for example "the container is missing"."""
    done: Telling
    """What was done about it, for example "its workload was told"."""


class ResyncReport(Model):
    """What a full resync of a host found and did."""

    at: AwareDatetime
    reason: ResyncReason
    took: Duration
    containers: int
    """Containers of this fleet and host that Podman has, running or not."""
    workloads: int
    """Workloads that should be on the host."""
    differences: Annotated[tuple[Difference, ...], AfterValidator(lambda found: found[:DIFFERENCES_SHOWN])] = ()
    more_differences: int = 0
    """Those beyond ``DIFFERENCES_SHOWN``."""
    orphans: int = 0
    """Workloads without a wish whose containers are removed after a second look."""
    strangers: int = 0
    """Containers of another Temporal server's fleet of this name; they are left alone."""


class WorkerInfo(Model):
    """The worker process that serves a host."""

    identity: Telling
    """For example ``host/edge-1@812``."""
    version: Telling
    engine: Telling = ""
    engine_version: Telling = ""
    started_at: AwareDatetime


class HostSign(Model):
    """What the worker of a host tells the host's workflow when it takes up supervision, and after a resync with news."""

    worker: WorkerInfo
    resync: ResyncReport | None = None


class HostTransition(Model):
    """One change of a host's state."""

    at: AwareDatetime
    state: HostState
    reason: str = ""


class HostStatus(Model):
    """Everything that the workflow of a host knows."""

    host: str
    state: HostState = HostState.WAITING
    since: AwareDatetime
    seen_at: AwareDatetime | None = None
    """The latest sign of life that the workflow knows of. While the state is Ready the server knows a later one."""
    worker: WorkerInfo | None = None
    last_resync: ResyncReport | None = None
    """The latest one that is known here; the worker's heartbeat tells of those without news."""
    last_differences: ResyncReport | None = None
    """The latest one that found something to differ."""
    history: tuple[HostTransition, ...] = ()


class HostChange(Model):
    """What a workload is told when its host was lost, or is back."""

    lost: bool
    at: AwareDatetime | None = None
    """When that was found out: of two that overtake each other, the later one holds."""
    seen_at: AwareDatetime | None = None
    """The host's latest sign of life."""
    reason: Telling = ""
