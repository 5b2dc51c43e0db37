# SPDX-License-Identifier: Apache-2.0
"""What ``perdure delete`` makes of a workload that is gone sooner than it looks."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from client.api import Reconciler
from client.cli.commands.change import until_removed
from client.errors import NotFound, TimedOut

MINUTE = timedelta(minutes=1)


async def test_what_is_gone_before_the_first_look_is_removed() -> None:
    fleet = AsyncMock(spec=Reconciler)
    fleet.wait.side_effect = NotFound.workload("edge-1/web")
    await until_removed(fleet, "edge-1", "web", MINUTE)


async def test_what_stays_is_told() -> None:
    fleet = AsyncMock(spec=Reconciler)
    fleet.wait.side_effect = TimedOut("edge-1/web is not removed after 60 s", "", None)
    with pytest.raises(TimedOut):
        await until_removed(fleet, "edge-1", "web", MINUTE)
