# SPDX-License-Identifier: Apache-2.0
"""Runs that Perdure did not begin are taken as they are: by hand, by the host itself, of what had ended, and beside another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.model.messages import ApplyRequest
from perdure.model.observation import ContainerState, Health, LastExit, Observation
from perdure.model.record import Record
from perdure.model.workload import RestartPolicy
from perdure.policy import attempts, sightings, wishes
from tests.unit.test_sightings import LIVE, NOW, end, shown, starting

LATER = NOW + timedelta(seconds=30)


def up(restart: RestartPolicy = RestartPolicy.ALWAYS) -> Record:
    """A workload whose container runs."""
    return attempts.container_started(starting(restart), LIVE, NOW)


def runs(container_id: str = "c1", **more: Any) -> Observation:
    """A container that was started a while later than the one that is believed in."""
    return Observation(
        **{
            "container_id": container_id,
            "generation": 1,
            "state": ContainerState.RUNNING,
            "started_at": LATER.replace(microsecond=0),
            "seen_at": LATER,
            **more,
        }
    )


def test_a_restart_by_hand_is_noted_and_is_no_crash() -> None:
    """R2: the same container, another run: no turn, so nothing is done about it."""
    record = sightings.observed(up(), runs(reason="started anew"), LATER)
    assert record.live is not None
    assert (record.live.started_at, record.restarts, record.crashes) == (LATER.replace(microsecond=0), 1, 0)
    assert (shown(record), record.turn) == ("Running/Ok", up().turn)
    assert record.history[-1].reason == "started anew"
    assert sightings.observed(record, runs(), LATER) == record


def test_restarts_by_the_host_itself_count_on_the_curve_that_it_shares_with_us() -> None:
    """Told once it can be told: how often, and how the last run ended."""
    seen = runs(restarts=3, exit=LastExit(code=9, at=LATER))
    record = sightings.observed(up(), seen, LATER)
    assert (record.restarts, record.crashes, record.last_exit) == (3, 3, LastExit(code=9, at=LATER))
    assert record.history[-1].reason == "its host restarted it 3 times while Temporal was away"
    assert sightings.observed(record, seen, LATER) == record


def test_a_long_run_before_a_restart_by_the_host_starts_the_curve_again() -> None:
    """As it does where we restart it."""
    record = up().but(crashes=7)
    ended = LastExit(code=1, at=NOW + timedelta(minutes=11))
    assert sightings.observed(record, runs(restarts=1, exit=ended), LATER).crashes == 1
    assert sightings.observed(record, runs(restarts=1, exit=LastExit(code=1, at=LATER)), LATER).crashes == 8


def test_the_clock_of_a_host_that_restarted_it_is_not_asked() -> None:
    """A small board may begin its clock anew with each boot: its news is not old because of that."""
    boot = NOW.replace(year=2020)
    record = sightings.observed(up(), runs(started_at=boot, restarts=1), LATER)
    assert record.live is not None
    assert (record.live.started_at, record.restarts) == (boot, 1)


def test_what_the_host_restarted_until_it_was_enough_is_decided_with_its_count() -> None:
    """It ended for good while Temporal was away: with `never` no host restarts it, so this one is of the limit."""
    seen = end(started_at=LATER).model_copy(update={"restarts": 2})
    record = sightings.observed(up(), seen, LATER)
    assert (record.restarts, record.crashes) == (3, 3)


@pytest.mark.parametrize("restart", RestartPolicy)
def test_what_had_ended_and_runs_again_is_running(restart: RestartPolicy) -> None:
    """Somebody started it by hand: whether it rested or waited for its restart, nothing else is to be done."""
    ended = sightings.observed(up(restart), end(), NOW)
    record = sightings.observed(ended, runs(health=Health.STARTING), LATER)
    assert shown(record) == "Running/Ok"
    assert record.live is not None
    assert (record.live.container_id, record.live.health) == ("c1", Health.STARTING)
    assert record.turn > ended.turn
    assert record.resume_at is None


def test_old_news_of_a_run_that_has_ended_starts_nothing() -> None:
    """Only a run that began after the end is another one."""
    ended = sightings.observed(up(RestartPolicy.NEVER), end(), NOW)
    for seen in (runs(started_at=NOW - timedelta(minutes=1), seen_at=NOW), runs(generation=0)):
        assert shown(sightings.observed(ended, seen, LATER)) == "Failed/Exited"


def test_a_clock_that_was_set_back_hides_what_happens_no_longer_than_it_was_wrong() -> None:
    """Times of a host are compared, so news may seem old for as long as its clock went ahead; but never for ever."""
    ahead = LIVE.model_copy(update={"started_at": NOW + timedelta(hours=1)})
    record = up().but(live=ahead)
    by_hand, right_again = NOW + timedelta(seconds=10), NOW + timedelta(hours=2)
    its_end = end(started_at=by_hand).model_copy(update={"seen_at": right_again})
    assert sightings.observed(record, end(started_at=by_hand), NOW) == record
    ended = sightings.observed(record, its_end, right_again)
    assert (ended.live, shown(ended)) == (None, "Pending/RestartBackoff")
    rested = sightings.observed(up(RestartPolicy.NEVER).but(live=ahead), end(started_at=ahead.started_at), NOW)
    rested = rested.but(last_exit=LastExit(code=1, at=NOW + timedelta(hours=1)))
    assert shown(sightings.observed(rested, runs(started_at=by_hand, seen_at=right_again), right_again)) == "Running/Ok"


def test_a_second_container_of_a_workload_leads_to_a_start_which_leaves_one() -> None:
    """Whichever of the two that is."""
    record = sightings.observed(up(), runs("c2", reason="another one"), LATER)
    assert (shown(record), record.turn) == ("Pending/Starting", up().turn + 1)
    assert record.history[-1].reason == "another one"
    old_news = runs("c2", seen_at=NOW - timedelta(seconds=5))
    assert shown(sightings.observed(up(), old_news, LATER)) == "Running/Ok"


def test_a_container_of_an_earlier_life_is_none_of_ours() -> None:
    """It was removed while its host was away, and applied again: the next start clears the leftover away."""
    ended = sightings.observed(up(RestartPolicy.NEVER), end(), NOW)
    assert sightings.observed(ended, runs(incarnation="incarnation-0"), LATER) == ended


def test_what_is_removed_stays_so() -> None:
    """Whatever runs."""
    removing = wishes.removal_asked(sightings.observed(up(), end(), NOW), NOW)
    assert shown(sightings.observed(removing, runs(), LATER)) == "Stopping/Stopping"


def test_a_paused_workload_takes_note_of_what_runs() -> None:
    """And goes on with it when it is resumed."""
    paused = wishes.paused(sightings.observed(up(), end(), NOW), NOW)
    record = sightings.observed(paused, runs(), LATER)
    assert shown(record) == "Paused/Ok"
    assert shown(wishes.resumed(record, LATER)) == "Running/Ok"


def test_a_newer_generation_goes_on_whatever_runs_of_the_older_one() -> None:
    """Its own start will replace it."""
    record = up()
    assert record.spec is not None
    spec = record.spec.model_copy(update={"container": record.spec.container.model_copy(update={"user": "app"})})
    newer = wishes.applied(record, ApplyRequest(apply_id="b", spec=spec), NOW)
    assert shown(sightings.observed(newer, runs(), LATER)) == shown(newer)
    gone = sightings.observed(newer, end(), NOW)
    assert shown(sightings.observed(gone, runs(), LATER)) == shown(newer)
