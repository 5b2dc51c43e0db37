# SPDX-License-Identifier: Apache-2.0
"""One worker for each host: two would both believe to own its containers.

A lock in the home keeps a second worker of the same home away. Another home does not help where the Podman is the same: there the
workers would take each other's containers for orphans and remove them. So the host's name is held on the Podman, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from perdure.runtime.problems import Problem


@contextmanager
def host_lock(home: Path, host: str) -> Iterator[None]:
    """Hold the lock of a host; the kernel frees it when the process ends, however it ends.

    Raises:
        Problem: another process holds it; the message names its pid.
    """
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"host-{host}.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise Problem(
                f"host {host} already has a worker, process {file.read().strip() or 'unknown'} (lock {path})",
                "Stop that one first, or give this one another --host and PERDURE_HOME.",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def podman_lock(podman_url: str, fleet: str, host: str) -> Iterator[None]:
    """Hold the name of a host of a fleet on a Podman; the kernel frees it when the process ends, however it ends.

    It is an abstract Unix socket: every process of this machine sees it, whatever it may write to.

    Raises:
        Problem: another process holds it; the message names its pid.
    """
    path = Path(podman_url.removeprefix("unix://")).resolve()
    name = "\0perdure/" + sha256(f"{path}\0{fleet}\0{host}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX) as holder:
        try:
            holder.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise Problem(
                f"host {host} of fleet {fleet} already has a worker on the Podman at {path}, process {_holder(name)}",
                "Stop that one first, or give this one another --host: two would remove each other's containers.",
            ) from None
        holder.listen()
        yield


def _holder(name: str) -> str:
    """The pid of the process that listens there."""
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(name)
        except OSError:
            return "unknown"
        pid, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return str(pid)
