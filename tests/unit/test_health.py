# SPDX-License-Identifier: Apache-2.0
"""What the runs of a healthcheck say together."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.observation import Health
from perdure.model.workload import Healthcheck
from perdure.policy.health import Judgement, judged, pause

SECOND = timedelta(seconds=1)
CHECK = Healthcheck(test=("CMD", "true"), interval=SECOND, retries=3, start_period=10 * SECOND)
SHORT = {Health.STARTING: "s", Health.HEALTHY: "h", Health.UNHEALTHY: "u"}


def course(runs: str, *, first_at: int = 1, check: Healthcheck = CHECK) -> str:
    """What is held after each run of a check, one a second; ``+`` succeeds and ``-`` fails."""

    def step(before: Judgement, run: tuple[int, str]) -> Judgement:
        return judged(before, check, succeeded=run[1] == "+", ran_for=(first_at + run[0]) * SECOND)

    found = accumulate(enumerate(runs), step, initial=Judgement())
    return "".join(SHORT[judgement.health] for judgement in found)[1:]


@pytest.mark.parametrize(
    ("runs", "first_at", "held"),
    [
        ("+", 0, "h"),
        ("---", 10, "ssu"),
        ("--+", 10, "ssh"),
        ("+--+--+---", 10, "hhhhhhhhhu"),
        ("----", 10, "ssuu"),
        ("---+", 10, "ssuh"),
        ("---+---", 10, "ssuhhhu"),
        # The start period: failures do not count before its end ...
        ("-" * 9, 1, "s" * 9),
        ("-" * 12, 1, "s" * 11 + "u"),
        # ... and a success ends it.
        ("-+---", 0, "shhhu"),
    ],
)
def test_what_is_held_after_each_run(runs: str, first_at: int, held: str) -> None:
    """Starting, healthy or unhealthy."""
    assert course(runs, first_at=first_at) == held


def test_one_retry_is_the_first_failure() -> None:
    """It counts failures, not tries after the first one."""
    assert course("-", check=CHECK.model_copy(update={"retries": 1, "start_period": timedelta(0)})) == "u"


def test_who_has_just_started_is_asked_soon_and_loses_nothing_by_a_failure() -> None:
    """After 1, 2, 4, 8, 16 seconds and then each interval; what fails before the first interval is over does not count."""
    check = Healthcheck(test=("CMD", "true"), interval=30 * SECOND, retries=1)
    at, held, asked = timedelta(0), Judgement(), []
    while held.health is Health.STARTING:
        at += pause(held, check, at)
        asked.append(at // SECOND)
        held = judged(held, check, succeeded=False, ran_for=at)
    assert (asked, held.health) == ([1, 2, 4, 8, 16, 32], Health.UNHEALTHY)
    for settled in (held, Judgement(Health.HEALTHY)):
        assert pause(settled, check, SECOND) == check.interval
    assert pause(Judgement(), CHECK.model_copy(update={"interval": SECOND / 2}), timedelta(0)) == SECOND / 2


@given(st.text("+-", min_size=1, max_size=40), st.integers(1, 5))
def test_unhealthy_is_what_has_failed_in_a_row(runs: str, retries: int) -> None:
    """Without a start period the end of the row alone decides."""
    check = CHECK.model_copy(update={"retries": retries, "start_period": timedelta(0)})
    last, row = [(result, len(list(same))) for result, same in groupby(runs)][-1]
    held = course(runs, check=check)[-1]
    assert (held == "h") == (last == "+" or (row < retries and "+" in runs))
    assert (held == "u") == (last == "-" and row >= retries)
