# SPDX-License-Identifier: Apache-2.0
"""Fixtures of workflow tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.fakes.engine import FakeEngine
from tests.support.temporal import TemporalServer
from tests.workflow.fleet import Fleet, fleet_of


@pytest.fixture
def engine() -> FakeEngine:
    """An engine in memory."""
    return FakeEngine()


@pytest.fixture
async def real_fleet(dev_client: Client, engine: FakeEngine) -> AsyncIterator[Fleet]:
    """A fleet on the real server, for what races: the time-skipping one loses a cancel that meets the activity's end."""
    async with fleet_of(WorkflowEnvironment.from_client(dev_client), engine) as fleet:
        yield fleet
    await terminate_all(dev_client)


@pytest.fixture(scope="session")
def forgetful_server() -> Iterator[TemporalServer]:
    """A server that wants a new run after eighty events already."""
    with TemporalServer(dynamic_config=("limit.historyCount.suggestContinueAsNew=80",)) as server:
        yield server


@pytest.fixture
async def short_runs(forgetful_server: TemporalServer, engine: FakeEngine) -> AsyncIterator[Fleet]:
    """A fleet whose workflows continue as new all the time."""
    client = await forgetful_server.connect()
    async with fleet_of(WorkflowEnvironment.from_client(client), engine) as fleet:
        yield fleet
    await terminate_all(client)


async def terminate_all(client: Client) -> None:
    """Leave nothing to the next test on the same server."""
    async for row in client.list_workflows('ExecutionStatus="Running"'):
        await client.get_workflow_handle(row.id, run_id=row.run_id).terminate("the test is over")


@pytest.fixture
async def fleet(temporal: WorkflowEnvironment, engine: FakeEngine) -> AsyncIterator[Fleet]:
    """A fleet of one host on the server that ``--temporal`` names."""
    async with fleet_of(temporal, engine) as fleet:
        yield fleet
