# SPDX-License-Identifier: Apache-2.0
"""What contradicts a belief, and what is believed after it was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from activities.beliefs import Belief, Beliefs, belief_of, contradiction
from activities.engine import Managed, Ownership
from perdure.model.observation import ContainerState, Health, LastExit, Live
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus

BEGAN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SECONDS = timedelta(seconds=1)
UP = Belief("a", 2, BEGAN.replace(microsecond=250_000), pid=7)
ENDED = Belief()


def container(
    container_id: str = "a",
    state: ContainerState = ContainerState.RUNNING,
    *,
    generation: int = 2,
    incarnation: str = "life-1",
    pid: int = 7,
    started_at: datetime | None = BEGAN,
    code: int | None = None,
) -> Managed:
    """One as Podman's list shows it: with whole seconds."""
    owner = Ownership("fleet", "edge-1", "web", incarnation, generation, "hash", "", "shop", "server")
    exit_seen = None if code is None else LastExit(code=code)
    return Managed(container_id, f"web-{container_id}", owner, state, pid, started_at, exit_seen, Health.NONE)


AGREE = [
    pytest.param(UP, [container()], id="it runs"),
    pytest.param(UP, [container(pid=0)], id="its pid is not known"),
    pytest.param(replace(UP, pid=0), [container(pid=9)], id="its pid was not known"),
    pytest.param(UP, [container(), container("b", ContainerState.EXITED, code=0)], id="a former one lies about"),
    pytest.param(ENDED, [], id="it ended and is gone"),
    pytest.param(ENDED, [container(state=ContainerState.EXITED, code=1)], id="it ended"),
    pytest.param(ENDED, [container(state=ContainerState.CREATED)], id="it had ended before the reboot"),
]


@pytest.mark.parametrize(("belief", "found"), AGREE)
def test_what_agrees(belief: Belief, found: Sequence[Managed]) -> None:
    """Nothing is told."""
    assert contradiction(belief, found) is None


DIFFER = [
    (UP, [], "a", ContainerState.MISSING, "the container is missing"),
    (UP, [container("b")], "a", ContainerState.MISSING, "the container is missing, and another one runs in its place"),
    (UP, [container(state=ContainerState.MISSING)], "a", ContainerState.MISSING, "the container is being removed"),
    (UP, [container(state=ContainerState.EXITED, code=42)], "a", ContainerState.EXITED, "ended with code 42"),
    (UP, [container(state=ContainerState.DEAD)], "a", ContainerState.DEAD, "process is gone"),
    (UP, [container(state=ContainerState.PAUSED)], "a", ContainerState.PAUSED, "paused"),
    (UP, [container(state=ContainerState.CREATED)], "a", ContainerState.CREATED, "not started since its host was"),
    (UP, [container(state=ContainerState.STOPPING)], "a", ContainerState.STOPPING, "end of its stop"),
    (UP, [container(state=ContainerState.UNMONITORED)], "a", ContainerState.UNMONITORED, "monitor"),
    (UP, [container(pid=8)], "a", ContainerState.RUNNING, "started anew"),
    (replace(UP, pid=0), [container(started_at=BEGAN + SECONDS)], "a", ContainerState.RUNNING, "started anew"),
    (UP, [container(), container("b")], "b", ContainerState.RUNNING, "another container of the workload runs as well"),
    (ENDED, [container("c")], "c", ContainerState.RUNNING, "runs again"),
]


@pytest.mark.parametrize(("belief", "found", "container_id", "state", "words"), DIFFER)
def test_what_differs(
    belief: Belief, found: Sequence[Managed], container_id: str, state: ContainerState, words: str
) -> None:
    """Everything that an operator could do to a container behind our back is told, once, in words that say it."""
    finding = contradiction(belief, found)
    assert finding is not None
    assert (finding.container_id, finding.state) == (container_id, state)
    assert words in finding.words
    observation = finding.observation(BEGAN)
    assert (observation.container_id, observation.state, observation.exit) == (container_id, state, finding.exit)
    assert observation.incarnation == ("life-1" if finding.container else "")
    more = contradiction(belief.after(finding), found)
    assert more is None or not more.is_about(finding), "told twice"


