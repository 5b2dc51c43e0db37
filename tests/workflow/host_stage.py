# SPDX-License-Identifier: Apache-2.0
"""A host's supervision on a real server, with an engine in memory, and workloads that are nothing but their memo.

Their workflows are started where no worker is: they keep what they were started with, and every signal that they are sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, Interceptor, OutboundInterceptor
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from activities.engine import Engine, EngineFault, Managed, Ownership
from activities.fence import Fence
from activities.sight import Sight
from activities.supervision import Supervision
from perdure.model.host import ResyncReport
from perdure.model.messages import RetryRequest
from perdure.model.observation import ContainerState, Health, LastExit, Live, Observation
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import names
from perdure.wire.contract import Ticket
from tests.fakes.engine import FakeEngine
from tests.support.waiting import eventually_async

FLEET_ID = "this-server"
BEGAN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class CountedEngine(FakeEngine):
    """Counts its lists; they may fail, or hang, for one workload or for all."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: Counter[str] = Counter()
        self.troubles: dict[str, EngineFault] = {}
        """By workload, or "" for the list of all."""
        self.hanging_lists: set[str] = set()
        self._released = asyncio.Event()

    def release(self) -> None:
        """Let the lists that hang go on."""
        self.hanging_lists.clear()
        self._released.set()

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """Look, fail, or hang."""
        what = workload or ""
        self.lists[what] += 1
        if what in self.troubles:
            raise self.troubles[what]
        if what in self.hanging_lists:
            await self._released.wait()
        return await super().list_managed(fleet, host, workload)


