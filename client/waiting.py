# SPDX-License-Identifier: Apache-2.0
"""Waiting for a workload to get somewhere, without being fooled.

A status may be older than the user's last wish: the wish is kept by the server, and the workflow has not seen it yet. The server
tells so (a workflow task is pending), and then what the status says is not believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from client.errors import NotFound, NoWorker, Parked, Superseded, TimedOut
from client.presence import PATIENCE, Attendance, absence, last_seen
from client.statuses import from_description
from perdure.model.observation import Health
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.wire import names

FIRST_LOOK_AGAIN: Final = timedelta(milliseconds=50)
_BETWEEN_TRIES: Final = (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.STOP_BACKOFF)
"""The substates that the last error explains."""
SLOWEST_LOOK: Final = timedelta(seconds=1)
"""A look costs the server 2 ms."""
RPC_TIMEOUT: Final = timedelta(seconds=5)
KEPT: Final = "What was sent is kept, and takes effect when the worker is back."


class Condition(StrEnum):
    """What can be waited for."""

    RUNNING = "running"
    HEALTHY = "healthy"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PAUSED = "paused"
    REMOVED = "removed"


def _is_healthy(status: WorkloadStatus) -> bool:
    """Running, and its healthcheck says that it is well; running alone where it has none. One that is starting is not yet."""
    live = status.live if status.state is State.RUNNING else None
    return live is not None and live.health in (Health.HEALTHY, Health.NONE)


_MET: Final[dict[Condition, Callable[[WorkloadStatus], bool]]] = {
    Condition.RUNNING: lambda status: status.state is State.RUNNING,
    Condition.HEALTHY: _is_healthy,
    Condition.SUCCEEDED: lambda status: status.state is State.SUCCEEDED,
    Condition.FAILED: lambda status: status.state is State.FAILED,
    Condition.PAUSED: lambda status: status.state is State.PAUSED,
    Condition.REMOVED: lambda status: status.state is State.REMOVED,
}
_ENDS: Final = {
    Condition.RUNNING: (State.FAILED, State.SUCCEEDED, State.PAUSED),
    Condition.HEALTHY: (State.FAILED, State.SUCCEEDED, State.PAUSED),
    Condition.SUCCEEDED: (State.FAILED, State.PAUSED),
    Condition.FAILED: (State.SUCCEEDED, State.PAUSED),
    Condition.PAUSED: (),
    Condition.REMOVED: (),
}
"""From these states a workload does not get to the condition by itself."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a workload."""

    status: WorkloadStatus
    is_current: bool
    """False while something that was sent has not reached the workflow yet."""
    life: str
    """The incarnation of the workflow."""


async def look(client: Client, host: str, name: str) -> Look:
    """Look at a workload.

    Raises:
        NotFound: it is not there, or was removed.
        Incompatible: its status cannot be read.
        RPCError: the server does not answer.
    """
    handle = client.get_workflow_handle(names.workload_id(host, name))
    try:
        description = await handle.describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFound.workload(f"{host}/{name}") from error
        raise
    if description.status is not WorkflowExecutionStatus.RUNNING:
        raise NotFound.workload(f"{host}/{name}")
    raw = description.raw_description
    status = await from_description(description)
    life = status.incarnation or raw.workflow_execution_info.first_run_id
    return Look(status, not raw.HasField("pending_workflow_task"), life)


