# SPDX-License-Identifier: Apache-2.0
"""What a dependency is met by, what is said of one that is not, how often it is looked at, and what a wait does to a workload."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.messages import ApplyRequest, Outcome, WaitingOn
from perdure.model.observation import Health, Live
from perdure.model.record import Course, Record
from perdure.model.states import SUBSTATES, State, Substate
from perdure.model.status import WorkloadStatus
from perdure.model.workload import ContainerSpec, DependencyCondition, PullPolicy, Retry, WorkloadSpec
from perdure.policy import answers, attempts, dependencies, plan, wishes
from perdure.policy.plan import Act

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DB = {"edge-1/db": DependencyCondition.RUNNING}
WANTED = "edge-1/db does not exist yet, wanted: running"


def status(state: State, substate: Substate = Substate.OK, health: Health | None = None) -> WorkloadStatus:
    live = Live(generation=1, container_id="c1", health=health) if health is not None else None
    return WorkloadStatus(state=state, substate=substate, host="edge-1", name="db", since=NOW, live=live)


# ---- what is met ----

EVERY_STATUS = [status(state, substate) for state in State for substate in sorted(SUBSTATES[state])]


@pytest.mark.parametrize("seen", EVERY_STATUS, ids=lambda seen: f"{seen.state}-{seen.substate}")
def test_a_condition_is_met_by_its_state_alone(seen: WorkloadStatus) -> None:
    """A host that is lost, a pause and a wait meet none."""
    met = {condition for condition in DependencyCondition if dependencies.is_met(condition, seen)}
    assert met == {
        State.RUNNING: {DependencyCondition.RUNNING},
        State.SUCCEEDED: {DependencyCondition.SUCCEEDED},
        State.FAILED: {DependencyCondition.FAILED},
    }.get(seen.state, set())


@pytest.mark.parametrize("health", Health)
def test_only_a_healthcheck_that_passed_is_healthy(health: Health) -> None:
    seen = status(State.RUNNING, health=health)
    assert dependencies.is_met(DependencyCondition.HEALTHY, seen) is (health is Health.HEALTHY)
    assert dependencies.is_met(DependencyCondition.RUNNING, seen)


@pytest.mark.parametrize(
    ("condition", "seen", "words"),
    [
        ("running", None, "edge-1/db does not exist yet, wanted: running"),
        ("running", status(State.PENDING, Substate.PULLING), "edge-1/db is Pending/Pulling, wanted: running"),
        ("running", status(State.UNKNOWN, Substate.HOST_LOST), "edge-1/db is Unknown/HostLost, wanted: running"),
        ("healthy", status(State.RUNNING), "edge-1/db is Running/Ok and has no healthcheck, wanted: healthy"),
        (
            "healthy",
            status(State.RUNNING, health=Health.STARTING),
            "edge-1/db is Running/Ok and its health is starting, wanted: healthy",
        ),
        ("succeeded", status(State.FAILED, Substate.EXITED), "edge-1/db is Failed/Exited, wanted: succeeded"),
    ],
)
def test_what_is_said_of_one_that_is_not_met(condition: str, seen: WorkloadStatus | None, words: str) -> None:
    assert dependencies.unmet("edge-1/db", DependencyCondition(condition), seen) == words


def test_many_are_counted() -> None:
    assert dependencies.listed(tuple("abcdefgh")) == "a; b; c; d; e; f; g; h"
    assert dependencies.listed(tuple("abcdefghij")) == "a; b; c; d; e; f; g; h; and 2 more"


# ---- how often ----


@given(st.timedeltas(timedelta(0), timedelta(days=3000)), st.floats(0, 1))
def test_looks_become_rare_and_never_rarer_than_six_seconds(waited: timedelta, chance: float) -> None:
    """Little is lost: at most an eighth of what was waited, or half a second and a bit."""
    wait = dependencies.next_look(waited, chance)
    assert timedelta(seconds=0.4) <= wait <= timedelta(seconds=6)
    assert wait <= max(timedelta(seconds=0.6), waited * 0.125)


def test_news_of_a_crash_loop_become_rare() -> None:
    waits = [dependencies.telling_interval(told) for told in range(10_000)]
    assert waits == sorted(waits)
    assert waits[0] < timedelta(seconds=1)
    assert waits[-1] == timedelta(minutes=5) < dependencies.QUIET


# ---- the wait of a workload ----


def wanting(depends_on: dict[str, DependencyCondition], image: str = "reg/app:1", **more: Any) -> WorkloadSpec:
    return WorkloadSpec(container=ContainerSpec(image=image), depends_on=depends_on, **more)


def applied(record: Record, spec: WorkloadSpec, id_: str = "") -> Record:
    return wishes.applied(record, ApplyRequest(apply_id=id_ or f"apply-{record.generation + 1}", spec=spec), NOW)


def waiting(**more: Any) -> Record:
    """A workload that waits for its database, and has said so."""
    record = applied(wishes.born("edge-1", "web", "incarnation-1", NOW), wanting(DB, **more))
    assert plan.next_step(record, NOW).act is Act.AWAIT
    record = dependencies.wait_begun(record, NOW)
    return dependencies.learned(record, WaitingOn(turn=record.turn, unmet=(WANTED,)))


def started(record: Record) -> Record:
    return attempts.container_started(record, Live(generation=1, container_id="c1", started_at=NOW), NOW)


def test_a_wait_is_shown_and_answered() -> None:
    record = waiting()
    assert (record.state, record.substate) == (State.PENDING, Substate.WAITING_FOR_DEPENDENCIES)
    assert record.history[-1].reason == "waits for edge-1/db: running"
    shown = record.status("hash")
    assert (shown.waiting_on, shown.depends_on) == ((WANTED,), DB)
    answer = answers.answer(record, "apply-1")
    assert answer is not None
    assert (answer.outcome, answer.message) == (Outcome.WAITING, WANTED)


def test_nobody_is_answered_before_it_is_known_what_is_waited_for() -> None:
    record = dependencies.wait_begun(applied(wishes.born("edge-1", "web", "i", NOW), wanting(DB)), NOW)
    assert answers.answer(record, "apply-1") is None


@pytest.mark.parametrize(
    ("policy", "course"), [(PullPolicy.MISSING, Course.START), (PullPolicy.ALWAYS, Course.PULL)], ids=str
)
def test_what_is_met_is_pulled_and_started(policy: PullPolicy, course: Course) -> None:
    """And only then does a time limit begin to count."""
    later = NOW + timedelta(hours=1)
    record = waiting(pull_policy=policy, retry=Retry(give_up_after=timedelta(minutes=5)))
    assert record.give_up_at is None
    record = dependencies.met(record, later)
    assert (record.course, record.waiting_on, record.give_up_at) == (course, (), later + timedelta(minutes=5))
    assert record.history[-1].reason == "its dependencies are met"


def test_what_is_told_for_a_wait_that_is_over_changes_nothing() -> None:
    record = waiting()
    late = WaitingOn(turn=record.turn, unmet=("something old",))
    for after in (
        dependencies.met(record, NOW),
        wishes.paused(record, NOW),
        wishes.removal_asked(record, NOW),
        applied(record, wanting(DB, "reg/app:2")),
        applied(record, wanting({"edge-1/cache": DependencyCondition.HEALTHY})),
    ):
        assert after.waiting_on == ()
        assert dependencies.learned(after, late) == after


def test_what_has_run_waits_no_more_before_the_next_generation() -> None:
    record = started(dependencies.met(waiting(), NOW))
    resumed = wishes.resumed(wishes.paused(record.but(course=Course.START), NOW), NOW)
    assert resumed.course is Course.START
    assert applied(record, wanting(DB, "reg/app:2")).course is Course.DEPENDENCIES


def test_a_pause_in_a_wait_begins_it_anew() -> None:
    assert wishes.resumed(wishes.paused(waiting(), NOW), NOW).course is Course.DEPENDENCIES


CACHE = {"edge-1/cache": DependencyCondition.HEALTHY}


@pytest.mark.parametrize(
    ("depends_on", "course"),
    [
        (CACHE, Course.DEPENDENCIES),
        (DB | CACHE, Course.DEPENDENCIES),
        ({"edge-1/db": DependencyCondition.FAILED}, Course.DEPENDENCIES),
        ({}, Course.START),
    ],
)
def test_other_dependencies_during_a_wait(depends_on: dict[str, DependencyCondition], course: Course) -> None:
    record = waiting()
    after = applied(record, wanting(depends_on))
    assert (after.course, after.turn) == (course, record.turn + 1)
    assert after.container_generation == record.container_generation


@pytest.mark.parametrize(
    ("depends_on", "course"),
    [(CACHE, Course.DEPENDENCIES), (DB | CACHE, Course.DEPENDENCIES), (DB, Course.START), ({}, Course.START)],
)
def test_other_dependencies_before_the_first_start(depends_on: dict[str, DependencyCondition], course: Course) -> None:
    """What is new is waited for; the place on the curve of tries is kept. What is taken away was met before."""
    record = dependencies.met(waiting(), NOW).but(attempt=5)
    after = applied(record, wanting(depends_on, tags={"a": "b"}))
    assert after.course is course
    assert max(after.attempts_before, after.attempt) == 5


@pytest.mark.parametrize("depends_on", [CACHE, DB | CACHE, {}])
def test_other_dependencies_of_what_has_run(depends_on: dict[str, DependencyCondition]) -> None:
    """It is not touched, not even while it waits for its restart."""
    record = started(dependencies.met(waiting(), NOW))
    assert applied(record, wanting(depends_on)).course is Course.UP
    restarting = record.but(course=Course.START, live=None)
    after = applied(restarting, wanting(depends_on))
    assert (after.course, after.turn) == (Course.START, restarting.turn)


def test_a_parked_one_that_never_ran_waits_for_what_is_new() -> None:
    parked = dependencies.met(waiting(), NOW).but(course=Course.PARKED, state=State.FAILED, substate=Substate.REJECTED)
    assert applied(parked, wanting(DB | CACHE)).course is Course.DEPENDENCIES
    assert applied(parked, wanting(DB, tags={"a": "b"})).course is Course.START
