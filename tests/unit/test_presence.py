# SPDX-License-Identifier: Apache-2.0
"""Whether somebody works for a queue, told by signs of life that bear the time of a worker's own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from temporalio.client import Client

from client import presence
from client.presence import Attendance
from perdure.runtime.presence import Presence

YEARS_AGO = datetime(2019, 1, 1, tzinfo=UTC)


@pytest.fixture
def heartbeats(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Looks that follow each other quickly, each at a sign of life that is so much younger than the one before."""
    monkeypatch.setattr(presence, "LOOK_EVERY", timedelta(milliseconds=10))
    monkeypatch.setattr(presence, "PATIENCE", timedelta(milliseconds=100))

    def set_step(step: timedelta) -> None:
        at = YEARS_AGO

        async def look(*_: object) -> Presence:
            nonlocal at
            at += step
            return Presence(alive=False, seen_at=at)

        monkeypatch.setattr(presence, "last_heartbeats", look)

    return set_step


async def test_a_worker_whose_clock_is_years_off_is_there(heartbeats: Callable[[timedelta], None]) -> None:
    heartbeats(timedelta(seconds=5))
    async with Attendance(Mock(spec=Client), "perdure/host/edge-1") as attendance:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(attendance.missed(), 0.5)


async def test_a_worker_that_gives_no_new_sign_is_missed(heartbeats: Callable[[timedelta], None]) -> None:
    heartbeats(timedelta(0))
    async with Attendance(Mock(spec=Client), "perdure/host/edge-1") as attendance:
        missed = await asyncio.wait_for(attendance.missed(), 10)
    assert missed.startswith("no worker for host edge-1, last seen 2019-01-01 00:00:00 UTC")
