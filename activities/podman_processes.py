# SPDX-License-Identifier: Apache-2.0
"""The kernel's word on the processes of containers, where Podman is known to be wrong.

The one fact that surprises: a container whose monitor (conmon) was killed is ``running`` for Podman for ever, also after its
process is gone. Only ``/proc`` tells. That needs the host's process ids, so it is done only where we see the same ones as
Podman does.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

_CGROUP_ID: Final = re.compile(r"libpod-([0-9a-f]{64})")
_MONITOR: Final = "conmon"


class Processes:
    """The kernel's word on the processes of containers.

    Args:
        socket_path: of Podman's API; its peer tells whether we see the same process ids.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._visible: bool | None = None

    async def learn(self) -> None:
        """Find out whether Podman's process ids mean the same to us. Until then nothing is said to be gone."""
        if self._visible is None:
            self._visible = await asyncio.to_thread(_shares_our_pids, self._socket_path)

    def is_gone(self, container_id: str, pid: int) -> bool:
        """Whether the main process of a container has certainly ended, whatever Podman says."""
        if not self._visible:
            return False
        if pid <= 0:
            return True
        proc = Path(f"/proc/{pid}")
        try:
            if _stat(pid)[0] in "ZX":
                return True
            others = _CGROUP_ID.findall((proc / "cgroup").read_text())
            if others:
                return container_id not in others
            # Our containers have process ids of their own: a process with ours took over an old number.
            return (proc / "ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
        except PermissionError:
            return False
        except OSError:
            return True

    def strange_parent(self, pid: int) -> int:
        """The parent of a main process where it does not look like the monitor that each container has; 0 where it does.

        Whose monitor is lost, is taken over by somebody else. A monitor may have an unusual name, so this is a reason to look
        closer, and no more.
        """
        if not self._visible or pid <= 0:
            return 0
        try:
            parent = int(_stat(pid)[1])
            return 0 if _comm(parent) == _MONITOR else parent
        except OSError:
            return 0

    def kill(self, container_id: str, pid: int) -> None:
        """End the main process of a container whose monitor is lost. Never anybody else's: its cgroup must name the container."""
        if not self._visible or pid <= 1:
            return
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if container_id in (Path(f"/proc/{pid}") / "cgroup").read_text():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


def _stat(pid: int) -> list[str]:
    """The fields after the name: the state, the parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _shares_our_pids(socket_path: str) -> bool | None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        try:
            peer.connect(socket_path)
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    except OSError:
        return False
