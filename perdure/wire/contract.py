# SPDX-License-Identifier: Apache-2.0
"""Where workflows, activities and clients meet: the payloads and the typed stubs of activities."""

from __future__ import annotations

from enum import StrEnum
from typing import Never

from pydantic import AwareDatetime
from temporalio import activity

from perdure.model.base import Model
from perdure.model.faults import Fault, LastError
from perdure.model.observation import Live
from perdure.model.states import State, Substate
from perdure.model.values import Duration
from perdure.model.workload import ContainerSpec, PullPolicy, Retry, WorkloadSpec
from perdure.wire import names

# ---- client -> workflow ----


class ApplyRequest(Model):
    """A newer wish of the user. Sent as a signal, so that it is durable at once; ``first_attempt`` tells what became of it."""

    apply_id: str
    spec: WorkloadSpec
    manifest: str = ""
    revision: int | None = None
    """The user's own number of the manifest; a lower one than accepted is refused as stale."""
    expect_generation: int | None = None
    """Refuse as a conflict unless the workload is at this generation now; 0 means that it must not exist."""
    by: str = ""
    """Who applied it, for the history."""


class RetryRequest(Model):
    """Try again now, without starting the curve again."""

    reason: str = "asked for"
    attempt: int = 0
    """The number of the try that the sender saw, so that the curve goes on from there; 0 where it saw none."""


class Outcome(StrEnum):
    """What became of an apply."""

    RUNNING = "running"
    """Its container runs (or has run to its end)."""
    RETRYING = "retrying"
    """Its first attempt failed; it is tried again for ever, or until its time limit."""
    REJECTED = "rejected"
    """Its first attempt met a permanent fault; parked."""
    GAVE_UP = "gaveUp"
    """Its time limit passed; parked."""
    UNCHANGED = "unchanged"
    """The spec is the one already accepted; nothing was done."""
    UPDATED = "updated"
    """Only settings changed: they are in effect, the container was not touched."""
    STALE = "stale"
    """A newer revision was accepted before."""
    CONFLICT = "conflict"
    """The workload is not at the expected generation."""
    SUPERSEDED = "superseded"
    """A newer apply took its place before its first attempt ended."""
    REMOVED = "removed"
    """The workload was removed meanwhile."""
    PAUSED = "paused"
    """Accepted; it takes effect when the workload is resumed."""
    NO_WORKER = "noWorker"
    """Accepted; no worker serves its host now. It takes effect when one comes."""
    MOVED = "moved"
    """The run of the workflow changed while waiting: ask again (clients do so by themselves)."""


class AttemptOutcome(Model):
    """The answer of ``first_attempt``."""

    outcome: Outcome
    generation: int = 0
    state: State = State.PENDING
    substate: Substate = Substate.INITIAL
    error: LastError | None = None
    live: Live | None = None
    message: str = ""
    """For the outcomes that refuse: why."""


# ---- workflow -> activities ----


class StepRequest(Model):
    """What every activity of a host is told, so that a stale attempt can be refused there."""

    host: str
    name: str
    incarnation: str
    generation: int
    retry: Retry = Retry()
    attempts_before: int = 0
    """Tries of this step that were made before this activity was scheduled; its own are counted on top."""
    reported: str = ""
    """Fingerprint of the error that the workflow knows already."""


class PullRequest(StepRequest):
    """Fetch an image."""

    image: str
    policy: PullPolicy = PullPolicy.MISSING


class PullResult(Model):
    """The image that is local now."""

    image_id: str
    digest: str
    warning: str = ""


class EnsureRequest(StepRequest):
    """Make the container of this generation run."""

    manifest: str = ""
    spec: WorkloadSpec
    spec_hash: str


class EnsureResult(Model):
    """What runs now, or that a pull is due first."""

    live: Live | None
    """None where the image is missing on the host."""
    warning: str = ""


class StopRequest(StepRequest):
    """Remove every container of the workload."""

    grace: Duration


class StopResult(Model):
    """How many containers were removed."""

    removed: int


class PresenceRequest(Model):
    """Ask where the work of a host stands."""

    host: str
    workflow_id: str
    activity_id: str


class HostPresence(Model):
    """Whether a host's worker answers, and whether it has taken up an activity."""

    picked_up: bool
    """The activity was started, or has been tried, or is no longer there."""
    alive: bool
    seen_at: AwareDatetime | None = None
    """The latest sign of life, None where the host was never seen."""


class CentralDefaults(Model):
    """Settings of the control worker that hold where a manifest is silent."""

    give_up_after: Duration | None = None


# ---- activities -> workflow ----


class ReportKind(StrEnum):
    """What an activity reports while it goes on."""

    FAILED = "failed"
    """A try failed and there will be another."""
    PICKED_UP = "pickedUp"
    """A host took up work that had waited for it."""


class AttemptReport(Model):
    """A sign of an activity to its workflow, sent only when something changed, and at least every hour of an outage."""

    kind: ReportKind
    generation: int
    activity_id: str
    attempt: int
    """The number of this try on the curve of the generation, counted from 1."""
    fault: Fault | None = None
    fingerprint: str = ""
    failures: int = 1
    """How many failures this report stands for."""
    at: AwareDatetime
    next_attempt_at: AwareDatetime | None = None


class AttemptNote(Model):
    """What an activity leaves for its own next try, in its heartbeat details."""

    fingerprint: str = ""
    """Of the error that was reported last."""
    reported_at: AwareDatetime | None = None
    unreported: int = 0
    """Failures since the last report."""
    burnt: int = 0
    """Tries that ended because a worker was shut down: they do not count on the curve."""
    detail: str = ""
    """Progress for people, for example "34 of 156 MiB"."""


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


@activity.defn(name=names.HOST_PRESENCE)
async def host_presence(request: PresenceRequest) -> HostPresence:
    """Tell whether a host's worker answers."""
    _stub()


@activity.defn(name=names.CENTRAL_DEFAULTS)
async def central_defaults() -> CentralDefaults:
    """Read the settings of the control worker."""
    _stub()
