# SPDX-License-Identifier: Apache-2.0
"""Fixtures of workflow tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.testing import WorkflowEnvironment

from tests.fakes.engine import FakeEngine
from tests.workflow.fleet import Fleet, fleet_of


@pytest.fixture
def engine() -> FakeEngine:
    """An engine in memory."""
    return FakeEngine()


@pytest.fixture
async def fleet(temporal: WorkflowEnvironment, engine: FakeEngine) -> AsyncIterator[Fleet]:
    """A fleet of one host on the server that ``--temporal`` names."""
    async with fleet_of(temporal, engine) as fleet:
        yield fleet
