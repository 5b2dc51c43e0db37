# SPDX-License-Identifier: Apache-2.0
"""Who may pull or start now, in time that leaps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from activities.lanes import LENT_PER_SLOT, QUIET, Lane
from activities.pull_slots import PullSlots, Slots
from tests.fakes.waiting_host import now
from tests.support.leaping_loop import leaping

QUIET_SECONDS = QUIET.total_seconds()


class Pulls:
    """Pulls that last as long as a test wants."""

    def __init__(self, slots: int) -> None:
        self.slots = PullSlots(slots)
        self.began: dict[str, float] = {}
        self.waited: list[str] = []
        self.under_way: set[str] = set()
        self.most = 0
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, who: str, image: str = "", *, seconds: float = 1e6, first: bool = True, speaks: bool = True
    ) -> None:
        """Somebody wants an image, or one of its own."""
        self.tasks[who] = asyncio.create_task(self._pull(who, image or who, seconds, first, speaks))

    async def _pull(self, who: str, image: str, seconds: float, first: bool, speaks: bool) -> None:
        async with self.slots.hold(image, is_first=first, on_wait=lambda: self.waited.append(who)) as place:
            self.began[who] = now()
            self.under_way.add(who)
            self.most = max(self.most, len(self.under_way))
            ends = now() + seconds
            while now() < ends:
                await asyncio.sleep(min(1.0, ends - now()))
                if speaks:
                    place.progressed()
            self.under_way.discard(who)


def played(story: Callable[[Pulls], Coroutine[Any, Any, None]], slots: int) -> None:
    """Play a story on some slots; whoever still pulls at its end is called off."""

    async def play() -> None:
        pulls = Pulls(slots)
        await story(pulls)
        for task in pulls.tasks.values():
            task.cancel()
        await asyncio.gather(*pulls.tasks.values(), return_exceptions=True)
        assert pulls.slots._wanted == {}
        for lane in (pulls.slots._first, pulls.slots._again):
            assert (lane._busy, lane._lent, len(lane._queue)) == (0, 0, 0), "all is given back"

    leaping(play())


def test_no_more_than_the_slots_pull_at_once() -> None:
    """The others wait their turn, are told so, and none is forgotten."""

    async def story(pulls: Pulls) -> None:
        for number in range(10):
            pulls.begin(f"web-{number}", seconds=5)
        await asyncio.gather(*pulls.tasks.values())
        assert pulls.most == 3
        assert pulls.waited == [f"web-{number}" for number in range(3, 10)]
        assert list(pulls.began) == [f"web-{number}" for number in range(10)], "who came first is served first"

    played(story, slots=3)


def test_retries_never_delay_a_fresh_one() -> None:
    """However many there are, and though each is busy."""

    async def story(pulls: Pulls) -> None:
        for number in range(30):
            pulls.begin(f"retry-{number}", first=False)
        await asyncio.sleep(10)
        pulls.begin("fresh")
        await asyncio.sleep(0)
        assert pulls.began["fresh"] == now()
        assert len(pulls.under_way) == 4

    played(story, slots=3)


@pytest.mark.parametrize("hung", [1, 3, 12])
def test_those_who_hang_hold_up_nobody_for_long(hung: int) -> None:
    """A slot from which nothing is heard is lent to the next."""

    async def story(pulls: Pulls) -> None:
        for number in range(hung):
            pulls.begin(f"hung-{number}", speaks=False)
        await asyncio.sleep(1)
        pulls.begin("fresh", seconds=1)
        began = now()
        await pulls.tasks["fresh"]
        rounds = hung // 3
        assert pulls.began["fresh"] - began <= rounds * QUIET_SECONDS

    played(story, slots=3)


def test_lending_is_bounded() -> None:
    """A host is not flooded by pulls that all hang."""

    async def story(pulls: Pulls) -> None:
        for number in range(50):
            pulls.begin(f"hung-{number}", speaks=False)
        await asyncio.sleep(1000)
        assert pulls.most == 2 + 2 * LENT_PER_SLOT

    played(story, slots=2)


def test_one_image_needs_one_slot() -> None:
    """Those who want the same image wait for no slot, nor does its slot go when one of them goes."""

    async def story(pulls: Pulls) -> None:
        for number in range(100):
            pulls.begin(f"web-{number}", "app:1")
        pulls.begin("other")
        await asyncio.sleep(0)
        assert len(pulls.under_way) == 100
        assert "other" not in pulls.began
        for number in range(99):
            pulls.tasks[f"web-{number}"].cancel()
        await asyncio.sleep(1)
        assert "other" not in pulls.began
        pulls.tasks["web-99"].cancel()
        await asyncio.sleep(1)
        assert "other" in pulls.began

    played(story, slots=1)


def test_a_fresh_one_takes_the_retry_of_its_image_along() -> None:
    """It must not wait behind the retries because one of them came before it."""

    async def story(pulls: Pulls) -> None:
        pulls.begin("busy", first=False)
        pulls.begin("retry", "app:1", first=False)
        await asyncio.sleep(1)
        pulls.begin("fresh", "app:1")
        await asyncio.sleep(0.01)
        assert {"retry", "fresh"} <= pulls.under_way

    played(story, slots=1)


def test_who_is_called_off_in_the_queue_leaves_it() -> None:
    """The next one is served in its place."""

    async def story(pulls: Pulls) -> None:
        pulls.begin("busy", seconds=5)
        pulls.begin("gone")
        pulls.begin("next", seconds=1)
        await asyncio.sleep(1)
        pulls.tasks["gone"].cancel()
        await pulls.tasks["next"]
        assert "gone" not in pulls.began

    played(story, slots=1)


def test_a_start_that_hangs_holds_up_no_other_retry_for_long() -> None:
    """Half of the engine's slots are for retries of starts, and a silent one lends its place."""

    async def story() -> None:
        starts: Lane = Slots.of(pulls=5, starts=4).late_starts
        began: list[float] = []

        async def hang() -> None:
            async with starts.hold(lambda: None):
                began.append(now())
                await asyncio.sleep(1000)

        tasks = [asyncio.create_task(hang()) for _ in range(4)]
        await asyncio.sleep(10)
        assert [moment - began[0] for moment in began] == [0, 0, QUIET_SECONDS, QUIET_SECONDS]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    leaping(story())
