# SPDX-License-Identifier: Apache-2.0
"""The first instruction of each container, seen through a file that it appends a line to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNT: Final = "/stamps"
SCRIPT: Final = 'echo started >> "/stamps/$NAME"; trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
POLL_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class Stamps:
    """The folder that is mounted into every container of the benchmark."""

    folder: Path

    def wait(self, name: str, *, starts: int = 1, within_seconds: float = 60) -> float:
        """Wait for a container's n-th start, and return its time in seconds since the epoch.

        Raises:
            TimeoutError: it did not come.
        """
        path = self.folder / name
        deadline = time.monotonic() + within_seconds
        while self.starts(name) < starts:
            if time.monotonic() > deadline:
                raise TimeoutError(f"start {starts} of {name} did not come within {within_seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        return path.stat().st_mtime_ns / 1e9

    def starts(self, name: str) -> int:
        """How often a container was started so far."""
        try:
            return (self.folder / name).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0
