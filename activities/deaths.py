# SPDX-License-Identifier: Apache-2.0
"""Notices the end of a container's main process the moment it happens, by a pidfd.

Podman's own news of it comes 0.1 to 0.3 s later, and in some set-ups never. A pidfd needs no poll, and tells nothing but the end;
how it ended is Podman's to say. Where the worker does not see the host's process ids nothing is noticed here, and the list of
containers does it alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Followed:
    pid: int
    pidfd: int


class Deaths:
    """The processes that are followed, by the id of their container.

    Args:
        on_death: told the workload and the container's id, once for each process.
    """

    def __init__(self, on_death: Callable[[str, str], None]) -> None:
        self._on_death = on_death
        self._followed: dict[str, _Followed] = {}

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._followed

    def follow(self, workload: str, container_id: str, pid: int) -> bool:
        """Answers whether its end will be noticed; if not it has ended already, or its pid is of another namespace."""
        before = self._followed.get(container_id)
        if before is not None:
            if before.pid == pid:
                return True
            self.unfollow(container_id)
        if pid <= 0:
            return False
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        self._followed[container_id] = _Followed(pid, pidfd)
        asyncio.get_running_loop().add_reader(pidfd, self._died, workload, container_id)
        return True

    def unfollow(self, container_id: str) -> None:
        """Its end is no news any more."""
        followed = self._followed.pop(container_id, None)
        if followed is not None:
            asyncio.get_running_loop().remove_reader(followed.pidfd)
            os.close(followed.pidfd)

    def only(self, container_ids: set[str]) -> None:
        """Let go of all others."""
        for container_id in self._followed.keys() - container_ids:
            self.unfollow(container_id)

    def close(self) -> None:
        """Let go of all."""
        self.only(set())

    def _died(self, workload: str, container_id: str) -> None:
        self.unfollow(container_id)
        self._on_death(workload, container_id)