def test_what_is_told_after_what() -> None:
    """The same container may give news again: another state, another run."""
    paused = contradiction(UP, [container(state=ContainerState.PAUSED)])
    assert paused is not None
    told = UP.after(paused)
    assert contradiction(told, [container(state=ContainerState.EXITED, code=0)]) is not None
    assert contradiction(told, []) is not None
    anew = contradiction(UP, [container(pid=8, started_at=BEGAN + SECONDS)])
    assert anew is not None
    assert contradiction(UP.after(anew), [container(pid=9, started_at=BEGAN + SECONDS)]) is not None
    again = contradiction(ENDED, [container("c")])
    assert again is not None
    assert ENDED.after(again).container_id == "c", "from now on its end is news"


def test_a_look_teaches_the_process_of_a_container_that_only_a_memo_told() -> None:
    """Else a second run within the same second would look like the first one."""
    memo = Belief("a", 2, BEGAN)
    assert memo.confirmed([container(pid=7)]).pid == 7
    assert UP.confirmed([container(pid=9)]) == UP
    assert contradiction(memo.confirmed([container(pid=7)]), [container(pid=8)]) is not None


LIVE = Live(generation=1, container_id="a", started_at=BEGAN)


@pytest.mark.parametrize(
    ("state", "substate", "live", "found", "believed"),
    [
        (State.RUNNING, Substate.OK, LIVE, [], "a"),
        (State.UNKNOWN, Substate.HOST_LOST, LIVE, [], "a"),
        (State.PENDING, Substate.PULL_BACKOFF, LIVE, [], "a"),
        (State.PAUSED, Substate.OK, LIVE, [], "a"),
        (State.SUCCEEDED, Substate.OK, None, [container()], ""),
        (State.FAILED, Substate.EXITED, None, [], ""),
        (State.FAILED, Substate.REJECTED, None, [], None),
        (State.UNKNOWN, Substate.HOST_LOST, None, [], None),
        (State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, None, [], None),
        (State.PENDING, Substate.STARTING, None, [container("b")], "b"),
        (State.PENDING, Substate.STARTING, None, [container("b", generation=1), container("c")], "c"),
        (State.PENDING, Substate.STARTING, None, [container("b", incarnation="an earlier life")], None),
        (State.PENDING, Substate.STARTING, None, [container("b", ContainerState.EXITED, code=1)], None),
    ],
)
def test_what_a_memo_says(
    state: State, substate: Substate, live: Live | None, found: Sequence[Managed], believed: str | None
) -> None:
    """Whatever the state, what the workflow takes to be up; and where its memo is a moment behind, what runs."""
    status = WorkloadStatus(
        state=state, substate=substate, host="edge-1", name="web", since=BEGAN, live=live, incarnation="life-1"
    )
    belief = belief_of(status, found)
    assert (None if belief is None else belief.container_id) == believed


class Diary:
    """Takes down what a companion is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def up(self, workload: str, container_id: str, generation: int) -> None:
        self.lines.append(f"{workload} up {container_id} g{generation}")

    def down(self, workload: str, container_id: str) -> None:
        self.lines.append(f"{workload} down {container_id}")


def test_companions_are_told_of_every_run_once() -> None:
    """Also when a resync drops all beliefs and comes to the same ones."""
    diary = Diary()
    beliefs = Beliefs([diary])
    beliefs.change("web", UP)
    beliefs.change("web", replace(UP, started_at=None, pid=0))
    beliefs.doubt()
    beliefs.replace({"web": UP})
    assert diary.lines == ["web up a g2"]
    beliefs.change("web", replace(UP, pid=8))
    beliefs.change("web", Belief("b", 3))
    beliefs.change("web", ENDED)
    beliefs.change("db", None)
    assert diary.lines[1:] == ["web up a g2", "web down a", "web up b g3", "web down b"]


def test_a_resync_drops_everything_but_what_is_newer() -> None:
    """What was done or told while it looked is not undone by what it saw."""
    beliefs = Beliefs()
    for workload in ("stays", "goes", "started", "removed"):
        beliefs.change(workload, UP)
    beliefs.doubt()
    beliefs.change("started", Belief("new", 3))
    beliefs.change("removed", None)
    beliefs.replace({"stays": Belief("other", 1), "started": UP, "removed": UP})
    assert beliefs.all() == {"stays": Belief("other", 1), "started": Belief("new", 3)}
