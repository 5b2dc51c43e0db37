# SPDX-License-Identifier: Apache-2.0
"""The news of a host reaches every workload, whatever befalls one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.activity import Info
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.tidings import AT_ONCE, Tidings
from perdure.model.host import HostChange
from perdure.wire import names
from perdure.wire.contract import TellRequest, TellResult

REQUEST = TellRequest(host="edge-1", change=HostChange(lost=True))


@dataclass
class Row:
    """A workload in the list."""

    id: str


class Server:
    """Lists workloads and takes signals, but for some."""

    def __init__(self, *workloads: str) -> None:
        self.workloads = [names.workload_id("edge-1", name) for name in workloads]
        self.refuses: dict[str, RPCStatusCode] = {}
        self.told: list[str] = []
        self.queries: list[str] = []

    async def list_workflows(self, query: str, page_size: int) -> AsyncIterator[Row]:
        """All workloads."""
        self.queries.append(query)
        for workload in self.workloads:
            yield Row(workload)

    def get_workflow_handle(self, workflow_id: str) -> Handle:
        """One of them."""
        return Handle(self, workflow_id)


@dataclass
class Handle:
    """A workload to signal."""

    server: Server
    workflow_id: str

    async def signal(self, signal: str, change: HostChange, rpc_timeout: timedelta) -> None:
        """Take it or refuse it."""
        assert (signal, change) == (names.HOST_CHANGED, REQUEST.change)
        refusal = self.server.refuses.get(self.workflow_id)
        if refusal is not None:
            raise RPCError("refused", refusal, b"")
        self.server.told.append(self.workflow_id)


async def tell(server: Server, told_before: tuple[str, ...] = ()) -> tuple[TellResult | None, list[Any]]:
    """One try; its result, or None where it has to be tried again, and its latest heartbeat."""
    beats: list[Any] = []
    environment = ActivityEnvironment()
    info: Info = environment.info
    environment.info = Info(**{**info.__dict__, "heartbeat_details": [list(told_before)] if told_before else []})
    environment.on_heartbeat = beats.append
    try:
        result = await environment.run(Tidings(cast("Client", server)).tell_workloads, REQUEST)
    except ApplicationError:
        return None, beats[-1]
    return result, beats[-1] if beats else []


async def test_one_that_cannot_be_told_keeps_no_other_from_it() -> None:
    """It is tried again, alone."""
    server = Server("a", "b", "c")
    server.refuses["workload/edge-1/b"] = RPCStatusCode.RESOURCE_EXHAUSTED
    result, told = await tell(server)
    assert result is None
    assert server.told == told == ["workload/edge-1/a", "workload/edge-1/c"]
    server.refuses.clear()
    result, _ = await tell(server, tuple(told))
    assert result == TellResult(told=3)
    assert server.told[2:] == ["workload/edge-1/b"]
    assert 'WorkflowType="Workload" AND ExecutionStatus="Running" AND PerdureHost="edge-1"' in server.queries


async def test_one_that_has_gone_meanwhile_needs_no_telling() -> None:
    """The list may be older than the truth."""
    server = Server("a")
    server.refuses["workload/edge-1/a"] = RPCStatusCode.NOT_FOUND
    result, _ = await tell(server)
    assert result is not None


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, 5 * AT_ONCE + 1])
async def test_all_are_told_however_many(count: int) -> None:
    """In parts of some at once."""
    server = Server(*(f"w{number}" for number in range(count)))
    assert (await tell(server))[0] == TellResult(told=count)
    assert server.told == server.workloads
