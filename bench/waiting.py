# SPDX-License-Identifier: Apache-2.0
"""Waiting until something is so, never longer than is reasonable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.02


async def until(
    holds: Callable[[], bool | Awaitable[bool]],
    what: str,
    *,
    within_seconds: float = 120,
    poll_seconds: float = POLL_SECONDS,
) -> float:
    """Wait until it holds, and return the time when that was seen, in seconds since the epoch.

    Raises:
        TimeoutError: it never did.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return time.time()
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {within_seconds:.0f} s for nothing: {what}")
        await asyncio.sleep(poll_seconds)
