# SPDX-License-Identifier: Apache-2.0
"""An event loop whose time leaps: where nothing is ready, it is the next timer's time at once. For code without real I/O."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Leaping(selectors.DefaultSelector):
    """Waits for nothing, and tells how long it should have waited."""

    leapt = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is ready and no timer is set: this would wait for ever")
            self.leapt += max(0.0, timeout)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """Begins at a time that looks like that of a machine which has been up for a while."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Seconds, real ones left out."""
        return 1000.0 + self._leaping.leapt


def leaping(work: Coroutine[Any, Any, Result]) -> Result:
    """Run something in time that leaps."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work)
