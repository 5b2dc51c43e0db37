# SPDX-License-Identifier: Apache-2.0
"""What the workflows of a host take to be so, and what contradicts it. Nothing here looks at the host or tells anybody.

There are two kinds of belief: one container of a workload is up, or none of it is to run. A workload of which nothing is believed
is at work (it is pulled, waits, is being removed), and nothing about its containers would be news to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from activities.engine import Managed
from perdure.model.observation import ContainerState, Health, LastExit, Live, Observation
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus

ENDS: Final = (ContainerState.EXITED, ContainerState.DEAD, ContainerState.MISSING, ContainerState.CREATED)
"""A container of these runs no more. A reboot leaves one that ran as if it had just been made."""
_ENDED: Final = ((State.SUCCEEDED, Substate.OK), (State.FAILED, Substate.EXITED))
_IN_WORDS: Final = {
    ContainerState.CREATED: "the container was not started since its host was",
    ContainerState.PAUSED: "the container is paused",
    ContainerState.UNMONITORED: "the container lost its monitor",
    ContainerState.STOPPING: "the container does not come to the end of its stop",
    ContainerState.EXITED: "the container ended",
    ContainerState.DEAD: "the container's process is gone",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a workload's containers that its workflow does not know."""

    container_id: str
    generation: int
    state: ContainerState
    container: Managed | None
    reason: str = ""
    """Where the state does not say it all."""

    @property
    def exit(self) -> LastExit | None:
        """How the container ended, where Podman tells."""
        return self.container.exit if self.container else None

    @property
    def started_at(self) -> datetime | None:
        """When its latest run began."""
        return self.container.started_at if self.container else None

    @property
    def words(self) -> str:
        """For people."""
        code = self.exit.code if self.exit else None
        told = self.reason or _IN_WORDS.get(self.state, self.state.value)
        return told if code is None else f"{told} with code {code}"

    def observation(self, seen_at: datetime) -> Observation:
        """What its workflow is told."""
        return Observation(
            container_id=self.container_id,
            generation=self.generation,
            incarnation=self.container.owner.incarnation if self.container else "",
            state=self.state,
            exit=self.exit,
            health=self.container.health if self.container else Health.NONE,
            started_at=self.started_at,
            seen_at=seen_at,
            reason=self.reason,
        )

    def is_about(self, other: Finding | None) -> bool:
        """Whether the other one tells the same, so that it need not be told again."""
        mine = (self.container_id, self.state, self.started_at)
        return other is not None and mine == (other.container_id, other.state, other.started_at)


@dataclass(frozen=True, slots=True)
class Belief:
    """What a workflow takes to be so."""

    container_id: str = ""
    """The container that is up; empty where none is to run."""
    generation: int = 0
    started_at: datetime | None = None
    pid: int = 0
    """Of the run that is believed in, where it is known."""
    told: Finding | None = None
    """What the workflow was told last, and does not contradict the belief any more."""

    @property
    def is_up(self) -> bool:
        """Whether a container is to be up."""
        return bool(self.container_id)

    def is_same_run(self, other: Belief) -> bool:
        """Whether both believe in the same run of the same container, as far as can be told."""
        if (self.container_id, self.generation) != (other.container_id, other.generation):
            return False
        return not (self.pid and other.pid) or self.pid == other.pid

    @classmethod
    def of_live(cls, live: Live) -> Belief:
        """A container that a start has answered, or a memo names."""
        return cls(live.container_id, live.generation, live.started_at, live.pid)

    @classmethod
    def of_run(cls, container: Managed) -> Belief:
        """A container that runs."""
        return cls(container.container_id, container.owner.generation, container.started_at, container.pid)

    def confirmed(self, found: Sequence[Managed]) -> Belief:
        """The same with the process that the list tells, where no start has told it: the next run will have another."""
        own = next((one for one in found if one.container_id == self.container_id), None)
        return self if own is None or self.pid else replace(self, pid=own.pid, started_at=own.started_at)

    def after(self, finding: Finding) -> Belief:
        """What a workflow takes to be so once it was told."""
        if finding.state in ENDS:
            return Belief()
        is_own = finding.container_id == self.container_id
        if finding.state is ContainerState.RUNNING and finding.container and (is_own or not self.is_up):
            return Belief.of_run(finding.container)
        return replace(self, told=finding)


