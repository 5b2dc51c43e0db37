# SPDX-License-Identifier: Apache-2.0
"""When to look whether a cause of failures is gone, whom to wake when it is, and how to spread those who are woken.

A registry that comes back meets everybody who waited for it. So they are woken one after the other, evenly: the waits of the
curve (``policy.backoff``) would keep some of them for minutes, and all at once would bring the registry down again.

Nobody is woken on a guess: the cause must have been seen to be there and then to be gone. And one who fails again soon after is
woken ever more rarely, and after some times not at all: a registry may well answer, and still not serve his image. The curve goes
on below all this, whatever is done here.
"""

from __future__ import annotations

from datetime import timedelta

from perdure.policy.backoff import uniform

WAKES_PER_SECOND = 8
"""A host that pulls large images is busy with fewer, and five hundred that wait are woken in a minute."""
LOOK_AGAIN_SECONDS = (1.5, 2.5)
LONG_OUTAGE = timedelta(minutes=10)
"""Until then the time between two looks grows, to six seconds at most: what is away for long needs less hurry."""
GROWTH = 1.4
WHILE_THERE = 3
"""What answers is looked at this much less often: who fails has it looked at at once."""
FIRST_REST = timedelta(seconds=4)
LONGEST_REST = timedelta(seconds=300)
WAKES_WITHOUT_OUTAGE = 6
"""A registry may answer some minutes before all of it works; after that the curve is enough."""
OUTAGE_WAIT_SECONDS = (8.0, 16.0)


def look_again(lasted: timedelta, *, is_there: bool, seed: str, n: int) -> timedelta:
    """The time to the next look, after a cause has been as it is for so long."""
    scale = WHILE_THERE if is_there else 1 + GROWTH * min(1.0, lasted / LONG_OUTAGE)
    return timedelta(seconds=scale * uniform(seed, n, *LOOK_AGAIN_SECONDS))


def moment(position: int, seed: str) -> timedelta:
    """How long after the recovery the one at a position (counted from 0) is woken. Later positions never come sooner."""
    if position == 0:
        return timedelta(0)
    return timedelta(seconds=(position + uniform(seed, position, -0.5, 0.5)) / WAKES_PER_SECOND)


def rest(wakes: int) -> timedelta:
    """How long one who was woken so often in one wait, and failed each time, is not woken again."""
    if wakes == 0:
        return timedelta(0)
    return min(LONGEST_REST, FIRST_REST * (1 << min(wakes - 1, 16)))


def may_wake(*, wakes: int, was_away: bool, rested: timedelta) -> bool:
    """Whether one who waits for a cause that is gone may be woken.

    Args:
        wakes: how often that was done in this wait.
        was_away: whether the cause was seen to be there since then, or since the wait began.
        rested: the time since the last wake.
    """
    return rested >= rest(wakes) and (was_away or 0 < wakes < WAKES_WITHOUT_OUTAGE)


def outage_wait(seed: str, attempt: int) -> timedelta:
    """The least wait of one whose registry is known to be away: he is woken, so there is nothing to be hasty about."""
    return timedelta(seconds=uniform(f"{seed}/outage", attempt, *OUTAGE_WAIT_SECONDS))
