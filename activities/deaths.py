# SPDX-License-Identifier: Apache-2.0
"""Notices the end of a container's main process, and of the monitor beside it, the moment it happens: by pidfds.

Podman's own news of an end comes 0.1 to 0.3 s later, and in some set-ups never; of a monitor's end it says nothing at all. A
pidfd needs no poll, and tells nothing but the end; what it means is Podman's to say. Where the worker does not see the host's
process ids nothing is noticed here, and the list of containers does it alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Followed:
    pid: int
    pidfds: tuple[int, ...]


class Deaths:
    """The processes that are followed, by the id of their container.

    Args:
        on_death: told the workload and the container's id, once for each call of ``follow``.
    """

    def __init__(self, on_death: Callable[[str, str], None]) -> None:
        self._on_death = on_death
        self._followed: dict[str, _Followed] = {}

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._followed

    def follow(self, workload: str, container_id: str, pid: int) -> bool:
        """Answers whether the end of the main process will be noticed; if not it has ended, or its pid is not ours to see."""
        before = self._followed.get(container_id)
        if before is not None:
            if before.pid == pid:
                return True
            self.unfollow(container_id)
        pidfd = _open(pid)
        if pidfd is None:
            return False
        monitor = _open(_parent_of(pid))
        followed = _Followed(pid, (pidfd,) if monitor is None else (pidfd, monitor))
        self._followed[container_id] = followed
        for one in followed.pidfds:
            asyncio.get_running_loop().add_reader(one, self._died, workload, container_id)
        return True

    def unfollow(self, container_id: str) -> None:
        """Its end is no news any more."""
        followed = self._followed.pop(container_id, None)
        for pidfd in followed.pidfds if followed is not None else ():
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

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


def _open(pid: int) -> int | None:
    """A pidfd; None where there is no such process. The first process of all never ends."""
    try:
        return os.pidfd_open(pid) if pid > 1 else None
    except OSError:
        return None


def _parent_of(pid: int) -> int:
    """The parent, which is the container's monitor; 0 where there is none to be seen, or it is ourselves, as in a test."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return 0 if parent == os.getpid() else parent
