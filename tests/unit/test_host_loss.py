# SPDX-License-Identifier: Apache-2.0
"""What a workload shows while its host is lost, and how that ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.model.faults import Phase
from perdure.model.host import HostChange
from perdure.model.messages import ApplyRequest, HostPresence, Outcome
from perdure.model.observation import Live
from perdure.model.record import Course, Record
from perdure.model.states import SUBSTATES, State, Substate
from perdure.model.workload import ContainerSpec, WorkloadSpec
from perdure.policy import answers, attempts, host_loss, plan, wishes
from perdure.policy.plan import Act

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SEEN = NOW - timedelta(seconds=25)
LOST = HostChange(lost=True, at=NOW, seen_at=SEEN, reason="its worker no longer answers")
LATER = NOW + timedelta(minutes=5)
BACK = HostChange(lost=False, at=LATER, seen_at=LATER)
KNOWN = [(state, sub) for state, subs in SUBSTATES.items() for sub in sorted(subs) if state is not State.UNKNOWN]
UNSURE = {(State.RUNNING, substate) for substate in SUBSTATES[State.RUNNING]} | {
    (State.PENDING, substate)
    for substate in SUBSTATES[State.PENDING]
    - {Substate.INITIAL, Substate.WAITING_FOR_HOST, Substate.WAITING_FOR_DEPENDENCIES}
}


def running() -> Record:
    """A workload that is up."""
    request = ApplyRequest(apply_id="1", spec=WorkloadSpec(container=ContainerSpec(image="reg/app:1")))
    record = wishes.applied(wishes.born("edge-1", "web", "incarnation", SEEN), request, SEEN)
    return attempts.container_started(record, Live(generation=1, container_id="c" * 64, started_at=SEEN), SEEN)


@pytest.mark.parametrize(("state", "substate"), KNOWN)
def test_only_what_may_be_false_by_now_is_shown_as_unknown(state: State, substate: Substate) -> None:
    """Whatever is paused, over, or not begun is as well known without the host."""
    record = running().but(state=state, substate=substate)
    status = host_loss.changed(record, LOST, NOW).status("hash")
    if (state, substate) in UNSURE:
        assert (status.state, status.substate, status.since) == (State.UNKNOWN, Substate.HOST_LOST, NOW)
        assert status.last_known == f"{state}/{substate}"
    else:
        assert (status.state, status.substate, status.since) == (state, substate, record.since)
        assert status.last_known == ""
    assert status.host_lost_at == NOW
    assert status.history[-1].reason == "host lost, last seen 2026-01-01 11:59:35 UTC"


def test_it_is_known_again_as_soon_as_the_host_tells_anything() -> None:
    """With the time since when it has been so; the news from the host's workflow then adds nothing."""
    lost = host_loss.changed(running(), LOST, NOW)
    heard = host_loss.heard(lost, LATER)
    assert heard.shown == (State.RUNNING, Substate.OK, SEEN)
    assert heard.history[-1].reason == "host is back"
    assert host_loss.changed(heard, BACK, LATER).history == heard.history
    assert host_loss.changed(lost, BACK, LATER).shown == heard.shown


def test_news_that_is_overtaken_changes_nothing() -> None:
    """A loss that is told after the return is old; told twice, it is noted once."""
    back = host_loss.changed(running(), BACK, LATER)
    assert host_loss.changed(back, LOST, LATER) == back
    once = host_loss.changed(running(), LOST, NOW)
    twice = host_loss.changed(once, LOST.model_copy(update={"at": LATER}), LATER)
    assert twice.host_lost_at == NOW
    assert twice.history == once.history


def test_a_clock_that_was_set_back_hides_no_loss() -> None:
    """What was told at a time that is still to come is no later news."""
    ahead = HostChange(lost=False, at=LATER + timedelta(days=365), seen_at=LATER)
    record = host_loss.changed(running(), ahead, LATER)
    assert host_loss.changed(record, LOST.model_copy(update={"at": LATER}), LATER).shown[0] is State.UNKNOWN


def test_a_step_for_a_lost_host_waits_for_it_and_says_so_at_once() -> None:
    """Whoever applies need not wait for a question to be asked; when the host is back the step is under way again."""
    lost = host_loss.changed(running(), LOST, NOW)
    request = ApplyRequest(apply_id="2", spec=WorkloadSpec(container=ContainerSpec(image="reg/app:2")))
    applied = wishes.applied(lost, request, LATER)
    answer = answers.answer(applied, "2")
    assert answer is not None
    assert (answer.outcome, answer.message) == (
        Outcome.NO_WORKER,
        "no worker for host edge-1, last seen 2026-01-01 11:59:35 UTC",
    )
    waits = attempts.step_begun(applied, Phase.START, LATER)
    assert waits.shown[:2] == (State.PENDING, Substate.WAITING_FOR_HOST)
    assert waits.history[-1].reason == answer.message
    back = host_loss.changed(waits, BACK, LATER)
    assert back.shown[:2] == (State.PENDING, Substate.STARTING)
    assert answers.answer(back, "2") is None


def test_the_latest_sign_of_a_host_is_told_whoever_saw_it() -> None:
    """A server forgets dead workers; what was known before is then still known."""
    record = attempts.step_begun(host_loss.heard(running().but(course=Course.START), NOW), Phase.START, NOW)
    asked = attempts.host_presence_learned(record, HostPresence(picked_up=False, alive=False), LATER)
    assert asked.history[-1].reason == "no worker for host edge-1, last seen 2026-01-01 12:00:00 UTC"


def test_what_is_abandoned_ends_at_once_whatever_it_does() -> None:
    """Work in flight is of no use from then on, and whoever waits is told."""
    for record in (running(), wishes.paused(running(), NOW), wishes.removal_asked(running(), NOW)):
        gone = host_loss.abandoned(record, LATER)
        assert plan.next_step(gone, LATER).act is Act.CLOSE
        assert gone.turn > record.turn
        assert gone.shown == (State.REMOVED, Substate.OK, LATER)
        assert "abandoned" in gone.history[-1].reason
        assert host_loss.abandoned(gone, LATER).history == gone.history
        assert host_loss.changed(gone, LOST, LATER) == gone