def belief_of(status: WorkloadStatus, found: Sequence[Managed]) -> Belief | None:
    """What a workflow believes, by its memo; None where it is at work, and nothing of it runs.

    A memo may be a moment behind: a container of this very incarnation that runs, and of which the memo does not know yet,
    was started by us. Its end will be news.
    """
    if status.live is not None:
        return Belief.of_live(status.live)
    if (status.state, status.substate) in _ENDED:
        return Belief()
    runs = [one for one in found if one.state is ContainerState.RUNNING and one.owner.incarnation == status.incarnation]
    return Belief.of_run(max(runs, key=lambda one: one.owner.generation)) if runs else None


def contradiction(belief: Belief, found: Sequence[Managed]) -> Finding | None:
    """What the containers of a workload say against a belief; None where they agree, or say what was told before."""
    finding = _against_up(belief, found) if belief.is_up else _against_ended(found)
    return None if finding is None or finding.is_about(belief.told) else finding


def _against_up(belief: Belief, found: Sequence[Managed]) -> Finding | None:
    own = next((one for one in found if one.container_id == belief.container_id), None)
    others = [one for one in found if one is not own and one.state is ContainerState.RUNNING]
    if own is None:
        reason = "the container is missing" + (", and another one runs in its place" if others else "")
        return Finding(belief.container_id, belief.generation, ContainerState.MISSING, None, reason)
    if own.state is ContainerState.MISSING:
        return Finding(
            belief.container_id, belief.generation, own.state, own, "the container is being removed on its host"
        )
    if own.state is not ContainerState.RUNNING:
        return Finding(belief.container_id, belief.generation, own.state, own)
    if _is_another_run(own, belief):
        reason = "the container was started anew on its host"
        return Finding(belief.container_id, belief.generation, ContainerState.RUNNING, own, reason)
    for other in others:
        return _running(other, "another container of the workload runs as well")
    return None


def _against_ended(found: Sequence[Managed]) -> Finding | None:
    for one in found:
        if one.state is ContainerState.RUNNING:
            return _running(one, "a container of the workload runs again")
    return None


def _running(container: Managed, reason: str) -> Finding:
    owner = container.owner
    return Finding(container.container_id, owner.generation, ContainerState.RUNNING, container, reason)


def _is_another_run(own: Managed, belief: Belief) -> bool:
    """By its process, where both are known; else by the time of its start, of which Podman's list knows whole seconds only."""
    if belief.pid and own.pid:
        return own.pid != belief.pid
    if belief.started_at is None or own.started_at is None:
        return False
    return own.started_at.replace(microsecond=0) > belief.started_at.replace(microsecond=0)


class Companion(Protocol):
    """Who does something about every container that is believed to be up, for as long as it is."""

    def up(self, workload: str, container_id: str, generation: int) -> None:
        """A container is up, or up again."""

    def down(self, workload: str, container_id: str) -> None:
        """It is up no more, or nobody believes so any more."""


class Beliefs:
    """What is believed of each workload of a host."""

    def __init__(self, companions: Sequence[Companion] = ()) -> None:
        self._companions = companions
        self._held: dict[str, Belief] = {}
        self._changed: set[str] = set()
        """Since the latest resync began to look around."""

    def of(self, workload: str) -> Belief | None:
        """What is believed of a workload."""
        return self._held.get(workload)

    def all(self) -> dict[str, Belief]:
        """All of it, as it is now."""
        return dict(self._held)

    def change(self, workload: str, belief: Belief | None) -> None:
        """Something was done or told: believe this from now on, or nothing."""
        self._changed.add(workload)
        self._take(workload, belief)

    def confirm(self, workload: str, found: Sequence[Managed]) -> None:
        """A look agrees with what is believed, and may tell more of it."""
        if (belief := self._held.get(workload)) is not None:
            self._held[workload] = belief.confirmed(found)

    def doubt(self) -> None:
        """A resync begins: only what changes from here on is newer than what it will find."""
        self._changed.clear()

    def replace(self, found: Mapping[str, Belief]) -> None:
        """Drop everything, and believe what a resync has found; but for what has changed since it began."""
        for workload in (self._held.keys() | found.keys()) - self._changed:
            self._take(workload, found.get(workload))

    def _take(self, workload: str, belief: Belief | None) -> None:
        before = self._held.pop(workload, None)
        if belief is not None:
            self._held[workload] = belief
        was, is_now = before or Belief(), belief or Belief()
        if was.is_same_run(is_now):
            return
        for companion in self._companions:
            if was.is_up and was.container_id != is_now.container_id:
                companion.down(workload, was.container_id)
            if is_now.is_up:
                companion.up(workload, is_now.container_id, is_now.generation)
