# SPDX-License-Identifier: Apache-2.0
"""What must hold in every case, as functions of what was seen. Each returns what contradicts the promise, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.model.states import SUBSTATES, State, Substate
from perdure.model.status import WorkloadStatus

CAP = timedelta(seconds=300)
"""No wait between two tries is longer, whatever a manifest says."""
ROUNDING = timedelta(milliseconds=2)
FAILING = (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.STOP_BACKOFF, Substate.REJECTED, Substate.GAVE_UP)


@dataclass(frozen=True, slots=True)
class Mutation:
    """Podman made or started a container of ours."""

    at: datetime
    what: str
    workload: str
    incarnation: str
    generation: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """A generation of a container was wanted from this time on."""

    at: datetime
    workload: str
    incarnation: str
    generation: int


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait between two tries."""

    workload: str
    lasts: timedelta
    base: timedelta
    cap: timedelta
    told_by: str


@dataclass(frozen=True, slots=True)
class Alive:
    """A container of ours with a living process."""

    workload: str
    container_id: str


def new_was_followed_by_old(mutations: Sequence[Mutation], accepted: Iterable[Accepted]) -> list[str]:
    """No Podman mutation below the accepted generation: neither below one that was made, nor below one that was begun."""
    newest: dict[tuple[str, str], int] = {}
    found = []
    for mutation in sorted(mutations, key=lambda one: one.at):
        life = (mutation.workload, mutation.incarnation)
        if mutation.generation < newest.get(life, 0):
            found.append(f"{mutation} after generation {newest[life]} was made")
        newest[life] = max(mutation.generation, newest.get(life, 0))
    for wish in accepted:
        found += [
            f"{mutation} after {wish}"
            for mutation in mutations
            if (mutation.workload, mutation.incarnation) == (wish.workload, wish.incarnation)
            and mutation.generation < wish.generation
            and mutation.at > wish.at
        ]
    return found


def more_than_one_alive(alive: Iterable[Alive]) -> list[str]:
    """At most one live container per workload."""
    by_workload: dict[str, list[str]] = {}
    for one in alive:
        by_workload.setdefault(one.workload, []).append(one.container_id[:12])
    return [f"{name} has {len(ids)} live containers: {ids}" for name, ids in by_workload.items() if len(ids) > 1]


def out_of_bounds(waits: Iterable[Wait]) -> list[str]:
    """Base <= delay <= cap <= 300 s."""
    return [
        f"a wait that is out of bounds: {wait}"
        for wait in waits
        if not wait.base - ROUNDING <= wait.lasts <= min(wait.cap, CAP) + ROUNDING
    ]


def incomplete(status: WorkloadStatus) -> list[str]:
    """A status says all that its state asks for."""
    error = status.last_error
    claims: Mapping[str, bool] = {
        "its substate is one of its state's": status.substate in SUBSTATES[status.state],
        "it names its image": bool(status.image),
        "its history is not empty once a generation was accepted": not status.generation or bool(status.history),
        "what runs is named": status.state is not State.RUNNING or status.live is not None,
        "what fails has an error": status.substate not in FAILING or error is not None,
        "an error tells what happened": error is None or bool(error.message),
        "an error tells what to do": error is None or bool(error.hint),
        "an error is counted": error is None or (error.count >= 1 and error.first_at <= error.last_at),
        "a failing step has a number": status.substate not in FAILING or status.attempt >= 1 or _is_parked(status),
        "who waits for others names them": status.substate is not Substate.WAITING_FOR_DEPENDENCIES
        or bool(status.depends_on),
        "a wait for a restart has an end": status.substate is not Substate.RESTART_BACKOFF
        or status.next_attempt_at is not None
        or status.attempt >= 1,
    }
    return [
        f"not true: {claim}: {status.model_dump_json(exclude={'history'})}"
        for claim, holds in claims.items()
        if not holds
    ]


def _is_parked(status: WorkloadStatus) -> bool:
    return status.state is State.FAILED


def claims_a_dead_container(status: WorkloadStatus, alive: Iterable[Alive]) -> bool:
    """Whether a workload is shown as running whose container is not alive."""
    if status.state is not State.RUNNING or status.live is None:
        return False
    return status.live.container_id not in {one.container_id for one in alive}
