# SPDX-License-Identifier: Apache-2.0
"""Who may pull now. First tries and retries have slots of their own, so that no crowd of failing pulls delays a fresh one.

A slot belongs to an image: those who want the same one share its pull, and one slot. The time in the queue is no time of the
pull, whose deadline begins when it does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from activities.lanes import Lane, Place


@dataclass(slots=True)
class _Wanted:
    """An image that is pulled or is to be pulled, and how many want it."""

    lane: Lane
    place: Place = field(default_factory=Place)
    users: int = 0


class PullSlots:
    """The slots of one host.

    Args:
        slots: pulls at once, of first tries and of retries each.
    """

    def __init__(self, slots: int) -> None:
        self._first = Lane(slots)
        self._again = Lane(slots)
        self._wanted: dict[str, _Wanted] = {}

    @asynccontextmanager
    async def hold(self, image: str, *, is_first: bool, on_wait: Callable[[], None]) -> AsyncIterator[Place]:
        """Wait for the image's slot and hold it; tell its place of every progress.

        Args:
            image: whoever wants one that is pulled already waits for no slot.
            is_first: of a first try; it takes a retry that waits for the same image along into its lane.
            on_wait: called once if there is something to wait for.
        """
        wanted = self._join(image, self._first if is_first else self._again)
        try:
            if not wanted.place.granted.is_set():
                on_wait()
                await wanted.place.granted.wait()
            yield wanted.place
        finally:
            self._leave(image, wanted)

    def _join(self, image: str, lane: Lane) -> _Wanted:
        wanted = self._wanted.get(image)
        if wanted is None:
            wanted = self._wanted[image] = _Wanted(lane)
            lane.join(wanted.place)
        elif lane is self._first and wanted.lane is not lane and not wanted.place.granted.is_set():
            wanted.lane.leave(wanted.place)
            wanted.lane = lane
            lane.join(wanted.place)
        wanted.users += 1
        return wanted

    def _leave(self, image: str, wanted: _Wanted) -> None:
        wanted.users -= 1
        if not wanted.users:
            del self._wanted[image]
            wanted.lane.leave(wanted.place)


@dataclass(frozen=True, slots=True)
class Slots:
    """All that is counted on one host in the process of its worker."""

    pulls: PullSlots
    late_starts: Lane
    """For starts after a failed one. First starts wait for nobody but each other, in the engine."""

    @classmethod
    def of(cls, *, pulls: int, starts: int) -> Self:
        """The slots of a host whose engine starts so many containers at once; half of these at most are retries."""
        return cls(PullSlots(pulls), Lane(max(1, starts // 2)))
