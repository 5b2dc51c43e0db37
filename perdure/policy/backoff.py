# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next try: decorrelated jitter, capped, the same for the same seed.

``delay(n) = min(cap, uniform(base, 3 * delay(n - 1)))``: a crowd that failed together does not come back together, and no wait is
ever below the base or above the cap. The draw of try *n* is a hash of the seed and *n*, so nothing has to be remembered
between tries, a test can foretell every wait, and two workloads (their seeds differ) never march in step.

The curve forgets: where a wait began is of no consequence some tens of draws later. So a chain is followed for at most
``CHAIN`` draws and begins again at the cap, which bounds the cost of try one million to that of try one thousand.
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import blake2b

CHAIN = 1024
"""How many draws a chain has."""


def uniform(seed: str, n: int, low: float, high: float) -> float:
    """A number of [low, high], drawn from the seed and n alone."""
    draw = int.from_bytes(blake2b(f"{seed}/{n}".encode(), digest_size=8).digest(), "big") / 2**64
    return low + (high - low) * draw


def delay(n: int, *, seed: str, base: timedelta, cap: timedelta) -> timedelta:
    """The wait after failed try n (counted from 1), within [min(base, cap), cap]. Raises ValueError for n < 1."""
    if n < 1:
        raise ValueError(f"tries are counted from 1, not {n}")
    ceiling = cap.total_seconds()
    floor = min(base.total_seconds(), ceiling)
    chain_start = (n - 1) // CHAIN * CHAIN
    wait = floor if chain_start == 0 else ceiling
    for draw in range(chain_start + 1, n + 1):
        wait = min(ceiling, uniform(seed, draw, floor, max(floor, 3 * wait)))
    return max(min(base, cap), min(cap, timedelta(seconds=wait)))


def report_interval(repeats: int) -> timedelta:
    """How long an error that goes on is not reported again: an hour, doubling to a day, since each report costs history."""
    return timedelta(hours=min(24, 1 << min(repeats, 5)))


def clamp_to_deadline(wait: timedelta, left: timedelta, *, reserve: timedelta) -> timedelta | None:
    """The wait, shortened so that the try after it still falls before a deadline that is ``left`` away.

    ``reserve`` is kept free for that last try. None means that no further try fits: it is time to give up. Temporal gives up
    at once if a wait ends behind the deadline, up to a whole cap too early; hence this rule.
    """
    if wait + reserve <= left:
        return wait
    room = left - reserve
    return room if room > reserve else None
