# SPDX-License-Identifier: Apache-2.0
"""What clients and hosts tell a workload, and what it answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from perdure.model.base import Model
from perdure.model.faults import Fault, LastError, Phase
from perdure.model.observation import Live
from perdure.model.states import State, Substate
from perdure.model.values import Telling
from perdure.model.workload import WorkloadSpec

MOST_ATTEMPTS: Final = 1_000_000_000
"""More than a workload can make: a larger number was sent by hand, and would be shown, counted and computed with for ever."""


class ApplyRequest(Model):
    """A newer wish of the user. Sent as a signal, so that it is durable at once; ``first_attempt`` tells what became of it."""

    apply_id: Telling
    spec: WorkloadSpec
    manifest: Telling = ""
    revision: int | None = None
    """The user's own number of the manifest; a lower one than accepted is refused as stale."""
    expect_generation: int | None = None
    """Refuse as a conflict unless the workload is at this generation now; 0 means that it must not exist."""
    by: Telling = ""
    """Who applied it, for the history."""


class RetryRequest(Model):
    """Try again now, without starting the curve again."""

    reason: Telling = "asked for"
    attempt: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)] = 0
    """The number of the try that the sender saw, so that the curve goes on from there; 0 where it saw none."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Where set: end the wait between two tries of this generation, and nothing else. What is parked, has ended, or belongs to
    another generation is left alone, and a time limit is not set anew. So a host asks whose news may come late; a person asks
    without it."""


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
    WAITING = "waiting"
    """Accepted; it waits for other workloads before its first attempt."""
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
    """For the outcomes that refuse: why. For what waits: for whom."""


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
    phase: Phase
    attempt: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)]
    """The number of this try on the curve of the generation, counted from 1."""
    fault: Fault | None = None
    fingerprint: Telling = ""
    failures: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)] = 1
    """How many failures this report stands for."""
    at: AwareDatetime
    next_attempt_at: AwareDatetime | None = None


class WaitingOn(Model):
    """The dependencies that are not met, told to the workload that waits for them."""

    turn: int = 0
    """Of the wait: what is told for an earlier one counts no more."""
    unmet: tuple[Telling, ...] = ()
    """In words."""


class HostPresence(Model):
    """Whether a host's worker answers, and whether it has taken up an activity."""

    picked_up: bool
    """The activity was started, or has been tried, or is no longer there."""
    alive: bool
    seen_at: AwareDatetime | None = None
    """The latest sign of life, None where the host was never seen."""
