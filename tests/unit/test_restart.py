# SPDX-License-Identifier: Apache-2.0
"""What happens when a container ends by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.workload import RestartBackoff, RestartPolicy
from perdure.policy.restart import Ended, Restart, Stay, decide

SETTINGS = RestartBackoff()
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        (RestartPolicy.ALWAYS, 0, Restart),
        (RestartPolicy.ALWAYS, 1, Restart),
        (RestartPolicy.ALWAYS, None, Restart),
        (RestartPolicy.ON_FAILURE, 0, Stay),
        (RestartPolicy.ON_FAILURE, 42, Restart),
        (RestartPolicy.ON_FAILURE, None, Restart),
        (RestartPolicy.NEVER, 0, Stay),
        (RestartPolicy.NEVER, 137, Stay),
        (RestartPolicy.NEVER, None, Stay),
    ],
)
def test_policy_decides_by_the_exit_code(policy: RestartPolicy, code: int | None, expected: type) -> None:
    """An end of which nobody knows the code counts as a failure."""
    decision = decide(policy, SETTINGS, Ended(code, SECOND, 0), seed="x")
    assert isinstance(decision, expected)


@pytest.mark.parametrize("policy", RestartPolicy)
def test_a_container_that_vanished_comes_back_whatever_the_policy_and_however_often(policy: RestartPolicy) -> None:
    """It did not end: it is drift. The first time at once."""
    settings = RestartBackoff(limit=1)
    vanished = Ended(None, SECOND, 0, vanished=True)
    assert decide(policy, settings, vanished, seed="x") == Restart(timedelta(0), 1)
    assert isinstance(decide(policy, settings, replace(vanished, crashes_before=9), seed="x"), Restart)


@pytest.mark.parametrize(("code", "succeeded"), [(0, True), (1, False)])
def test_what_stays_ended_succeeded_by_its_code(code: int, succeeded: bool) -> None:
    """Zero is success."""
    decision = decide(RestartPolicy.NEVER, SETTINGS, Ended(code, SECOND, 0), seed="x")
    assert isinstance(decision, Stay)
    assert decision.succeeded is succeeded


def test_the_first_end_of_a_settled_container_is_answered_at_once() -> None:
    """It ran for ten seconds: it can run."""
    decision = decide(RestartPolicy.ALWAYS, SETTINGS, Ended(1, timedelta(seconds=10), 0), seed="x")
    assert decision == Restart(timedelta(0), 1)


def test_a_container_that_ends_at_once_waits() -> None:
    """Even the first time: it may end at once for ever."""
    decision = decide(RestartPolicy.ALWAYS, SETTINGS, Ended(1, SECOND, 0), seed="x")
    assert isinstance(decision, Restart)
    assert decision.after >= SETTINGS.initial


def test_a_long_run_starts_the_curve_again() -> None:
    """After resetAfter the crashes before are forgotten."""
    decision = decide(RestartPolicy.ALWAYS, SETTINGS, Ended(1, SETTINGS.reset_after, 40), seed="x")
    assert decision == Restart(timedelta(0), 1)


def test_the_limit_of_restarts_in_a_row_ends_it() -> None:
    """The restart after the last allowed one is not made, and the reason says so."""
    settings = RestartBackoff(limit=3)
    assert isinstance(decide(RestartPolicy.ALWAYS, settings, Ended(1, SECOND, 2), seed="x"), Restart)
    decision = decide(RestartPolicy.ALWAYS, settings, Ended(1, SECOND, 3), seed="x")
    assert isinstance(decision, Stay)
    assert "limit of 3" in decision.reason


@given(crashes=st.integers(0, 10**6), ran=st.timedeltas(timedelta(0), timedelta(days=1)), code=st.integers(0, 255))
def test_a_wait_before_a_restart_is_within_its_bounds(crashes: int, ran: timedelta, code: int) -> None:
    """At once, or between initial and maximum, however often it crashed (case R1)."""
    decision = decide(RestartPolicy.ALWAYS, SETTINGS, Ended(code, ran, crashes), seed="x")
    assert isinstance(decision, Restart)
    assert decision.after == timedelta(0) or SETTINGS.initial <= decision.after <= SETTINGS.maximum
    assert decision.crashes == (1 if ran >= SETTINGS.reset_after else crashes + 1)
