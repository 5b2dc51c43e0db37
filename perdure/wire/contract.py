# SPDX-License-Identifier: Apache-2.0
"""Where workflows, activities and clients meet: the payloads and the typed stubs of activities."""

from __future__ import annotations

from typing import Never

from pydantic import AwareDatetime
from temporalio import activity

from perdure.model.base import Model
from perdure.model.host import HostChange, ResyncReason, ResyncReport
from perdure.model.messages import HostPresence
from perdure.model.observation import LastExit, Live, Run
from perdure.model.values import Duration
from perdure.model.workload import DependencyCondition, PullPolicy, Retry, WorkloadSpec
from perdure.wire import names

# ---- workflow -> activities ----


class Ticket(Model):
    """What every activity of a host is told of the work it belongs to, so that what is stale can be refused there."""

    host: str
    name: str
    incarnation: str
    generation: int
    retry: Retry = Retry()
    attempts_before: int = 0
    """Tries of this step that were made before this activity was scheduled; its own are counted on top."""


class PullRequest(Model):
    """Fetch an image."""

    ticket: Ticket
    image: str
    policy: PullPolicy = PullPolicy.MISSING


class PullResult(Model):
    """The image that is local now."""

    image_id: str
    digest: str
    warning: str = ""


class EnsureRequest(Model):
    """Make the container of this generation run."""

    ticket: Ticket
    manifest: str = ""
    spec: WorkloadSpec
    spec_hash: str
    unwanted_run: Run | None = None
    """A run of the container that is to be ended first, though the container is the right one: its healthcheck fails."""


class EnsureResult(Model):
    """What runs now, or that a pull is due first."""

    live: Live | None
    """None where the image is missing on the host."""
    ended: LastExit | None = None
    """How the run ended that was not wanted any more."""


class StopRequest(Model):
    """Remove every container of the workload."""

    ticket: Ticket
    grace: Duration


class StopResult(Model):
    """How many containers were removed."""

    removed: int


class PresenceRequest(Model):
    """Ask where the work of a host stands."""

    host: str
    workflow_id: str
    activity_id: str


class CentralDefaults(Model):
    """Settings of the control worker that hold where a manifest is silent."""

    give_up_after: Duration | None = None


class DependenciesRequest(Model):
    """Wait until other workloads are as far as a workload needs them."""

    ticket: Ticket
    depends_on: dict[str, DependencyCondition]
    """By ``HOST/NAME``."""
    turn: int = 0
    """Of the record that asks; what is told bears it."""


class SuperviseRequest(Model):
    """Tell the host's workflow that its worker is there, for as long as it is."""

    host: str


class SuperviseResult(Model):
    """Why supervision ended in peace."""

    reason: str


class ResyncRequest(Model):
    """Drop what is believed of a host, and look again."""

    host: str
    reason: ResyncReason = ResyncReason.ASKED


class TellRequest(Model):
    """Tell all workloads of a host what became of it."""

    host: str
    change: HostChange


class TellResult(Model):
    """How many workloads were told."""

    told: int


# ---- an activity -> the server, by heartbeat ----


class SuperviseNote(Model):
    """What a supervising worker tells with each heartbeat; it costs no history."""

    detail: str = ""
    """For people, for example "11 containers are up; resync 40 s ago"."""
    resync: ResyncReport | None = None
    """The latest one, with or without news."""
    at: AwareDatetime | None = None
    """When this was written: the host's latest sign of life, once its heartbeats stop."""


# ---- an activity -> its own next try ----


class AttemptNote(Model):
    """What an activity leaves for its own next try, in its heartbeat details. The Web UI shows it, the first field first."""

    detail: str = ""
    """Progress for people, for example "34 of 156 MiB"."""
    fingerprint: str = ""
    """Of the error that was reported last."""
    reported_at: AwareDatetime | None = None
    repeats: int = 0
    """How often the same error was reported again."""
    unreported: int = 0
    """Failures since the last report."""
    burnt: int = 0
    """Tries that ended because a worker was shut down: they do not count on the curve."""


def _stub() -> Never:
    raise RuntimeError("a stub: the activity is implemented by a worker")


@activity.defn(name=names.ENSURE)
async def ensure(request: EnsureRequest) -> EnsureResult:
    """Make the container of a generation run; answers live=None where the image must be pulled first."""
    _stub()


@activity.defn(name=names.PULL)
async def pull(request: PullRequest) -> PullResult:
    """Fetch an image."""
    _stub()


@activity.defn(name=names.STOP)
async def stop(request: StopRequest) -> StopResult:
    """Remove every container of a workload."""
    _stub()


@activity.defn(name=names.SUPERVISE)
async def supervise(request: SuperviseRequest) -> SuperviseResult:
    """Be there: ends when the worker is shut down or another supervision begins; silence means that the host is lost."""
    _stub()


@activity.defn(name=names.RESYNC)
async def resync(request: ResyncRequest) -> ResyncReport:
    """Drop all beliefs about a host and look again."""
    _stub()


@activity.defn(name=names.TELL_WORKLOADS)
async def tell_workloads(request: TellRequest) -> TellResult:
    """Tell the workloads of a host that it was lost, or is back."""
    _stub()


@activity.defn(name=names.DEPENDENCIES)
async def dependencies(request: DependenciesRequest) -> None:
    """Return when all dependencies are met; signals ``waiting_on`` whenever those that are not met change."""
    _stub()


@activity.defn(name=names.HOST_PRESENCE)
async def host_presence(request: PresenceRequest) -> HostPresence:
    """Tell whether a host's worker answers."""
    _stub()


@activity.defn(name=names.CENTRAL_DEFAULTS)
async def central_defaults() -> CentralDefaults:
    """Read the settings of the control worker."""
    _stub()
