# SPDX-License-Identifier: Apache-2.0
"""How a host tells the workflows of its workloads what it saw, and learns by that whether Temporal is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.model.messages import RetryRequest
from perdure.model.observation import Observation
from perdure.wire import names
from perdure.wire.failures import NO_ANSWER

logger = logging.getLogger(__name__)

TELL_LIMIT = timedelta(seconds=4)
"""Of one message with its tries. Left alone the SDK tries for ten seconds, and nobody acts for the workload meanwhile."""


class Told(StrEnum):
    """What became of a message."""

    DELIVERED = "delivered"
    GONE = "gone"
    """There is no such workload any more."""
    AWAY = "away"
    """Temporal does not answer: it may or may not have taken it."""
    REFUSED = "refused"
    """Temporal answered, and would not take it, for example because the workload has too many signals already."""


class Contact:
    """Whether Temporal answers, as far as is known: by everything that is sent to it."""

    def __init__(self, *, is_there: bool = True) -> None:
        self._there = asyncio.Event()
        self._away = asyncio.Event()
        (self._there if is_there else self._away).set()

    @property
    def is_there(self) -> bool:
        """Whether it answered last time."""
        return self._there.is_set()

    def note(self, answers: bool) -> None:
        """Take note of an answer, or of its lack."""
        if answers and self._away.is_set():
            logger.info("temporal answers again")
            self._away.clear()
            self._there.set()
        elif not answers and self._there.is_set():
            logger.warning("temporal does not answer")
            self._there.clear()
            self._away.set()

    def note_error(self, error: RPCError) -> None:
        """Take note of a call that failed. A refusal is an answer too."""
        self.note(error.status not in NO_ANSWER)

    async def restored(self) -> None:
        """Return when it answers."""
        await self._there.wait()

    async def lost(self) -> None:
        """Return when it does not."""
        await self._away.wait()


class Teller:
    """Sends signals to the workloads of one host. A failure to tell one is never a failure to tell the others."""

    def __init__(self, client: Client, host: str, *, on_contact: Callable[[bool], None] = lambda _: None) -> None:
        self._client = client
        self._host = host
        self._on_contact = on_contact
        """Told after every message whether Temporal answered."""

    async def observe(self, workload: str, seen: Observation) -> Told:
        """Tell what happened to the container."""
        return await self._signal(workload, names.OBSERVE, seen)

    async def retry_now(self, workload: str, request: RetryRequest) -> Told:
        """Tell that a try is worth while now."""
        return await self._signal(workload, names.RETRY_NOW, request)

    async def _signal(self, workload: str, signal: str, argument: object) -> Told:
        handle = self._client.get_workflow_handle(names.workload_id(self._host, workload))
        try:
            async with asyncio.timeout(TELL_LIMIT.total_seconds()):
                await handle.signal(signal, argument, rpc_timeout=TELL_LIMIT)
        except TimeoutError:
            logger.warning("a workload could not be told in time", extra={"workload": workload, "signal": signal})
            self._on_contact(False)
            return Told.AWAY
        except RPCError as error:
            logger.warning(
                "a workload could not be told", extra={"workload": workload, "signal": signal, "cause": str(error)}
            )
            self._on_contact(error.status not in NO_ANSWER)
            if error.status in NO_ANSWER:
                return Told.AWAY
            return Told.GONE if error.status is RPCStatusCode.NOT_FOUND else Told.REFUSED
        self._on_contact(True)
        return Told.DELIVERED
