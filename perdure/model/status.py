# SPDX-License-Identifier: Apache-2.0
"""The status of one workload: what a user asks for, and gets without a lie."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from perdure.model.base import Model
from perdure.model.faults import LastError
from perdure.model.observation import LastExit, Live
from perdure.model.states import State, Substate
from perdure.model.workload import DependencyCondition

HISTORY_LENGTH = 30
"""How many transitions a status keeps."""


class Transition(Model):
    """One change of state or substate."""

    at: AwareDatetime
    state: State
    substate: Substate
    generation: int
    reason: str = ""


class WorkloadStatus(Model):
    """Everything about one workload; the keys that matter most come first, as the Web UI shows them in this order."""

    state: State
    substate: Substate
    last_error: LastError | None = None
    host: str
    name: str
    manifest: str = ""
    image: str = ""
    generation: int = 0
    """The latest accepted generation; 0 before the first."""
    revision: int | None = None
    spec_hash: str = ""
    container_hash: str = ""
    """Of the part of the spec that makes the container: an apply with another one replaces it."""
    since: AwareDatetime
    """When the state and substate were entered."""
    attempt: int = 0
    """The number of the latest failed try of the present step that was reported, 0 where there is none."""
    next_attempt_at: AwareDatetime | None = None
    give_up_at: AwareDatetime | None = None
    live: Live | None = None
    last_exit: LastExit | None = None
    restarts: int = 0
    paused: bool = False
    host_seen_at: AwareDatetime | None = None
    host_lost_at: AwareDatetime | None = None
    """Since when its host does not answer, also where that does not change what is shown."""
    last_known: str = ""
    """Where Unknown is shown: what it was when its host was heard last, for example "Running/Ok"."""
    waiting_on: tuple[str, ...] = ()
    """What it waits for before its start, in words."""
    depends_on: dict[str, DependencyCondition] = Field(default_factory=dict)
    incarnation: str = ""
    warning: str = ""
    """Something that did not stop the workload but that a user should know, for example an image that could not be refreshed."""
    history: tuple[Transition, ...] = ()