class Waiting:
    """Waits for one workload.

    Args:
        client: of the fleet.
        host: of the workload.
        name: of the workload.
        listener: told of every status that differs from the one before.
    """

    def __init__(self, client: Client, host: str, name: str, listener: Callable[[WorkloadStatus], None]) -> None:
        self._client = client
        self._host = host
        self._name = name
        self._listener = listener
        self._last: WorkloadStatus | None = None
        self._lost_since: float | None = None

    @property
    def label(self) -> str:
        """``HOST/NAME``."""
        return f"{self._host}/{self._name}"

    async def until(
        self, condition: Condition, *, timeout: timedelta, generation: int | None = None
    ) -> WorkloadStatus | None:
        """Wait until the condition holds, for the wishes sent so far or for a generation.

        Returns:
            The status that meets it; None where it was removed, as wanted.

        Raises:
            NotFound: there is no such workload, or it was removed meanwhile.
            Parked: it failed, or ended, and will not get there by itself.
            Superseded: a newer generation took the place of the one waited for.
            NoWorker: nobody does the work.
            TimedOut: it did not get there in time.
        """
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._until(condition, generation)
        except TimeoutError:
            raise TimedOut(
                f"{self.label} is not {condition} after {timeout.total_seconds():.3g} s{self._is_now()}",
                f"It goes on by itself: `perdure describe {self.label}`.",
                self._last,
            ) from None

    async def settled(self, timeout: timedelta) -> WorkloadStatus | None:
        """Wait until what was sent has reached the workflow; None where that ended it, TimedOut where it takes too long."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                async with aclosing(self._looks()) as looks:
                    async for seen in looks:
                        if seen.is_current:
                            return seen.status
        except NotFound:
            return None
        except TimeoutError:
            pass
        raise TimedOut(
            f"{self.label} has not taken note of it within {timeout.total_seconds():g} s",
            "It is kept, and takes effect when a control worker runs.",
            self._last,
        )

    async def _until(self, condition: Condition, generation: int | None) -> WorkloadStatus | None:
        life = None
        async with AsyncExitStack() as stack:
            host = await stack.enter_async_context(Attendance(self._client, names.host_queue(self._host)))
            control = await stack.enter_async_context(Attendance(self._client, names.CONTROL_QUEUE))
            looks = await stack.enter_async_context(aclosing(self._looks()))
            try:
                async for seen in looks:
                    life = life or seen.life
                    if seen.life != life:
                        raise NotFound.workload(self.label)
                    self._check_presence(seen, control, names.CONTROL_QUEUE, KEPT, is_needed=not seen.is_current)
                    if seen.is_current and self._is_met(condition, generation, seen.status):
                        return seen.status
                    hint = self._abandon if condition is Condition.REMOVED else KEPT
                    self._check_presence(seen, host, names.host_queue(self._host), hint, is_needed=seen.is_current)
                    self._check_loss(seen.status)
            except NotFound:
                if condition is Condition.REMOVED and life is not None:
                    return None
                raise
        raise AssertionError("looks never end")

    def _is_met(self, condition: Condition, generation: int | None, status: WorkloadStatus) -> bool:
        if generation is not None and status.generation != generation:
            if status.generation < generation:
                return False
            raise Superseded(
                f"{self.label} is at generation {status.generation}: a newer apply took the place of {generation}",
                f"See what it is now: `perdure describe {self.label}`.",
                status,
            )
        if _MET[condition](status):
            return True
        if status.state in _ENDS[condition]:
            raise self._parked(condition, status)
        return False

    def _parked(self, condition: Condition, status: WorkloadStatus) -> Parked:
        error = status.last_error
        because = f": {error.kind}: {error.message}" if error is not None and status.state is State.FAILED else ""
        hint = error.hint if error is not None and error.hint and because else f"See `perdure describe {self.label}`."
        return Parked(
            f"{self.label} is {status.state}({status.substate}) and will not be {condition} by itself{because}",
            hint,
            status,
        )

    @property
    def _abandon(self) -> str:
        return f"It is removed when the worker is back. If that is never: `perdure delete --force {self.label}`."

    def _check_presence(self, seen: Look, attendance: Attendance, queue: str, hint: str, *, is_needed: bool) -> None:
        if is_needed and (presence := attendance.absent) is not None:
            raise NoWorker(
                f"{absence(queue, presence)}: {self.label} is {seen.status.state}({seen.status.substate})",
                hint,
                presence.seen_at,
            )

    def _check_loss(self, status: WorkloadStatus) -> None:
        """A worker that hangs may look alive from outside; what its host's workflow says of it counts as well."""
        if status.state is not State.UNKNOWN:
            self._lost_since = None
            return
        now = asyncio.get_running_loop().time()
        self._lost_since = self._lost_since or now
        if now - self._lost_since >= PATIENCE.total_seconds():
            raise NoWorker(
                f"host {self._host} does not answer, {last_seen(status.host_seen_at)}:"
                f" {self.label} is {status.state}({status.substate})",
                f"Look at the host: `perdure describe host {self._host}`. It goes on by itself.",
                status.host_seen_at,
            )

    async def _looks(self) -> AsyncGenerator[Look, None]:
        """Look again and again, ever slower; a server that is away is waited for."""
        wait = FIRST_LOOK_AGAIN
        while True:
            try:
                seen = await look(self._client, self._host, self._name)
            except RPCError as error:
                if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.INVALID_ARGUMENT):
                    raise
            else:
                if seen.status != self._last:
                    self._last = seen.status
                    self._listener(seen.status)
                yield seen
            await asyncio.sleep(wait.total_seconds())
            wait = min(wait * 1.5, SLOWEST_LOOK)

    def _is_now(self) -> str:
        if self._last is None:
            return ""
        error = self._last.last_error if self._last.substate in _BETWEEN_TRIES else None
        because = f", {error.kind}: {error.message}" if error is not None else ""
        if self._last.waiting_on:
            because = f", {'; '.join(self._last.waiting_on)}"
        if self._last.live is not None and self._last.live.health is Health.STARTING:
            because += ", and its healthcheck has not said anything yet"
        return f": it is {self._last.state}({self._last.substate}){because}"
