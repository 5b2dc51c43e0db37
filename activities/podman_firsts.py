# SPDX-License-Identifier: Apache-2.0
"""Which workloads can have no container yet, so that nobody has to look for one.

A list costs Podman more the more containers there are, and most starts on a host are first ones. After one list of the whole host
every container of the fleet there is of our own making, for a host has one worker.

The fact that surprises: a predecessor that was killed may still make a container after that list, as Podman goes on with what it
was asked for. So only a first generation counts: there can be none but the one of its own name, and a name that is taken is
noticed.
"""

from __future__ import annotations

from collections.abc import Iterable

from activities.engine import Managed, Ownership


class Firsts:
    """The workloads that were met so far, by fleet and host."""

    def __init__(self) -> None:
        self._met: dict[tuple[str, str], set[str]] = {}

    def learn(self, fleet: str, host: str, containers: Iterable[Managed]) -> None:
        """Take note of all containers that there are on a host."""
        self._met.setdefault((fleet, host), set()).update(managed.owner.workload for managed in containers)

    def is_first(self, owner: Ownership) -> bool:
        """Whether there can be no container of this workload; asked a second time, there can be one."""
        met = self._met.get((owner.fleet, owner.host))
        if met is None:
            return False
        is_new = owner.workload not in met and owner.generation == 1
        met.add(owner.workload)
        return is_new
