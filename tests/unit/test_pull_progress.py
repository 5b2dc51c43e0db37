# SPDX-License-Identifier: Apache-2.0
"""When a pull counts as stalled: silence and trickles do, slow links and slow disks do not."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from perdure.policy.progress import Pace, Patience, Stage

WINDOW = 60
PATIENCE = Patience()


def test_silence_from_the_start_ends_after_the_window() -> None:
    """A registry that accepts and never answers."""
    pace = Pace(PATIENCE, now=100)
    assert pace.stage is Stage.WAITING
    assert pace.expires_at == 100 + WINDOW


def test_silence_in_the_middle_of_a_blob_ends_after_the_window() -> None:
    """Half of a blob, then nothing."""
    pace = Pace(PATIENCE, now=0)
    pace.received("layer", 5_000_000, 10_000_000, now=20)
    assert pace.stage is Stage.DOWNLOADING
    assert pace.expires_at == 20 + WINDOW


def test_a_trickle_is_silence() -> None:
    """A byte a minute never moves the deadline."""
    pace = Pace(PATIENCE, now=0)
    pace.announced("layer", now=1)
    for minute in range(1, 5):
        pace.received("layer", minute, 10_000_000, now=60 * minute)
    assert pace.expires_at == 1 + WINDOW


def test_a_healthy_slow_pull_of_ten_minutes_goes_on() -> None:
    """A megabyte a second, told once a second."""
    pace = Pace(PATIENCE, now=0)
    for second in range(1, 600):
        pace.received("layer", second << 20, 600 << 20, now=second)
        assert pace.expires_at > second + 1


@given(st.lists(st.integers(min_value=1, max_value=20), min_size=1, max_size=200))
def test_a_link_at_twice_the_least_rate_never_stalls(waits: list[int]) -> None:
    """However unevenly the news of its bytes comes, within a third of the window."""
    pace = Pace(PATIENCE, now=0)
    now, done = 0, 0
    pace.announced("layer", now=0)
    for wait in waits:
        now += wait
        assert now < pace.expires_at
        done += 2 * PATIENCE.bytes_per_second * wait
        pace.received("layer", done, 10**12, now=now)


def test_unpacking_has_a_longer_patience() -> None:
    """All bytes are there, and a slow disk writes them."""
    pace = Pace(PATIENCE, now=0)
    pace.received("layer", 10_000_000, 10_000_000, now=5)
    pace.completed("layer", now=6)
    assert pace.stage is Stage.UNPACKING
    assert pace.expires_at == 6 + 600


def test_unpacking_a_large_image_may_take_as_long_as_its_size_asks() -> None:
    """Four gigabytes on an old memory card are not begun again every ten minutes."""
    pace = Pace(PATIENCE, now=0)
    pace.received("layer", 4 << 30, 4 << 30, now=5)
    pace.completed("layer", now=6)
    assert pace.limit == timedelta(seconds=4096)


def test_parts_that_were_there_before_need_no_unpacking() -> None:
    """The base is local, and the registry falls silent before the first byte of what is new."""
    pace = Pace(PATIENCE, now=0)
    pace.completed("base", now=1)
    assert pace.stage is Stage.WAITING
    assert pace.expires_at == 1 + WINDOW


def test_one_outstanding_part_keeps_the_short_patience() -> None:
    """Nine parts are there and the tenth hangs."""
    pace = Pace(PATIENCE, now=0)
    for part in range(9):
        pace.announced(str(part), now=1)
        pace.completed(str(part), now=2)
    pace.announced("tenth", now=3)
    assert pace.stage is Stage.DOWNLOADING
    assert pace.expires_at == 3 + WINDOW


def test_bytes_are_counted_over_all_parts() -> None:
    """What a user sees as progress."""
    pace = Pace(PATIENCE, now=0)
    pace.received("a", 10, 100, now=1)
    pace.received("b", 20, 50, now=1)
    assert (pace.done_bytes, pace.total_bytes) == (30, 150)
    pace.completed("b", now=2)
    assert pace.done_bytes == 60
