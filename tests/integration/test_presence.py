# SPDX-License-Identifier: Apache-2.0
"""Whether a worker is there, on a real server with real heartbeats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from perdure.runtime import presence
from perdure.runtime.presence import Presence, last_heartbeats
from perdure.runtime.telemetry import runtime
from perdure.wire.converter import data_converter
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async


@activity.defn
async def nothing() -> None:
    """Never called."""


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    """With the runtime of all our processes: others send heartbeats too seldom."""
    temporal_server.start()
    return await Client.connect(temporal_server.address, data_converter=data_converter(), runtime=runtime())


@pytest.fixture
def queue() -> str:
    return f"perdure/host/{uuid4().hex[:8]}"


async def test_nobody_was_ever_there(client: Client, queue: str) -> None:
    assert await last_heartbeats(client, queue) == Presence(alive=False, seen_at=None)


async def test_a_worker_is_there_until_it_stops(client: Client, queue: str) -> None:
    """It is heard of at once, and is gone at once where it stops in peace."""

    async def is_alive() -> bool:
        return (await last_heartbeats(client, queue)).alive

    async with Worker(client, task_queue=queue, activities=[nothing]):
        await eventually_async(is_alive, within=20)
        found = await last_heartbeats(client, queue)
        assert found.seen_at is not None
        assert datetime.now(UTC) - found.seen_at < timedelta(seconds=20)
        assert (await last_heartbeats(client, queue, identity=client.identity)).alive
        assert await last_heartbeats(client, queue, identity="somebody else") == Presence(alive=False, seen_at=None)

    async def is_gone() -> bool:
        return not (await last_heartbeats(client, queue)).alive

    await eventually_async(is_gone, within=20)
    assert (await last_heartbeats(client, queue)).seen_at is not None


async def test_a_heartbeat_that_is_too_old_is_no_sign_of_life(
    client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed stays listed as running."""

    async def is_known() -> bool:
        return (await last_heartbeats(client, queue)).seen_at is not None

    async with Worker(client, task_queue=queue, activities=[nothing]):
        await eventually_async(is_known, within=20)
        monkeypatch.setattr(presence, "ALIVE_WITHIN", timedelta(0))
        assert not (await last_heartbeats(client, queue)).alive


async def test_servers_without_heartbeats_are_asked_for_pollers(
    client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unimplemented(*_: object) -> Presence:
        raise RPCError("unknown method ListWorkers", RPCStatusCode.UNIMPLEMENTED, b"")

    monkeypatch.setattr(presence, "_by_heartbeats", unimplemented)
    assert await last_heartbeats(client, queue) == Presence(alive=False, seen_at=None)

    async def is_alive() -> bool:
        return (await last_heartbeats(client, queue)).alive

    async with Worker(client, task_queue=queue, activities=[nothing]):
        await eventually_async(is_alive, within=20)
        assert not (await last_heartbeats(client, queue, identity="somebody else")).alive
