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
from perdure.policy.health import Judgement, judged

CHECK = Healthcheck(test=("CMD", "true"), retries=3, start_period=timedelta(seconds=10))
SHORT = {Health.STARTING: "s", Health.HEALTHY: "h", Health.UNHEALTHY: "u"}


def course(runs: str, *, first_at: int = 0, check: Healthcheck = CHECK) -> str:
    """What is held after each run of a check, one a second; ``+`` succeeds and ``-`` fails."""

    def step(before: Judgement, run: tuple[int, str]) -> Judgement:
        return judged(before, check, succeeded=run[1] == "+", ran_for=timedelta(seconds=first_at + run[0]))

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


@given(st.text("+-", min_size=1, max_size=40), st.integers(1, 5))
def test_unhealthy_is_what_has_failed_in_a_row(runs: str, retries: int) -> None:
    """Without a start period the end of the row alone decides."""
    check = Healthcheck(test=("CMD", "true"), retries=retries)
    last, row = [(result, len(list(same))) for result, same in groupby(runs)][-1]
    held = course(runs, check=check)[-1]
    assert (held == "h") == (last == "+" or (row < retries and "+" in runs))
    assert (held == "u") == (last == "-" and row >= retries)
