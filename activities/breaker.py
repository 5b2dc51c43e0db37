# SPDX-License-Identifier: Apache-2.0
"""Pulls that need not be made: their registry is known to be away.

They fail at once, without Podman and without a slot, by the fault that is known, and wait a little longer than the curve says:
their workload is woken anyhow. A real pull goes out all the same from time to time, since Podman may reach the registry by a way
that is not ours (a mirror, a proxy): only Podman can say for sure that an image cannot be had.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from activities.causes import Cause, CauseKind
from activities.engine import EngineFault
from activities.outages import Outage, Outages, now
from activities.translate import engine_fault, registry_of
from perdure.model.faults import Fault, Phase
from perdure.policy import identity, waking
from perdure.wire.contract import Ticket

REAL_TRY_EVERY: Final = timedelta(seconds=30)
"""While a registry is known to be away one pull in this time is a real one."""


class KnownOutage(EngineFault):
    """A pull that was not made."""


class Breaker:
    """Decides which pulls of one host are made."""

    def __init__(self, outages: Outages) -> None:
        self._outages = outages

    async def refuse(self, ticket: Ticket, image: str, attempt: int, *, is_first: bool, is_asked: bool) -> None:
        """Let a pull through, which ``pulling`` then tells of, or refuse it.

        Args:
            ticket: of the workload.
            image: to be pulled.
            attempt: the number of the try.
            is_first: somebody may wait for its answer, so what is known is made sure of.
            is_asked: somebody asked for this very try, so it is made.

        Raises:
            KnownOutage: the registry is known to be away.
        """
        outage = self._outage_of(image)
        if outage is None or is_asked or not _is_known(outage):
            return
        if is_first:
            await self._outages.look(outage)
            if not _is_known(outage):
                return
        wait = waking.outage_wait(identity.seed(ticket.incarnation, ticket.generation, Phase.PULL), attempt)
        raise KnownOutage(self._fault(ticket, image, outage), wait)

    def pulling(self, image: str) -> None:
        """A real pull begins."""
        if (outage := self._outage_of(image)) is not None:
            outage.real_at = now()

    def pulled(self, image: str) -> None:
        """A real pull succeeded, whatever is known of its registry."""
        outage = self._outage_of(image)
        if outage is not None and outage.is_away:
            outage.is_contradicted = True
            outage.news.set()

    def _outage_of(self, image: str) -> Outage | None:
        return self._outages.find(Cause(CauseKind.REGISTRY, registry_of(image)))

    def _fault(self, ticket: Ticket, image: str, outage: Outage) -> Fault:
        """The same fault as before while the same is wrong: each other text would be news, and cost a report."""
        waiting = self._outages.waiting(ticket.name)
        if waiting is not None and waiting.fault is not None and waiting.told_of in (None, outage.why):
            return waiting.fault
        registry = outage.cause.name
        text = f"{registry} does not answer ({outage.why}); it is asked every few seconds"
        return engine_fault(outage.kind, Phase.PULL, f"pull {image}", text, image=image, registry=registry).fault


def _is_known(outage: Outage) -> bool:
    """Whether a pull would tell nothing new."""
    is_fresh = now() - outage.real_at < REAL_TRY_EVERY.total_seconds()
    return outage.is_away and is_fresh and not outage.is_contradicted
