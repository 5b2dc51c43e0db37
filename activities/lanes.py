# SPDX-License-Identifier: Apache-2.0
"""A queue for some slots, in which whoever is silent holds up nobody for long.

A pull or a start that hangs would keep its place for a minute or more. So a place from which nothing was heard for some seconds
is lent to the next in the queue, and its holder goes on without one; how many may do so is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

QUIET: Final = timedelta(seconds=3)
"""After this silence a place is lent. A registry that refuses connections needs as long to be found out by Podman."""
LENT_PER_SLOT: Final = 12
"""A pull that hangs costs a connection and little else; sixty of them are still no flood."""


class Place:
    """A place in a lane: waited for, then held."""

    def __init__(self) -> None:
        self.granted = asyncio.Event()
        self.heard_at = 0.0
        self.is_lent = False
        self.timer: asyncio.TimerHandle | None = None

    def progressed(self) -> None:
        """Its holder is not silent."""
        self.heard_at = asyncio.get_running_loop().time()


class Lane:
    """Some slots and the queue for them.

    Args:
        slots: places that are held at once by those who are heard of.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._queue: deque[Place] = deque()
        self._busy = 0
        self._lent = 0

    def join(self, place: Place) -> None:
        """Queue for a slot; ``place.granted`` tells when it is there, which may be at once."""
        self._queue.append(place)
        self._grant()

    def leave(self, place: Place) -> None:
        """Give the slot, or the place in the queue, to others."""
        if not place.granted.is_set():
            self._queue.remove(place)
            return
        if place.timer is not None:
            place.timer.cancel()
        if place.is_lent:
            self._lent -= 1
        else:
            self._busy -= 1
        self._grant()

    @asynccontextmanager
    async def hold(self, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Wait for a slot and hold it; ``on_wait`` is called once if there is something to wait for."""
        place = Place()
        self.join(place)
        try:
            if not place.granted.is_set():
                on_wait()
                await place.granted.wait()
            yield
        finally:
            self.leave(place)

    def _grant(self) -> None:
        while self._queue and self._busy < self._slots:
            place = self._queue.popleft()
            self._busy += 1
            place.granted.set()
            place.progressed()
            self._listen(place)

    def _listen(self, place: Place) -> None:
        loop = asyncio.get_running_loop()
        place.timer = loop.call_at(max(loop.time(), place.heard_at) + QUIET.total_seconds(), self._lend, place)

    def _lend(self, place: Place) -> None:
        silent = asyncio.get_running_loop().time() - place.heard_at
        if silent < QUIET.total_seconds() or self._lent >= self._slots * LENT_PER_SLOT:
            self._listen(place)
            return
        place.is_lent = True
        self._busy -= 1
        self._lent += 1
        self._grant()
