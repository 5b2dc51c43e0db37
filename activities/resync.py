# SPDX-License-Identifier: Apache-2.0
"""The full resync: drop what is believed of a host, look at what Temporal wants and Podman has, and tell the differences.

It costs one list of the containers and one query of the workloads, however many there are, and something for each workload that
differs. It waits for nobody: while it looks, new work waits at the gate of the fence, and a workload with work under way is
looked at when that is done. Whatever is wrong with one workload is its own difference, and keeps no other from being looked at.

Nothing here starts or stops a container of a workload. The one thing that is removed is an orphan: a container that was made for
this very Temporal server, and whose workload it, asked twice, does not know.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError

from activities.beliefs import Belief, Beliefs, Finding, belief_of
from activities.engine import Engine, EngineFault
from activities.fence import Fence
from activities.inspection import Inspection
from activities.recovery import Known, describe_open, known_workloads
from activities.sight import Seen, Sight
from activities.telling import Told
from perdure.model.host import DIFFERENCES_SHOWN, Difference, ResyncReason, ResyncReport

logger = logging.getLogger(__name__)

CHECK_LIMIT: Final = timedelta(seconds=5)
"""How long a resync waits for the checks of what differs. They go on, but the report does not wait for a slow stop."""
ORPHAN_GRACE: Final = timedelta(seconds=10)

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Does something in the background, and takes note of its failure."""

_DONE: Final = {
    Told.DELIVERED: "its workload was told",
    Told.GONE: "its workload is no longer there to be told",
    Told.AWAY: "Temporal does not answer; it is told as soon as it does",
    Told.REFUSED: "its workload would not be told; it is tried again",
}


@dataclass(frozen=True, slots=True)
class Resynced:
    """What a resync found, and the workloads that Temporal knows on the host."""

    report: ResyncReport
    known: Mapping[str, Known]


@dataclass(slots=True)
class _Account:
    """What goes into the report while it is found."""

    differences: dict[str, Difference] = field(default_factory=dict)
    orphans: int = 0

    def note(self, workload: str, found: str, done: str) -> None:
        self.differences[workload] = Difference(workload=workload, found=found, done=done)

    def forget(self, workload: str) -> None:
        self.differences.pop(workload, None)

    @property
    def shown(self) -> tuple[Difference, ...]:
        return tuple(sorted(self.differences.values(), key=lambda one: one.workload)[:DIFFERENCES_SHOWN])


class Resync:
    """Resyncs one host.

    Args:
        client: of the fleet.
        engine: of the host.
        fence: whose gate is closed for the look.
        sight: what Podman has.
        beliefs: are dropped, and made anew.
        inspection: tells the differences.
        spawn: for what outlives the resync.
    """

    def __init__(
        self,
        *,
        client: Client,
        engine: Engine,
        fence: Fence,
        sight: Sight,
        beliefs: Beliefs,
        inspection: Inspection,
        spawn: Spawn,
    ) -> None:
        self._client = client
        self._engine = engine
        self._host = sight.host
        self._fence = fence
        self._sight = sight
        self._beliefs = beliefs
        self._inspection = inspection
        self._spawn = spawn

    async def make(self, reason: ResyncReason) -> Resynced:
        """Do it. Raises EngineFault or RPCError where Podman or Temporal does not answer; all beliefs are kept then."""
        began, at = time.monotonic(), datetime.now(UTC)
        await self._sight.clear()
        async with self._fence.resyncing() as busy:
            self._beliefs.doubt()
            seen = await self._sight.all()
            known = await known_workloads(self._client, self._host)
            self._beliefs.replace(_derived(known, seen))
            differing = self._inspection.compare(seen, leave_out=busy)
        account = _Account()
        for workload in busy & known.keys():
            self._spawn(self._check(workload, "", _Account()))
        await self._check_all(differing, account)
        await self._judge_all(seen.ours.keys() - known.keys(), account)
        if seen.strangers:
            logger.warning(
                "containers of workloads of another Temporal server are left alone: this one cannot know whether they are wanted",
                extra={"host": self._host, "workloads": sorted({one.owner.workload for one in seen.strangers})},
            )
        report = ResyncReport(
            at=at,
            reason=reason,
            took=timedelta(seconds=round(time.monotonic() - began, 3)),
            containers=seen.count,
            workloads=len(known),
            differences=account.shown,
            more_differences=max(0, len(account.differences) - DIFFERENCES_SHOWN),
            orphans=account.orphans,
            strangers=len(seen.strangers),
        )
        return Resynced(report, known)

    async def _check_all(self, differing: Mapping[str, Finding], account: _Account) -> None:
        """Tell the differences, each after a second look, and as far as that does not take long."""
        checks = []
        for workload, finding in differing.items():
            account.note(workload, finding.words, "it is still looked at")
            checks.append(self._spawn(self._check(workload, finding.words, account)))
        if checks:
            await asyncio.wait(checks, timeout=CHECK_LIMIT.total_seconds())

    async def _check(self, workload: str, found: str, account: _Account) -> None:
        try:
            checked = await self._inspection.check(workload)
        except EngineFault as error:
            account.note(workload, found, f"it could not be looked at: {error}")
            raise
        if checked.finding is None or checked.told is None:
            account.forget(workload)  # it was over at a second look
        else:
            account.note(workload, checked.finding.words, _DONE[checked.told])

    async def _judge_all(self, unknown: Iterable[str], account: _Account) -> None:
        """Find the orphans among the workloads that the list did not tell of. It may lag behind: each is asked for by name."""
        await asyncio.gather(*(self._judge(workload, account) for workload in unknown))

    async def _judge(self, workload: str, account: _Account) -> None:
        found = "its workload is not in Temporal's list, or its status cannot be read"
        try:
            is_wanted = await describe_open(self._client, self._host, workload) is not None
        except RPCError as error:
            account.note(workload, found, f"it is left alone: Temporal could not be asked for it: {error}")
            return
        if is_wanted:
            account.note(workload, found, "it is left alone: the workload exists")
            return
        account.orphans += 1
        account.note(workload, "no workload wants its containers", "they are removed")
        self._spawn(self._remove_orphan(workload))

    async def _remove_orphan(self, workload: str) -> None:
        """The authoritative look: nobody works for the workload now, and Temporal does not know it."""
        async with self._fence.alone(workload):
            if await describe_open(self._client, self._host, workload) is not None:
                return
            logger.warning("an orphan is removed", extra={"host": self._host, "workload": workload})
            await self._engine.ensure_absent(
                self._client.namespace, self._host, workload, ORPHAN_GRACE, fleet_id=self._sight.fleet_id
            )
            self._beliefs.change(workload, None)


def _derived(known: Mapping[str, Known], seen: Seen) -> dict[str, Belief]:
    found = {name: belief_of(workload.status, seen.ours.get(name, ())) for name, workload in known.items()}
    return {name: belief for name, belief in found.items() if belief is not None}
