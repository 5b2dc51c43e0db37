# SPDX-License-Identifier: Apache-2.0
"""What goes on in the background for as long as a worker lives, whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

logger = logging.getLogger(__name__)


@asynccontextmanager
async def beside(*lives: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let these live until the end of the block."""
    tasks = [asyncio.create_task(life) for life in lives]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def outliving_own_faults(then: str, **where: object) -> Iterator[None]:
    """Log a fault that nobody foresaw, with its traceback, and go on after the block.

    The one place that catches everything, around one round of a loop: a loop that such a fault ended would look like a quiet
    host, for good and without a word. What is expected to fail is caught inside, where it has its answer. A cancellation passes.

    Args:
        then: what makes up for what was left undone, for people.
        where: more for the log.
    """
    try:
        yield
    except Exception:
        logger.exception("a fault of Perdure itself", extra={"then": then, **where})
