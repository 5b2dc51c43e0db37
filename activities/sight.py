# SPDX-License-Identifier: Apache-2.0
"""What Podman has on a host for this fleet: ours, and that of another server whose fleet has the same name.

Two Temporal servers may each have a fleet of one name, and each knows only its own workloads. What was made for another one is
never ours to judge; it is counted and otherwise left out.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from activities.engine import Engine, Managed
from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase

PATIENCE: Final = timedelta(seconds=10)
"""A list of 200 containers takes 0.15 s. A call to a service that hangs ends after a minute only."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All containers of this fleet and host, running or not."""

    ours: Mapping[str, Sequence[Managed]]
    """By workload."""
    strangers: Sequence[Managed]

    @property
    def count(self) -> int:
        """How many there are, strangers or not."""
        return sum(len(containers) for containers in self.ours.values()) + len(self.strangers)


class Sight:
    """Looks at one host.

    Args:
        engine: of the host.
        fleet: whose containers.
        host: its name in the labels.
        fleet_id: of this very fleet.
    """

    def __init__(self, engine: Engine, fleet: str, host: str, fleet_id: str) -> None:
        self._engine = engine
        self._fleet = fleet
        self.host = host
        self.fleet_id = fleet_id
        self._hanging: asyncio.Task[list[Managed]] | None = None

    async def all(self) -> Seen:
        """Everything, by one call. Raises EngineFault, EngineUnreachable where there is no answer in time."""
        ours: dict[str, list[Managed]] = defaultdict(list)
        strangers = []
        for one in await self._bounded(self._engine.list_managed(self._fleet, self.host)):
            if one.owner.fleet_id == self.fleet_id:
                ours[one.owner.workload].append(one)
            else:
                strangers.append(one)
        return Seen(dict(ours), strangers)

    async def of(self, workload: str) -> list[Managed]:
        """The containers of one workload. Raises EngineFault."""
        found = await self._engine.list_managed(self._fleet, self.host, workload)
        return [one for one in found if one.owner.fleet_id == self.fleet_id]

    async def clear(self) -> None:
        """Wait until a look that was given up has ended: calls to a service that hangs must not pile up."""
        if self._hanging is not None:
            await asyncio.wait({self._hanging})
            self._hanging = None

    async def _bounded(self, look: Coroutine[Any, Any, list[Managed]]) -> list[Managed]:
        """A call that does not end when it is cancelled is left to end by itself."""
        task = asyncio.ensure_future(look)
        try:
            await asyncio.wait({task}, timeout=PATIENCE.total_seconds())
        finally:
            if not task.done():
                self._hanging = task
                task.cancel()
        if not task.done():
            seconds = f"{PATIENCE.total_seconds():g}"
            raise engine_fault(
                FaultKind.ENGINE_UNREACHABLE, Phase.START, "list containers", f"no answer within {seconds} s"
            )
        return task.result()
