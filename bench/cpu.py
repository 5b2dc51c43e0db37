# SPDX-License-Identifier: Apache-2.0
"""CPU seconds by process, also of children that have ended and of the monitors that Podman leaves behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """What a process and the children that it has waited for have used; 0 for one that is gone."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND if fields else 0.0


def cpu_seconds_of_containers(storage: Path) -> float:
    """What the monitors of a Podman storage, the runtimes that they ran, and their containers have used."""
    monitors = {pid for pid in _pids() if _is_monitor(pid, storage)}
    containers = {pid for pid in _pids() if (fields := _stat(pid)) and int(fields[1]) in monitors}
    return sum(cpu_seconds(pid) for pid in monitors | containers)


def _is_monitor(pid: int, storage: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return arguments[0].endswith(b"conmon") and any(os.fsencode(storage) in argument for argument in arguments)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields after the program's name; fields[1] is the parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
