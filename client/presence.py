# SPDX-License-Identifier: Apache-2.0
"""Watching whether somebody works for a task queue, while waiting for that work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.runtime.presence import Presence, last_heartbeats
from perdure.wire import names

PATIENCE: Final = timedelta(seconds=6)
"""How long nobody may be there before it is said. A worker that restarts is back sooner."""
LOOK_EVERY: Final = timedelta(seconds=2)
"""Also the time before the first look: most waits are over by then, and cost the server nothing."""


class Attendance:
    """Looks again and again whether a queue has a worker; one for all who wait for the same queue."""

    def __init__(self, client: Client, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._missing: asyncio.Future[Presence] = asyncio.get_running_loop().create_future()
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self._missing.cancel()

    async def missed(self) -> str:
        """Return when nobody has been there for a while, with a sentence that says so."""
        presence = await asyncio.shield(self._missing)
        return absence(self._queue, presence)

    @property
    def absent(self) -> Presence | None:
        """The last sign of life, once nobody has been there for a while."""
        return self._missing.result() if self._missing.done() and not self._missing.cancelled() else None

    async def _look(self) -> None:
        """A worker whose signs of life go on is there, whatever time they bear: an edge host's clock may be years off."""
        loop = asyncio.get_running_loop()
        alone_since: float | None = None
        before: datetime | None = None
        while True:
            await asyncio.sleep(LOOK_EVERY.total_seconds())
            try:
                presence = await last_heartbeats(self._client, self._queue)
            except RPCError:
                alone_since = None  # the server is away: nothing is known about workers
            else:
                goes_on = before is not None and presence.seen_at is not None and presence.seen_at > before
                before = presence.seen_at
                alone_since = None if presence.alive or goes_on else alone_since or loop.time()
                if alone_since is not None and loop.time() - alone_since >= PATIENCE.total_seconds():
                    self._missing.set_result(presence)
                    return


def absence(queue: str, presence: Presence) -> str:
    """Say that nobody works for a queue, and since when."""
    host = names.host_of_queue(queue)
    who = f"no worker for host {host}" if host else "no control worker"
    return f"{who}, {last_seen(presence.seen_at)}"


def last_seen(at: datetime | None) -> str:
    """When a worker was seen last, in words."""
    if at is None:
        return "none was ever seen"
    ago = datetime.now(UTC) - at
    return f"last seen {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({round(ago.total_seconds())} s ago)"
