# SPDX-License-Identifier: Apache-2.0
"""The rules of waking: when to look, whom to wake, how to spread."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.policy import waking

SECOND = timedelta(seconds=1)


@given(lasted=st.timedeltas(min_value=timedelta(0)), seed=st.text(), n=st.integers(0, 10**6))
def test_an_outage_is_looked_at_every_few_seconds(lasted: timedelta, seed: str, n: int) -> None:
    """However long it lasts, and never in step with others."""
    pause = waking.look_again(lasted, is_there=False, seed=seed, n=n)
    assert 1.5 * SECOND <= pause <= 6 * SECOND
    if lasted < SECOND:
        assert pause < 2.51 * SECOND


@given(count=st.integers(1, 600), seed=st.text(), begins=st.floats(0, 100))
def test_the_woken_are_spread_evenly(count: int, seed: str, begins: float) -> None:
    """The first at once, each later than the one before, and no second has three times as many as the mean."""
    moments = [waking.moment(position, seed) for position in range(count)]
    assert moments[0] == timedelta(0)
    assert moments == sorted(moments)
    start = timedelta(seconds=begins)
    assert sum(start <= moment < start + SECOND for moment in moments) <= waking.WAKES_PER_SECOND + 2
    assert moments[-1] <= timedelta(seconds=(count + 1) / waking.WAKES_PER_SECOND)


@given(wakes=st.integers(0, 10**9))
def test_who_is_woken_in_vain_rests_ever_longer(wakes: int) -> None:
    """Up to five minutes."""
    assert waking.rest(wakes) <= waking.rest(wakes + 1) <= timedelta(seconds=300)


@pytest.mark.parametrize(
    ("wakes", "was_away", "rested", "expected"),
    [
        (0, False, 0, False),  # what was never seen to be away cannot be back
        (0, True, 0, True),
        (1, True, 3, False),  # it must rest
        (1, True, 4, True),
        (1, False, 4, True),  # a registry may answer a little before all of it works
        (5, False, 64, True),
        (6, False, 10**6, False),  # but not for ever
        (6, True, 128, True),
        (50, True, 299, False),
        (50, True, 300, True),
    ],
)
def test_who_may_be_woken(wakes: int, was_away: bool, rested: int, expected: bool) -> None:
    """By how often that was in vain."""
    assert waking.may_wake(wakes=wakes, was_away=was_away, rested=rested * SECOND) is expected


@given(seed=st.text(), attempt=st.integers(1, 10**9))
def test_the_wait_while_a_registry_is_away(seed: str, attempt: int) -> None:
    """Eight to sixteen seconds: an outage of a minute costs few tries."""
    assert 8 * SECOND <= waking.outage_wait(seed, attempt) <= 16 * SECOND
