# SPDX-License-Identifier: Apache-2.0
"""Keeps the logs of a stack's parts small, while they are written.

A part writes to a file that was opened for it, so a file that is moved away would go on growing there. Its text is copied and
the file is emptied in its place: whoever appends notices nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

logger = logging.getLogger("perdure.stack")

LARGEST_BYTES: Final = 10 * 1024 * 1024
LOOK_EVERY: Final = timedelta(seconds=30)


async def keep_small(logs: Sequence[Path]) -> None:
    """Put aside what is too large, again and again, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_EVERY.total_seconds())
        for log in logs:
            try:
                await asyncio.to_thread(put_aside, log)
            except OSError as problem:
                logger.warning("log cannot be put aside", extra={"log": str(log), "cause": str(problem)})


def put_aside(log: Path) -> bool:
    """Move the text of a large log to ``NAME.log.1``, in the place of the one before. Answers whether it was large."""
    if not log.exists() or log.stat().st_size <= LARGEST_BYTES:
        return False
    fresh = log.with_suffix(".log.new")
    with log.open("rb") as text, fresh.open("wb") as copy:
        shutil.copyfileobj(text, copy)
        # What is written between these two lines is lost; nothing else is.
        os.truncate(log, 0)
    fresh.replace(log.with_suffix(".log.1"))
    return True
