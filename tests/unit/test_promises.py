# SPDX-License-Identifier: Apache-2.0
"""What watches over the cases can find something: each promise, broken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.model.faults import FaultClass, FaultKind, LastError, Phase
from perdure.model.observation import Live
from perdure.model.states import State, Substate
from perdure.model.status import Transition, WorkloadStatus
from tests.cases import promises
from tests.cases.promises import Accepted, Alive, Mutation, Wait

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ERROR = LastError(
    kind=FaultKind.IMAGE_NOT_FOUND,
    fault_class=FaultClass.TRANSIENT,
    phase=Phase.PULL,
    message="manifest unknown",
    hint="push it",
    attempt=1,
    generation=1,
    first_at=NOW,
    last_at=NOW,
)
LIVE = Live(generation=1, container_id="c1")


def status(state: State, substate: Substate, **more: Any) -> WorkloadStatus:
    step = Transition(at=NOW, state=state, substate=substate, generation=1)
    fields = {"image": "reg/app:1", "generation": 1, "history": (step,), **more}
    return WorkloadStatus(state=state, substate=substate, host="edge-1", name="web", since=NOW, **fields)


def mutation(seconds: int, generation: int, incarnation: str = "i1") -> Mutation:
    return Mutation(NOW + timedelta(seconds=seconds), "create", "web", incarnation, generation)


def accepted(seconds: int, generation: int) -> Accepted:
    return Accepted(NOW + timedelta(seconds=seconds), "web", "i1", generation)


def test_an_older_generation_after_a_newer_one_is_found() -> None:
    """Whether the newer one was made, or only begun."""
    in_order = [mutation(1, 1), mutation(2, 2), mutation(3, 1, "i2")]
    assert promises.new_was_followed_by_old(in_order, [accepted(0, 1), accepted(2, 2)]) == []
    assert promises.new_was_followed_by_old([mutation(2, 2), mutation(3, 1)], [])
    assert promises.new_was_followed_by_old([mutation(3, 1)], [accepted(2, 2)])


def test_two_live_containers_are_found() -> None:
    """Of one workload; one of each is fine."""
    assert promises.more_than_one_alive([Alive("web", "c1"), Alive("db", "c2")]) == []
    assert promises.more_than_one_alive([Alive("web", "c1"), Alive("web", "c2")])


@pytest.mark.parametrize(("seconds", "is_fine"), [(0.4, False), (0.5, True), (2, True), (2.1, False)])
def test_a_wait_out_of_bounds_is_found(seconds: float, is_fine: bool) -> None:
    wait = Wait("web", timedelta(seconds=seconds), timedelta(seconds=0.5), timedelta(seconds=2), "a test")
    assert (promises.out_of_bounds([wait]) == []) is is_fine


def test_a_wait_above_300_seconds_is_found_whatever_was_asked_for() -> None:
    hour = timedelta(hours=1)
    assert promises.out_of_bounds([Wait("web", timedelta(seconds=301), timedelta(0), hour, "a test")])


@pytest.mark.parametrize(
    "complete",
    [
        status(State.RUNNING, Substate.OK, live=LIVE),
        status(State.PENDING, Substate.PULL_BACKOFF, last_error=ERROR, attempt=1),
        status(State.FAILED, Substate.REJECTED, last_error=ERROR),
        status(State.PENDING, Substate.RESTART_BACKOFF, next_attempt_at=NOW),
        status(State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, depends_on={"edge-1/db": "running"}),
    ],
    ids=lambda seen: seen.substate,
)
def test_a_complete_status_is_fine(complete: WorkloadStatus) -> None:
    assert promises.incomplete(complete) == []


@pytest.mark.parametrize(
    "lacking",
    [
        status(State.RUNNING, Substate.PULLING, live=LIVE),
        status(State.RUNNING, Substate.OK),
        status(State.PENDING, Substate.PULL_BACKOFF, attempt=1),
        status(State.PENDING, Substate.PULL_BACKOFF, last_error=ERROR),
        status(State.FAILED, Substate.REJECTED),
        status(State.PENDING, Substate.RESTART_BACKOFF),
        status(State.PENDING, Substate.WAITING_FOR_DEPENDENCIES),
        status(State.PENDING, Substate.PULLING, image=""),
        status(State.PENDING, Substate.PULLING, history=()),
        status(State.FAILED, Substate.REJECTED, last_error=ERROR.model_copy(update={"hint": ""})),
    ],
)
def test_a_status_that_lacks_something_is_found(lacking: WorkloadStatus) -> None:
    assert promises.incomplete(lacking)


def test_a_dead_container_that_is_shown_as_running_is_found() -> None:
    shown = status(State.RUNNING, Substate.OK, live=LIVE)
    assert promises.claims_a_dead_container(shown, [Alive("web", "c2")])
    assert not promises.claims_a_dead_container(shown, [Alive("web", "c1")])
    assert not promises.claims_a_dead_container(status(State.PENDING, Substate.STARTING), [])