class Counting(Interceptor):
    """Counts what is asked of Temporal."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - the SDK's name
        return _Counting(next, self.calls)


class _Counting(OutboundInterceptor):
    def __init__(self, inner: OutboundInterceptor, calls: Counter[str]) -> None:
        super().__init__(inner)
        self._calls = calls

    def list_workflows(self, input: Any) -> Any:  # noqa: A002
        self._calls["list"] += 1
        return super().list_workflows(input)

    async def describe_workflow(self, input: Any) -> Any:  # noqa: A002
        self._calls["describe"] += 1
        return await super().describe_workflow(input)

    async def signal_workflow(self, input: Any) -> None:  # noqa: A002
        self._calls["signal"] += 1
        await super().signal_workflow(input)


class HostStage:
    """One host of its own name, what is on it, and what its workloads were told.

    Args:
        client: of a real server.
        engine: instead of the one in memory.
    """

    def __init__(self, client: Client, engine: Engine | None = None) -> None:
        self.counting = Counting()
        self.client = Client(
            client.service_client,
            namespace=client.namespace,
            data_converter=client.data_converter,
            interceptors=[self.counting],
        )
        self.host = f"host-{uuid4().hex[:8]}"
        self.engine = CountedEngine()
        self._real_engine = engine
        self.fence = Fence(self._nobody)
        self.workloads: list[str] = []

    async def _nobody(self, _: str) -> str | None:
        return None

    def supervision(self, **settings: Any) -> Supervision:
        """As of a worker that starts."""
        engine = self._real_engine or self.engine
        sight = Sight(engine, self.client.namespace, self.host, FLEET_ID)
        return Supervision(self.client, engine, sight, self.fence, **settings)

    # ---- what is there ----

    async def workload(
        self,
        name: str,
        state: State = State.RUNNING,
        substate: Substate = Substate.OK,
        *,
        up: bool = True,
        memo: object = None,
    ) -> None:
        """A workload in Temporal, whose container should be up."""
        live = Live(generation=1, container_id=container_id(name), started_at=BEGAN) if up else None
        status = WorkloadStatus(
            state=state,
            substate=substate,
            host=self.host,
            name=name,
            generation=1,
            since=BEGAN,
            live=live,
            incarnation="life-1",
        )
        self.workloads.append(name)
        await self.client.start_workflow(
            names.WORKLOAD_WORKFLOW,
            args=[None],
            id=names.workload_id(self.host, name),
            task_queue=f"nobody-{self.host}",
            memo={names.MEMO_STATUS: status if memo is None else memo},
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(names.SA_HOST, self.host),
                    SearchAttributePair(names.SA_STATE, state.value),
                ]
            ),
        )

    def container(self, workload: str, state: ContainerState = ContainerState.RUNNING, **changes: Any) -> Managed:
        """A container on the host."""
        owner = replace(
            owner_of(self, workload),
            fleet=changes.pop("fleet", self.client.namespace),
            fleet_id=changes.pop("fleet_id", FLEET_ID),
        )
        values = {
            "container_id": container_id(workload),
            "name": f"{workload}-g1",
            "owner": owner,
            "state": state,
            "pid": 0,
            "started_at": BEGAN,
            "exit": LastExit(code=changes.pop("code", 1), at=BEGAN) if state is ContainerState.EXITED else None,
            "health": Health.NONE,
            **changes,
        }
        one = self.engine.containers[values["container_id"]] = Managed(**values)
        return one

    async def that_all_are_listed(self) -> None:
        """Wait until Temporal's list, which lags a moment, tells of all workloads."""
        query = f'{names.SA_HOST.name}="{self.host}" AND ExecutionStatus="Running"'

        async def look() -> bool:
            return (await self.client.count_workflows(query)).count == len(self.workloads)

        await eventually_async(look, within=10, what="all workloads are listed")

    # ---- what was told ----

    async def signals(self, workload: str, signal: str) -> list[Any]:
        """The payloads of signals that a workload was sent."""
        handle = self.client.get_workflow_handle(names.workload_id(self.host, workload))
        found = []
        async for event in handle.fetch_history_events():
            told = event.workflow_execution_signaled_event_attributes
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED and told.signal_name == signal:
                kind = Observation if signal == names.OBSERVE else RetryRequest
                found += await self.client.data_converter.decode(told.input.payloads, [kind])
        return found

    async def told(self, workload: str) -> list[Observation]:
        """The observations that a workload was sent."""
        return await self.signals(workload, names.OBSERVE)

    async def all_told(self) -> dict[str, list[str]]:
        """The states in the observations that each workload was sent; those that were sent none are left out."""
        told = {name: [seen.state.value for seen in await self.told(name)] for name in self.workloads}
        return {name: states for name, states in told.items() if states}

    async def that_is_told(self, workload: str, state: ContainerState, within: float = 5) -> Observation:
        """Wait until a workload was sent an observation of this state, and return it."""

        async def look() -> Observation | None:
            return next((seen for seen in await self.told(workload) if seen.state is state), None)

        found = await eventually_async(look, within=within, what=f"{workload} is told {state}")
        assert found is not None
        return found

    async def end(self) -> None:
        """Leave no workflow behind."""
        handles = [self.client.get_workflow_handle(names.workload_id(self.host, name)) for name in self.workloads]
        await asyncio.gather(*(handle.terminate("the test is over") for handle in handles))


def container_id(workload: str) -> str:
    """The id of a workload's container."""
    return f"container-of-{workload}"


def found_in(report: ResyncReport) -> dict[str, tuple[str, str]]:
    """The differences of a report by workload: what was found, what was done."""
    return {one.workload: (one.found, one.done) for one in report.differences}


def names_of(report: ResyncReport) -> Sequence[str]:
    """The workloads that differ."""
    return [one.workload for one in report.differences]


def ticket(stage: HostStage, name: str = "web") -> Ticket:
    """A request for a workload."""
    return Ticket(host=stage.host, name=name, incarnation="life-1", generation=1)


def owner_of(stage: HostStage, workload: str) -> Ownership:
    """Whose a container of a workload is."""
    return Ownership(stage.client.namespace, stage.host, workload, "life-1", 1, "hash", "", "shop", FLEET_ID)
