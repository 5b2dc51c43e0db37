# SPDX-License-Identifier: Apache-2.0
"""One try to see whether others are as far: what it believes, what it tells, how long it stays. Nothing ends it for good."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from activities.dependencies import LINGERERS, TRIES_PER_SECOND, DependencyActivities, Pace
from perdure.model.messages import WaitingOn
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.model.workload import DependencyCondition
from perdure.wire import names
from perdure.wire.contract import DependenciesRequest, Ticket

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUICK = Pace(between_looks=timedelta(0), linger=timedelta(0), quiet=timedelta(0))
RUNNING = WorkloadStatus(state=State.RUNNING, substate=Substate.OK, host="edge-1", name="db", since=NOW)
PULLING = RUNNING.model_copy(update={"state": State.PENDING, "substate": Substate.PULLING})


@dataclass
class Raw:
    """What the server tells beside the status."""

    has_news: bool

    def HasField(self, name: str) -> bool:  # noqa: N802 - as protobuf calls it
        """Whether a task is pending."""
        assert name == "pending_workflow_task"
        return self.has_news


@dataclass
class Seen:
    """A workload as the server describes it."""

    memo: WorkloadStatus | Exception = RUNNING
    status: WorkflowExecutionStatus = WorkflowExecutionStatus.RUNNING
    has_news: bool = False

    @property
    def raw_description(self) -> Raw:
        """Of this one."""
        return Raw(self.has_news)

    async def memo_value(self, key: str, *, type_hint: type) -> WorkloadStatus:
        """Its status."""
        assert (key, type_hint) == (names.MEMO_STATUS, WorkloadStatus)
        if isinstance(self.memo, Exception):
            raise self.memo
        return self.memo


@dataclass
class Server:
    """Describes workloads, one answer after the other, and takes what is told."""

    answers: list[Seen | RPCStatusCode] = field(default_factory=list)
    looks: int = 0
    told: list[WaitingOn] = field(default_factory=list)
    refuses: RPCStatusCode | None = None

    def get_workflow_handle(self, workflow_id: str, run_id: str | None = None) -> Server:
        """All are the same one."""
        assert workflow_id in ("workload/edge-1/db", "test"), run_id
        return self

    async def describe(self, rpc_timeout: timedelta) -> Seen:
        """The next answer; the last one stays."""
        assert rpc_timeout
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, RPCStatusCode):
            raise RPCError("no answer", answer, b"")
        return answer

    async def signal(self, signal: str, told: WaitingOn, rpc_timeout: timedelta) -> None:
        """Take it or refuse it."""
        assert signal == names.WAITING_ON
        assert rpc_timeout
        if self.refuses is not None:
            raise RPCError("refused", self.refuses, b"")
        self.told.append(told)


def activities(server: Server, pace: Pace = QUICK) -> DependencyActivities:
    return DependencyActivities(cast("Client", server), pace)


async def look(waits: DependencyActivities, *, attempt: int = 1, waited: float = 0, run: str = "run") -> Any:
    """One try; None where all are met, else the error that has it tried again."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info,
        attempt=attempt,
        started_time=NOW + timedelta(seconds=waited),
        scheduled_time=NOW,
        workflow_run_id=run,
    )
    ticket = Ticket(host="edge-1", name="web", incarnation="i", generation=1)
    request = DependenciesRequest(ticket=ticket, depends_on={"edge-1/db": DependencyCondition.RUNNING}, turn=7)
    try:
        await environment.run(waits.dependencies, request)
    except ApplicationError as error:
        return error
    return None


