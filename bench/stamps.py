# SPDX-License-Identifier: Apache-2.0
"""The first instruction of each container, seen through a file that it appends a line to."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNT: Final = "/stamps"
SCRIPT: Final = 'echo started >> "/stamps/$NAME"; trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
POLL_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class Stamps:
    """The folder that is mounted into every container of the benchmark."""

    folder: Path

    async def wait(self, name: str, *, starts: int = 1, within_seconds: float = 60) -> float:
        """Wait for a container's n-th start, and return the time of its latest one in seconds since the epoch.

        Raises:
            TimeoutError: it did not come.
        """
        deadline = time.monotonic() + within_seconds
        while self.starts(name) < starts:
            if time.monotonic() > deadline:
                raise TimeoutError(f"start {starts} of {name} did not come within {within_seconds:.0f} s")
            await asyncio.sleep(POLL_SECONDS)
        return self.latest(name)

    async def wait_all(self, names: tuple[str, ...], *, within_seconds: float = 60) -> float:
        """Wait until all have started, and return the time of the last start."""
        return max([await self.wait(name, within_seconds=within_seconds) for name in names])

    def latest(self, name: str) -> float:
        """When a container was started last."""
        return (self.folder / name).stat().st_mtime_ns / 1e9

    def starts(self, name: str) -> int:
        """How often a container was started so far."""
        try:
            return (self.folder / name).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0
