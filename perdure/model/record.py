# SPDX-License-Identifier: Apache-2.0
"""All that the workflow of one workload remembers; carried as it is from run to run.

Temporal stores it: a field may be added with a default, none may be renamed or given another meaning.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import AwareDatetime, Field

from perdure.model.base import Model
from perdure.model.faults import LastError
from perdure.model.messages import ApplyRequest, Outcome
from perdure.model.observation import LastExit, Live, Observation, Run
from perdure.model.states import State, Substate
from perdure.model.status import Transition, WorkloadStatus
from perdure.model.values import Duration
from perdure.model.workload import WorkloadSpec

_SURE = (Substate.INITIAL, Substate.WAITING_FOR_HOST, Substate.WAITING_FOR_DEPENDENCIES)
"""In these nothing is under way on the host, so it is as well known without the host."""


class Course(StrEnum):
    """Where the workload is on its way: what is to be done next, if nothing stands against it."""

    UNBORN = "unborn"
    """No spec was accepted yet."""
    START = "start"
    """Its container is to be made to run."""
    PULL = "pull"
    """Its image is to be fetched."""
    DEPENDENCIES = "dependencies"
    """Other workloads are to be waited for."""
    UP = "up"
    """Its container runs, as far as is known."""
    ENDED = "ended"
    """Its container ended, and policy lets it be."""
    PARKED = "parked"
    """Nothing is tried until something changes."""
    GONE = "gone"
    """Nothing of it is left."""


class Applied(Model):
    """What became of one apply so far."""

    generation: int
    verdict: Outcome | None = None
    """Set where the answer was known when it was accepted; else the generation's course tells."""
    message: str = ""


class Record(Model):
    """The memory of a workload. Never changed in place: the functions of ``perdure.policy`` answer each event with a new one."""

    host: str
    name: str
    incarnation: str

    # what is wanted
    spec: WorkloadSpec | None = None
    manifest: str = ""
    revision: int | None = None
    generation: int = 0
    container_generation: int = 0
    """The generation that last changed the container: attempts, containers and fences carry this one."""
    paused: bool = False
    before_pause: Transition | None = None
    removing: bool = False
    successor: ApplyRequest | None = None
    """An apply that came while the workload was being removed: it begins the next incarnation."""
    applies: dict[str, Applied] = Field(default_factory=dict)
    """The latest applies by their id, oldest first."""
    forgot_applies: bool = False
    """Whether there were more of them in this life than are remembered."""

    # how far it is
    course: Course = Course.UNBORN
    parked_from: Course = Course.START
    """The course to take up again when it is parked no more."""
    turn: int = 0
    """Grows with every event after which work in flight is of no use any more."""
    attempts_before: int = 0
    """Tries of the present step that are behind us."""
    resume_at: AwareDatetime | None = None
    """Nothing is begun before this time: the rest of a wait between tries, or of the wait before a restart."""
    fetched: bool = False
    """This generation's image was fetched, where its policy asks for that."""
    refetches: int = 0
    """How often in a row the image was gone again after it had been fetched."""
    give_up_at: AwareDatetime | None = None
    central_give_up_after: Duration | None = None

    # what is known
    state: State = State.PENDING
    substate: Substate = Substate.INITIAL
    since: AwareDatetime
    attempt: int = 0
    next_attempt_at: AwareDatetime | None = None
    last_error: LastError | None = None
    last_fingerprint: str = ""
    live: Live | None = None
    ended_early: Observation | None = None
    """The end of a container, told before the attempt that started it was done: a host's news may overtake its answer."""
    last_exit: LastExit | None = None
    restarts: int = 0
    crashes: int = 0
    """Restarts in a row on the present restart curve."""
    host_seen_at: AwareDatetime | None = None
    host_lost_at: AwareDatetime | None = None
    """Since when its host does not answer. The state is then what was last known; where that may be false, Unknown is shown."""
    host_told_at: AwareDatetime | None = None
    """The time of the latest change that the workflow of its host told."""
    waiting_on: tuple[str, ...] = ()
    """The dependencies that are not met, in words, for example "edge-1/db is Pending/Pulling, wanted: running"."""
    dependencies_met: bool = False
    """For this generation. Only its first start waits for others, no restart."""
    has_run: bool = False
    """Whether the container of this generation was started once."""
    unwanted_run: Run | None = None
    """A run of the container that is to be ended before the next start."""
    warning: str = ""
    history: tuple[Transition, ...] = ()

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed. Raises KeyError for a field that it does not have."""
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            raise KeyError(f"a record has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)

    @property
    def shown(self) -> tuple[State, Substate, AwareDatetime]:
        """State, substate and since when, as they are told to the world: Unknown where a lost host makes them unsure."""
        unsure = self.state is State.RUNNING or (self.state is State.PENDING and self.substate not in _SURE)
        if self.host_lost_at is not None and unsure:
            return State.UNKNOWN, Substate.HOST_LOST, self.host_lost_at
        return self.state, self.substate, self.since

    @property
    def failing(self) -> bool:
        """Whether a try of the present step has failed and none has succeeded since."""
        return self.substate in (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.STOP_BACKOFF)

    @property
    def give_up_after(self) -> timedelta | None:
        """The time limit in force: the manifest's, else the central one."""
        own = self.spec.retry.give_up_after if self.spec else None
        return own if own is not None else self.central_give_up_after

    def status(self, spec_hash: str, container_hash: str = "") -> WorkloadStatus:
        """What is told of it to the world."""
        state, substate, since = self.shown
        return WorkloadStatus(
            state=state,
            substate=substate,
            last_error=self.last_error,
            host=self.host,
            name=self.name,
            manifest=self.manifest,
            image=self.spec.container.image if self.spec else "",
            generation=self.generation,
            revision=self.revision,
            spec_hash=spec_hash,
            container_hash=container_hash,
            since=since,
            last_known=f"{self.state}/{self.substate}" if state is State.UNKNOWN else "",
            attempt=self.attempt,
            next_attempt_at=self.next_attempt_at,
            give_up_at=self.give_up_at,
            live=self.live,
            last_exit=self.last_exit,
            restarts=self.restarts,
            paused=self.paused,
            host_seen_at=self.host_seen_at,
            host_lost_at=self.host_lost_at,
            waiting_on=self.waiting_on,
            depends_on=self.spec.depends_on if self.spec else {},
            incarnation=self.incarnation,
            warning=self.warning,
            history=self.history,
        )
