# SPDX-License-Identifier: Apache-2.0
"""The waits between tries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.policy import backoff

BASE = timedelta(milliseconds=500)
CAP = timedelta(seconds=300)

durations = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(seconds=300))


@given(n=st.integers(1, 10**6), seed=st.text(), base=durations, cap=durations)
def test_a_wait_is_never_below_the_base_nor_above_the_cap(n: int, seed: str, base: timedelta, cap: timedelta) -> None:
    """For every try up to a million, and any settings; a cap below the base wins."""
    wait = backoff.delay(n, seed=seed, base=base, cap=cap)
    assert min(base, cap) <= wait <= cap


@given(n=st.integers(1, 10**6), seed=st.text())
def test_a_wait_can_be_foretold(n: int, seed: str) -> None:
    """The same seed and number give the same wait, in any process."""
    assert backoff.delay(n, seed=seed, base=BASE, cap=CAP) == backoff.delay(n, seed=seed, base=BASE, cap=CAP)


def test_waits_are_pinned() -> None:
    """Fleets of mixed versions agree on the curve: these numbers may never change."""
    seen = [
        round(backoff.delay(n, seed="incarnation/1/pull", base=BASE, cap=CAP).total_seconds(), 3) for n in (1, 2, 3, 8)
    ]
    assert seen == [1.397, 3.578, 1.261, 1.297]


def test_the_curve_reaches_the_cap_and_stays_high() -> None:
    """Over a thousand seeds the mean wait of try fifty is above a hundred seconds."""
    waits = [backoff.delay(50, seed=str(seed), base=BASE, cap=CAP).total_seconds() for seed in range(1000)]
    assert sum(waits) / len(waits) > 100
    assert max(waits) == CAP.total_seconds()


def test_workloads_that_failed_together_come_back_apart() -> None:
    """Five hundred first waits spread over their range: no tenth of it holds more than a fifth of them."""
    waits = [backoff.delay(1, seed=f"{n}/1/pull", base=BASE, cap=CAP) for n in range(500)]
    low, high = BASE, 3 * BASE
    buckets = [0] * 10
    for wait in waits:
        buckets[min(9, int((wait - low) / (high - low) * 10))] += 1
    assert max(buckets) <= 100


def test_tries_in_the_first_hour_are_few() -> None:
    """An hour of refusals costs 42 tries in the middle, and at most 90 for 19 workloads of 20 (case L2)."""
    counts = sorted(_tries_within(timedelta(hours=1), seed=str(seed)) for seed in range(1000))
    assert counts[500] <= 45
    assert counts[950] <= 90


def _tries_within(span: timedelta, seed: str) -> int:
    passed, tries = timedelta(0), 0
    while passed < span:
        tries += 1
        passed += backoff.delay(tries, seed=seed, base=BASE, cap=CAP)
    return tries


def test_tries_are_counted_from_one() -> None:
    """A number below is a mistake of the caller."""
    with pytest.raises(ValueError, match="counted from 1"):
        backoff.delay(0, seed="", base=BASE, cap=CAP)


@given(wait=durations, left=st.timedeltas(min_value=timedelta(0), max_value=timedelta(hours=1)))
def test_a_clamped_wait_leaves_room_for_the_last_try(wait: timedelta, left: timedelta) -> None:
    """The next try begins before the deadline, or there is none; a wait is only ever shortened."""
    reserve = timedelta(seconds=2)
    clamped = backoff.clamp_to_deadline(wait, left, reserve=reserve)
    if clamped is None:
        assert wait + reserve > left
    else:
        assert timedelta(0) < clamped <= wait
        assert clamped + reserve <= left
