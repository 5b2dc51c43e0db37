# SPDX-License-Identifier: Apache-2.0
"""Keeps the parts of a stack running: one that ends is started again, ever later if it ends again and again.

It holds no state that matters. If it dies, the parts go on, and the next one adopts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from perdure.runtime import log_files
from perdure.runtime.parts import Part
from perdure.runtime.problems import StackProblem

logger = logging.getLogger("perdure.stack")

FIRST_WAIT: Final = timedelta(milliseconds=500)
LONGEST_WAIT: Final = timedelta(seconds=30)
GOOD_RUN: Final = timedelta(minutes=1)
"""After a run of this length the waits begin anew."""


async def start_missing(parts: Sequence[Part]) -> None:
    """Start what does not run, in this order, each when the one before it is ready. Raises StackProblem."""
    for part in parts:
        if part.running() is None:
            await part.start()
            logger.info("part is started", extra={"part": part.name})
        else:
            logger.info("part is adopted", extra={"part": part.name})


async def keep(parts: Sequence[Part], own_log: Path) -> None:
    """Keep all parts running, and their logs and our own small, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(log_files.keep_small([own_log, *(part.log for part in parts)]))
        for part in parts:
            group.create_task(_keep(part))


async def stop(parts: Sequence[Part]) -> list[str]:
    """Stop the parts, the last one first. Returns the names of those that ran."""
    return [part.name for part in reversed(parts) if await part.stop()]


async def _keep(part: Part) -> None:
    clock = asyncio.get_running_loop().time
    wait = FIRST_WAIT
    while True:
        begun = clock()
        if (process := part.running()) is not None:
            await process.ended()
            logger.warning("part has ended", extra={"part": part.name, "pid": process.pid})
        if clock() - begun >= GOOD_RUN.total_seconds():
            wait = FIRST_WAIT
        await asyncio.sleep(wait.total_seconds())
        wait = min(2 * wait, LONGEST_WAIT)
        if part.running() is not None:
            continue  # a start that was told as failed may have come through
        try:
            started = await part.start()
        except (StackProblem, OSError) as problem:  # a full disk too is over some day
            logger.warning("part cannot be started", extra={"part": part.name, "cause": str(problem)})
        else:
            logger.info("part is started again", extra={"part": part.name, "pid": started.pid})