async def test_what_is_met_is_met_at_the_first_look() -> None:
    server = Server([Seen()])
    assert await look(activities(server)) is None
    assert (server.looks, server.told) == (1, [])


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Seen(PULLING), "edge-1/db is Pending/Pulling"),
        (Seen(status=WorkflowExecutionStatus.COMPLETED), "edge-1/db does not exist yet"),
        (RPCStatusCode.NOT_FOUND, "edge-1/db does not exist yet"),
        (Seen(has_news=True), "edge-1/db is taking up what was sent to it"),
        (Seen(RuntimeError("not ours")), "edge-1/db cannot be looked at (its status is of another version)"),
        (Seen(KeyError("status")), "edge-1/db cannot be looked at (its status is of another version)"),
        (RPCStatusCode.UNAVAILABLE, "edge-1/db cannot be looked at (UNAVAILABLE)"),
        (RPCStatusCode.PERMISSION_DENIED, "edge-1/db cannot be looked at (PERMISSION_DENIED)"),
    ],
)
async def test_what_is_not_met_is_told_and_looked_at_again(seen: Seen | RPCStatusCode, words: str) -> None:
    """Never for good, whatever is wrong."""
    server = Server([seen])
    error = await look(activities(server))
    assert error.message == f"{words}, wanted: running"
    assert not error.non_retryable
    assert timedelta(seconds=0.4) <= error.next_retry_delay <= timedelta(seconds=0.6)
    assert server.told == [WaitingOn(turn=7, unmet=(error.message,))]


async def test_the_same_news_is_told_once() -> None:
    """Also over many tries; another one is told as well."""
    server = Server([Seen(PULLING)])
    waits = activities(server)
    for attempt in range(1, 5):
        await look(waits, attempt=attempt, waited=attempt)
    assert len(server.told) == 1
    server.answers = [RPCStatusCode.NOT_FOUND]
    await look(waits, attempt=5, waited=10)
    assert len(server.told) == 2


async def test_a_crash_loop_is_not_told_each_time() -> None:
    """Nor is it forgotten: its news come at least every five minutes."""
    server = Server()
    waits = activities(server)
    for attempt in range(1, 721):
        server.answers = [Seen(PULLING) if attempt % 2 else RPCStatusCode.NOT_FOUND]
        await look(waits, attempt=attempt, waited=attempt * 5)
    assert 10 < len(server.told) < 30


async def test_what_could_not_be_told_is_told_by_the_next_look() -> None:
    server = Server([Seen(PULLING)], refuses=RPCStatusCode.UNAVAILABLE)
    waits = activities(server)
    assert await look(waits) is not None
    server.refuses = None
    await look(waits, attempt=2, waited=1)
    assert len(server.told) == 1


async def test_nobody_is_left_to_be_told_after_a_removal() -> None:
    server = Server([Seen(PULLING)], refuses=RPCStatusCode.NOT_FOUND)
    assert await look(activities(server)) is not None


async def test_a_quick_chain_tells_nothing() -> None:
    """It looks several times within one try, and is through before anybody has to be told."""
    server = Server([RPCStatusCode.NOT_FOUND, Seen(PULLING), Seen(PULLING), Seen()])
    pace = dataclasses.replace(QUICK, linger=timedelta(seconds=3), quiet=timedelta(seconds=1))
    assert await look(activities(server, pace)) is None
    assert (server.looks, server.told) == (4, [])


async def test_only_some_linger() -> None:
    """The others give their slot back after one look: thousands may wait."""
    server = Server([Seen(PULLING)])
    pace = Pace(between_looks=timedelta(seconds=1), linger=timedelta(minutes=1), longest_try=timedelta(minutes=1))
    waits = activities(server, pace)
    tries = [asyncio.create_task(look(waits, run=f"run-{number}")) for number in range(LINGERERS + 20)]
    done, lingering = await asyncio.wait(tries, timeout=0.5)
    assert len(done) == 20
    for one in lingering:
        one.cancel()
    await asyncio.gather(*lingering, return_exceptions=True)
    assert await asyncio.wait_for(look(activities(Server([Seen()]), pace)), 1) is None


async def test_many_that_wait_for_long_share_the_looks() -> None:
    """What one more costs does not add up without end."""
    waits = activities(Server([Seen(PULLING)]))
    count = TRIES_PER_SECOND * 20
    for number in range(count):
        await look(waits, waited=3600, run=f"run-{number}")
    error = await look(waits, waited=3600)
    assert error.next_retry_delay.total_seconds() == pytest.approx(20, rel=0.25)
