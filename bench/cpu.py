# SPDX-License-Identifier: Apache-2.0
"""What processes have used, also children that have ended and the monitors that an engine leaves behind, one a container."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
MONITORS: Final = (b"conmon", b"containerd-shim-runc-v2")
KIB_PER_MIB: Final = 1024


def cpu_seconds(pid: int) -> float:
    """What a process and the children that it has waited for have used; 0 for one that is gone."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND if fields else 0.0


def started_at(pid: int) -> float:
    """When a process was started, in seconds since the epoch, as fine as a clock tick (10 ms). Raises ProcessLookupError."""
    fields = _stat(pid)
    if not fields:
        raise ProcessLookupError(pid)
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)  # the kernel's own btime has whole seconds only
    return boot + int(fields[19]) / TICKS_PER_SECOND


def seconds_since_start(pid: int) -> float:
    """How long ago a process was started. Raises ProcessLookupError."""
    return time.time() - started_at(pid)


def cpu_seconds_of_containers(folder: Path) -> float:
    """What the monitors of an engine in this folder, the runtimes that they ran, and their containers have used."""
    watching = monitors(folder)
    return sum(cpu_seconds(pid) for pid in watching | children(*watching))


def monitors(folder: Path) -> set[int]:
    """The monitors of an engine in this folder."""
    return {pid for pid in _pids() if _is_monitor(pid, folder)}


def children(*parents: int) -> set[int]:
    """The processes that were started by these, and have not ended."""
    return {pid for pid in _pids() if (fields := _stat(pid)) and int(fields[1]) in parents}


def memory_mib(pids: Iterable[int]) -> float:
    """What processes use of the memory; a page that n of them share counts as one n-th for each."""
    return sum(map(_pss_kib, pids)) / KIB_PER_MIB


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _is_monitor(pid: int, folder: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return arguments[0].endswith(MONITORS) and any(os.fsencode(folder) in argument for argument in arguments)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields after the program's name; fields[1] is the parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
