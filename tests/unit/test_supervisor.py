# SPDX-License-Identifier: Apache-2.0
"""Parts are kept running whatever stands in the way."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure.runtime import supervisor
from perdure.runtime.processes import Process


@dataclass
class Troubled:
    """A part that cannot be started a few times."""

    troubles: list[Exception]
    name: str = "host"
    log: Path = Path("/nowhere/host.log")
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def running(self) -> Process | None:
        """This process, once it is started."""
        return Process.of(os.getpid()) if self.started.is_set() else None

    async def start(self) -> Process:
        """Fail, or start."""
        if self.troubles:
            raise self.troubles.pop()
        self.started.set()
        process = self.running()
        assert process is not None
        return process

    async def stop(self) -> bool:
        """Nothing to stop."""
        return False


async def test_a_full_disk_ends_no_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the part that cannot write its pid file, nor that of the others."""
    monkeypatch.setattr(supervisor, "FIRST_WAIT", supervisor.FIRST_WAIT / 100)
    full = OSError(errno.ENOSPC, "No space left on device", "host.pid.new")
    parts = [Troubled([full, full]), Troubled([], name="control")]
    keeping = asyncio.create_task(supervisor.keep(parts, Path("/nowhere/supervisor.log")))
    async with asyncio.timeout(10):
        for part in parts:
            await part.started.wait()
    assert not keeping.done()
    keeping.cancel()
