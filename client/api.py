# SPDX-License-Identifier: Apache-2.0
"""The Python client: everything that the command line can do, typed, and without a printed word.

```python
async with await Reconciler.connect() as fleet:
    for result in await fleet.apply(manifests):
        if result.answer is not None:
            ...
    status = await fleet.status("edge-1", "web")
```

Errors are those of ``client.errors`` and ``perdure.runtime.problems``.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from client import applied_before, applying, cycles, forgetting, hosts, listing, planning, resyncing
from client.applying import Applying, ApplyResult, Wish
from client.errors import Ambiguous, NotFound
from client.hosts import EVERY_HOST, HostFilters, HostView
from client.listing import EVERYTHING, Filters
from client.running import until_running
from client.waiting import Condition, Waiting, look
from perdure.model.host import ResyncReport
from perdure.model.messages import RetryRequest
from perdure.model.status import WorkloadStatus
from perdure.runtime.connect import Target, connect, find_target
from perdure.runtime.presence import Presence, last_heartbeats
from perdure.runtime.problems import Unreachable
from perdure.runtime.settings import Settings
from perdure.wire import names

if TYPE_CHECKING:
    from perdure.model.manifest import Manifest

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = timedelta(seconds=60)
SETTLE_TIMEOUT: Final = timedelta(seconds=10)


class Wait(StrEnum):
    """How long ``apply`` stays."""

    NONE = "none"
    """Until the server keeps it."""
    FIRST_ATTEMPT = "first-attempt"
    RUNNING = "running"


def _ignore(_: object) -> None:
    return


class Reconciler:
    """A fleet, seen by a user. Made by ``connect``."""

    def __init__(self, client: Client, target: Target, by: str) -> None:
        self._client = client
        self._target = target
        self._by = by

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, by: str = "") -> Self:
        """Connect to the fleet of the settings.

        Args:
            settings: where it is; None reads the environment and the files.
            by: who acts, for the history, for example ``alice@laptop``; empty takes the user of this process.

        Raises:
            SettingsProblem: a setting cannot be used.
            Unreachable: Temporal does not answer.
        """
        settings = settings or Settings.load()
        by = by or this_user()
        return cls(await connect(settings, f"cli/{by}"), find_target(settings), by)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held: the SDK shares its connection and closes it with the process."""

    async def apply(
        self,
        manifests: Sequence[Manifest],
        *,
        wait: Wait = Wait.FIRST_ATTEMPT,
        timeout: timedelta = DEFAULT_TIMEOUT,
        expect_generation: int | None = None,
        listener: Callable[[ApplyResult], None] = _ignore,
    ) -> tuple[ApplyResult, ...]:
        """Apply manifests, all or (where one cannot be sent at all) none.

        Args:
            manifests: what should be.
            wait: how long to stay.
            timeout: at most so long; the workloads go on without us.
            expect_generation: refuse each workload that is not at this generation now; 0 means that it must not exist.
            listener: told of every step.

        Returns:
            One result for each workload, in the order of the manifests. A server that dies in the middle is told of there.

        Raises:
            Duplicate, TooLarge, Circular: nothing was sent.
        """
        wishes = await self._prepared(manifests, expect_generation)
        batch = Applying(self._client, wishes, listener, asks=wait is not Wait.NONE)
        results = await batch.send()
        if wait is Wait.NONE:
            return results
        clock = asyncio.get_running_loop().time
        begun = clock()
        results = await batch.follow(timeout)
        if wait is Wait.FIRST_ATTEMPT:
            return results
        left = timeout - timedelta(seconds=clock() - begun)
        return await self._told(until_running(self._client, results, max(left, timedelta(0))))

    async def plan(self, manifests: Sequence[Manifest]) -> tuple[planning.Planned, ...]:
        """What ``apply`` would do to each workload. Raises what ``apply`` raises before it sends anything."""
        wishes = await self._prepared(manifests, None)
        return await self._told(planning.plan(self._client, wishes))

    async def _prepared(self, manifests: Sequence[Manifest], expect_generation: int | None) -> Sequence[Wish]:
        """What is to be sent, if nothing stands against it, also not in what was applied before."""
        wishes = applying.prepare(manifests, expect_generation=expect_generation, by=self._by)
        targets = [wish.target for wish in wishes]
        cycles.refuse(targets, await self._told(applied_before.dependencies(self._client, targets)))
        return wishes

    async def status(self, host: str, name: str) -> WorkloadStatus:
        """The latest of one workload. Raises NotFound."""
        return (await self._told(look(self._client, host, name))).status

    async def list(self, filters: Filters = EVERYTHING) -> tuple[WorkloadStatus, ...]:
        """The latest of all workloads that match, ordered by host and name."""
        return await self._told(listing.find(self._client, filters))

    async def watch(
        self, filters: Filters = EVERYTHING, *, interval: timedelta = timedelta(seconds=1)
    ) -> AsyncIterator[tuple[WorkloadStatus, ...]]:
        """All workloads that match, now and whenever one of them has changed."""
        last: tuple[WorkloadStatus, ...] | None = None
        while True:
            now = await self.list(filters)
            if now != last:
                yield now
            last = now
            await asyncio.sleep(interval.total_seconds())

    async def wait(
        self,
        host: str,
        name: str,
        condition: Condition,
        *,
        timeout: timedelta = DEFAULT_TIMEOUT,
        generation: int | None = None,
        listener: Callable[[WorkloadStatus], None] = _ignore,
    ) -> WorkloadStatus | None:
        """Wait until a workload meets a condition, see ``Waiting.until``."""
        waiting = Waiting(self._client, host, name, listener)
        return await self._told(waiting.until(condition, timeout=timeout, generation=generation))

    async def remove(self, host: str, name: str, *, force: bool = False) -> None:
        """Have the container stopped and everything of the workload removed. Raises NotFound.

        With ``force`` the workload ends without the word of its host, which may be gone for good. What is left there is
        removed as an orphan when the host looks again: when it is back, or if it answers, by ``resync``.
        """
        await self._signal(host, name, names.ABANDON if force else names.REMOVE)

    async def pause(self, host: str, name: str) -> None:
        """Suspend reconciliation; what runs goes on running. Raises NotFound."""
        await self._signal(host, name, names.PAUSE)

    async def resume(self, host: str, name: str) -> None:
        """Resume reconciliation. Raises NotFound."""
        await self._signal(host, name, names.RESUME)

    async def retry(self, host: str, name: str, reason: str = "") -> None:
        """Try again now; a parked workload too. The curve of waits goes on. Raises NotFound."""
        status = await self.status(host, name)
        request = RetryRequest(reason=reason or f"asked for by {self._by}", attempt=status.attempt)
        await self._signal(host, name, names.RETRY_NOW, request)

    async def settle(self, host: str, name: str) -> WorkloadStatus | None:
        """Wait until what was sent has reached the workload, and tell its status; None where it is gone. Raises TimedOut."""
        return await self._told(Waiting(self._client, host, name, _ignore).settled(SETTLE_TIMEOUT))

    async def hosts(self, filters: HostFilters = EVERY_HOST) -> tuple[HostView, ...]:
        """All hosts that match, ordered by name: those with a worker, now or once, and those that workloads name."""
        return await self._told(hosts.find(self._client, filters))

    async def watch_hosts(
        self, filters: HostFilters = EVERY_HOST, *, interval: timedelta = timedelta(seconds=1)
    ) -> AsyncIterator[tuple[HostView, ...]]:
        """All hosts that match, now and whenever more than the sign of life of one of them has changed."""
        last: list[HostView] | None = None
        while True:
            now = await self.hosts(filters)
            lasting = [host.lasting for host in now]
            if lasting != last:
                yield now
            last = lasting
            await asyncio.sleep(interval.total_seconds())

    async def resync(self, host: str, *, timeout: timedelta = DEFAULT_TIMEOUT) -> ResyncReport:
        """Have a host look again at all that it has, and tell what differed.

        Raises:
            NotFound: there is no such host.
            NoWorker: nobody does the work.
            HostFailed: it could not be done.
            TimedOut: it took too long; it goes on.
        """
        return await self._told(resyncing.resync(self._client, host, timeout))

    async def forget(self, host: str, *, force: bool = False, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        """Strike a host off the list that is gone for good; with ``force`` also where it has workloads.

        Raises:
            NotFound: there is no such host.
            InUse: its worker answers, or it has workloads.
            TimedOut: it is not forgotten yet.
        """
        await self._told(forgetting.forget(self._client, host, force=force, timeout=timeout))

    async def presence(self, host: str) -> Presence:
        """When the worker of a host was heard of last."""
        return await self._told(last_heartbeats(self._client, names.host_queue(host)))

    async def find(self, text: str) -> tuple[str, str]:
        """Host and name of ``HOST/NAME``, or of a bare name that one host has. Raises NotFound, Ambiguous."""
        host, slash, name = text.partition("/")
        if slash:
            return host, name
        hosts = await self._told(listing.hosts_of(self._client, text))
        if not hosts:
            raise NotFound.workload(text)
        if len(hosts) > 1:
            raise Ambiguous(text, hosts)
        return hosts[0], text

    def ui_url(self, host: str, name: str) -> str:
        """The page of a workload in the Temporal Web UI; empty where the Web UI is not known."""
        if not self._target.ui_url:
            return ""
        return names.workload_url(self._target.ui_url, self._client.namespace, host, name)

    def host_ui_url(self, host: str) -> str:
        """The page of a host in the Temporal Web UI; empty where the Web UI is not known."""
        if not self._target.ui_url:
            return ""
        return names.host_url(self._target.ui_url, self._client.namespace, host)

    async def _signal(self, host: str, name: str, signal: str, *args: object) -> None:
        handle = self._client.get_workflow_handle(names.workload_id(host, name))
        try:
            await handle.signal(signal, args=args, rpc_timeout=applying.SEND_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NotFound.workload(f"{host}/{name}") from error
            raise self._unreachable(error) from error

    async def _told(self, answer: Awaitable[T]) -> T:
        """Await what the server tells."""
        try:
            return await answer
        except RPCError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: RPCError) -> Unreachable:
        return Unreachable(
            f"Temporal at {self._target.address} does not answer as it should: {error.message} ({error.status.name})",
            "Is it running? Nothing that was accepted is lost.",
        )


def this_user() -> str:
    """The user of this process, for example ``alice@laptop``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
