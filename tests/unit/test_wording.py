# SPDX-License-Identifier: Apache-2.0
"""What a workload says of itself in the Web UI, in every state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.faults import FaultClass, FaultKind, LastError, Phase
from perdure.model.observation import LastExit, Live
from perdure.model.states import SUBSTATES, State, Substate
from perdure.model.status import Transition, WorkloadStatus
from perdure.policy.shorten import shorten
from workflows import presentation, wording

NOW = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)
ALL = [(state, substate) for state, substates in SUBSTATES.items() for substate in sorted(substates)]
WORKING = (
    Substate.INITIAL,
    Substate.PULLING,
    Substate.STARTING,
    Substate.STOPPING,
)
WAITING = (
    Substate.PULL_BACKOFF,
    Substate.START_BACKOFF,
    Substate.STOP_BACKOFF,
    Substate.RESTART_BACKOFF,
    Substate.REJECTED,
    Substate.GAVE_UP,
    Substate.EXITED,
    Substate.WAITING_FOR_DEPENDENCIES,
    Substate.WAITING_FOR_HOST,
    Substate.QUEUED,
)
DETAILS_LIMIT_BYTES = 4096
SUMMARY_LIMIT_BYTES = 400
ERROR = LastError(
    kind=FaultKind.PORT_IN_USE,
    fault_class=FaultClass.TRANSIENT,
    phase=Phase.START,
    message="rootlessport listen tcp 0.0.0.0:8080: bind: address already in use",
    hint="free the port",
    attempt=3,
    generation=2,
    first_at=NOW - timedelta(minutes=5),
    last_at=NOW,
    count=3,
)


def status(state: State, substate: Substate, **known: Any) -> WorkloadStatus:
    """A status of workload edge-1/web, entered now for a reason."""
    entered = Transition(at=NOW, state=state, substate=substate, generation=2, reason="a reason")
    base = {"host": "edge-1", "name": "web", "image": "reg/web:2", "generation": 2, "since": NOW, "history": (entered,)}
    return WorkloadStatus.model_validate({"state": state, "substate": substate, **base, **known})


@pytest.mark.parametrize(("state", "substate"), ALL)
def test_what_waits_says_why_and_for_what(state: State, substate: Substate) -> None:
    """And what is as it should be, or on its way to it, asks for nothing."""
    wait = {"next_attempt_at": NOW + timedelta(seconds=9)} if substate is Substate.RESTART_BACKOFF else {}
    told = wording.details(status(state, substate, last_error=ERROR, **wait))
    assert told.startswith(f"### {state} / {substate}\n")
    assert "**Why:**" in told
    assert "**Since:** 2026-11-29 03:00:00 UTC" in told
    assert ("**Next try:**" in told) is (substate in WAITING or state is State.PAUSED)
    if substate in WORKING or state in (State.SUCCEEDED, State.REMOVED):
        assert "**What helps:**" not in told


@pytest.mark.parametrize(("state", "substate"), ALL)
def test_a_sign_stands_only_where_somebody_may_have_to_look(state: State, substate: Substate) -> None:
    """A healthy workload, and one on its way, costs no timer."""
    has_another = substate in (Substate.QUEUED, Substate.RESTART_BACKOFF, Substate.WAITING_FOR_DEPENDENCIES)
    is_fine = substate in WORKING or (substate is Substate.OK and state is not State.PAUSED) or has_another
    assert bool(wording.sign(status(state, substate, last_error=ERROR))) is not is_fine


def test_a_restart_for_illness_does_not_send_to_the_log_of_an_end() -> None:
    """The container still runs while it waits for that."""
    up = {"generation": 2, "container_id": "c" * 64}
    ill = wording.advice(status(State.PENDING, Substate.RESTART_BACKOFF, live=up))
    ended = wording.advice(status(State.PENDING, Substate.RESTART_BACKOFF))
    assert "healthcheck" in ill
    assert "log tells why it ended" in ended


def test_what_waits_for_others_says_for_whom() -> None:
    """Once that is known, also on its first page; all of them in the details, in words that no typography changes."""
    unmet = ("edge-1/db is Pending/Pulling, wanted: running", "edge-2/cache does not exist yet, wanted: healthy")
    waits = status(State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, waiting_on=unmet)
    assert (
        wording.sign(waits)
        == "WaitingForDependencies: edge-1/db is Pending/Pulling, wanted: running; edge-2/cache does not exist yet, ..."
    )
    assert f"- **Why:** `{unmet[0]}; {unmet[1]}`" in wording.details(waits)
    assert "**Next try:** as soon as what it waits for is as far" in wording.details(waits)
    many = status(
        State.PENDING, Substate.WAITING_FOR_DEPENDENCIES, waiting_on=(f"{'x' * 63}/{'y' * 63} is away",) * 100
    )
    assert len(wording.details(many).encode()) <= DETAILS_LIMIT_BYTES
    assert len(wording.sign(many).encode()) <= SUMMARY_LIMIT_BYTES


@pytest.mark.parametrize(
    ("state", "substate", "line"),
    [
        (
            State.PENDING,
            Substate.START_BACKOFF,
            "StartBackoff, PortInUse: free the port; perdure retry edge-1/web saves the wait",
        ),
        (
            State.FAILED,
            Substate.REJECTED,
            "Rejected, PortInUse: free the port; then apply a newer manifest, or perdure retry edge-1/web",
        ),
        (State.PENDING, Substate.WAITING_FOR_HOST, "WaitingForHost: a reason"),
        (State.PAUSED, Substate.OK, "Paused: perdure resume edge-1/web takes it up again"),
        (State.FAILED, Substate.EXITED, "Exited: a reason"),
    ],
)
def test_signs_read(state: State, substate: Substate, line: str) -> None:
    assert wording.sign(status(state, substate, last_error=ERROR)) == line


def test_an_error_that_is_over_is_not_told_as_if_it_were_not() -> None:
    """Neither on the pages nor in the list."""
    running = status(State.RUNNING, Substate.OK, last_error=ERROR)
    told = wording.details(running)
    assert "Last error, over by now:** PortInUse" in told
    assert ERROR.message not in told
    assert ERROR.hint not in told
    assert wording.last_error(running).startswith("over by now: PortInUse: ")
    assert presentation.page(running).memo["lastErrorKind"] == "PortInUse"
    assert presentation.page(running).memo["hint"] == ""
    kinds = [update.value for update in presentation.page(running).attributes.values()]
    assert "PortInUse" not in kinds


def test_a_refused_apply_is_not_taken_for_the_reason_of_the_state() -> None:
    """What was noted later explains nothing of it."""
    entered = Transition(at=NOW, state=State.FAILED, substate=Substate.EXITED, generation=2, reason="it ended")
    refused = entered.model_copy(update={"at": NOW + timedelta(seconds=1), "reason": "apply refused"})
    told = wording.headline(status(State.FAILED, Substate.EXITED, history=(entered, refused)))
    assert told == "Exited: it ended"


def test_what_runs_meanwhile_and_how_it_ended_last_is_told() -> None:
    live = Live(generation=1, container_id="f00d" * 16, started_at=NOW)
    ended = LastExit(code=137, signal="SIGKILL", oom=True, at=NOW)
    told = wording.details(
        status(State.PENDING, Substate.PULL_BACKOFF, last_error=ERROR, live=live, last_exit=ended, restarts=4)
    )
    assert "- **Runs meanwhile:** generation 1, container f00df00df00d\n" in told
    assert "- **Last exit:** code 137, out of memory, 2026-11-29 03:00:00 UTC; restarts: 4\n" in told


@given(st.text(max_size=5000), st.text(max_size=5000), st.text(max_size=500), st.sampled_from(ALL))
def test_whatever_the_texts_are_nothing_grows_beyond_what_the_server_and_the_page_take(
    message: str, image: str, hint: str, where: tuple[State, Substate]
) -> None:
    """A summary that is too long would be refused for ever; details travel in an address."""
    error = ERROR.model_copy(update={"message": shorten(message), "hint": shorten(hint, 200)})
    history = tuple(
        Transition(at=NOW, state=where[0], substate=where[1], generation=2, reason=shorten(message, 200))
        for _ in range(30)
    )
    shown = status(*where, last_error=error, image=image, history=history, warning=message)
    assert len(wording.headline(shown).encode()) <= SUMMARY_LIMIT_BYTES
    assert "\n" not in wording.headline(shown)
    assert len(wording.details(shown).encode()) <= DETAILS_LIMIT_BYTES


@given(st.text(alphabet="`ab \n", min_size=1, max_size=40))
def test_texts_that_are_not_ours_stay_within_their_code(text: str) -> None:
    """However many backticks they have: the fence is longer than any run of them, and none touches it."""
    error = ERROR.model_copy(update={"message": text})
    last = wording.details(status(State.PENDING, Substate.PULL_BACKOFF, last_error=error)).split("\n\n")[2]
    fence = last[: len(last) - len(last.lstrip("`"))]
    inner = last[len(fence) : -len(fence)]
    assert last.endswith(fence)
    assert fence not in inner
    assert "`" not in text or (inner[0], inner[-1]) == (" ", " ")
