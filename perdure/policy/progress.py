# SPDX-License-Identifier: Apache-2.0
"""When a pull counts as stalled.

A pull may take hours: what counts is that bytes keep coming. A trickle (a byte a minute) is silence, so a minimum must
arrive within each window. Once everything that was announced is there, the host only unpacks, and tells nothing of it:
then a longer patience holds, that grows with the size of the image, since a slow disk is no reason to begin again.

The clock is the caller's: times are seconds on any scale that only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Stage(StrEnum):
    """How far a pull is."""

    WAITING = "waiting for the registry's answer"
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a pull may go without progress."""

    window: timedelta = timedelta(seconds=60)
    """While an answer or bytes are outstanding."""
    bytes_per_second: int = 1024
    """The slowest rate over a window that still counts as progress; a link over GPRS gives twice as much."""
    unpacking: timedelta = timedelta(minutes=10)
    """Once every announced byte is there, at least."""
    unpacked_bytes_per_second: int = 1 << 20
    """The slowest disk, in compressed bytes, for images that need longer than that."""


class Pace:
    """Follows one pull and knows when to stop waiting for it."""

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._sizes: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._complete: set[str] = set()
        self._fetched: set[str] = set()
        self._mark_at = now
        self._mark_bytes = 0

    @property
    def stage(self) -> Stage:
        """Where the pull is now."""
        if not self._complete.issuperset(self._done):
            return Stage.DOWNLOADING
        # Parts that were there before need no unpacking: after them a silence is the registry's.
        return Stage.UNPACKING if self._fetched else Stage.WAITING

    @property
    def done_bytes(self) -> int:
        """Bytes that arrived, of all parts."""
        return sum(self._done.values())

    @property
    def total_bytes(self) -> int:
        """Bytes of all parts whose size is known."""
        return sum(self._sizes.values())

    @property
    def limit(self) -> timedelta:
        """How long the pull may go without progress where it is now."""
        if self.stage is not Stage.UNPACKING:
            return self._patience.window
        needed = timedelta(seconds=self.done_bytes / self._patience.unpacked_bytes_per_second)
        return max(self._patience.unpacking, needed)

    @property
    def expires_at(self) -> float:
        """The time at which the pull is stalled unless there is progress before."""
        return self._mark_at + self.limit.total_seconds()

    def announced(self, part: str, now: float) -> None:
        """A part of the image is known to be needed."""
        if part not in self._done:
            self._done[part] = 0
            self._fetched.add(part)
            self._advance(now)

    def received(self, part: str, done: int, total: int, now: float) -> None:
        """So many bytes of a part are there. Counts as progress once a window's minimum has come since the last mark."""
        self.announced(part, now)
        self._done[part] = max(done, self._done[part])
        self._sizes[part] = max(total, done)
        if self.done_bytes - self._mark_bytes >= self._least_bytes:
            self._advance(now)

    def completed(self, part: str, now: float) -> None:
        """A part is there, or was there already."""
        if part not in self._complete:
            self._done[part] = max(self._done.get(part, 0), self._sizes.get(part, 0))
            self._complete.add(part)
            self._advance(now)

    @property
    def _least_bytes(self) -> float:
        return max(1.0, self._patience.bytes_per_second * self._patience.window.total_seconds())

    def _advance(self, now: float) -> None:
        self._mark_at = now
        self._mark_bytes = self.done_bytes
