# SPDX-License-Identifier: Apache-2.0
"""What the containers themselves tell: each writes a line when it starts, and its process can be seen while it lives.

This does not trust Podman, which may believe a dead container alive and forget a live one. A process belongs to us if its
environment carries the mark of the run, and it is the main one of a container if it has pid 1 in there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SCRIPT: Final = (
    'trap "exit 0" TERM; echo "$WISH $(hostname)" >> "/journal/$WORKLOAD"; while :; do sleep 3600 & wait $!; done'
)
"""What each container does; its own hostname is the start of its id."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The main process of a live container."""

    pid: int
    workload: str
    wish: int


@dataclass(frozen=True, slots=True)
class Start:
    """One start line."""

    workload: str
    wish: int
    container: str


def live_containers(mark: str) -> list[Alive]:
    """Every live main process of a container of this run."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            environment = (entry / "environ").read_bytes()
            if f"CHAOS={mark}\0".encode() not in environment or not _is_first(entry):
                continue
            variables = dict(item.split("=", 1) for item in environment.decode().split("\0") if "=" in item)
            found.append(Alive(int(entry.name), variables["WORKLOAD"], int(variables["WISH"])))
    return found


def _is_first(process: Path) -> bool:
    """Whether a process is pid 1 of a namespace below ours, and not a zombie."""
    status = (process / "status").read_text()
    pids = re.search(r"^NSpid:\s+(.*)$", status, re.MULTILINE)
    state = re.search(r"^State:\s+(\S)", status, re.MULTILINE)
    return bool(pids and state and len(pids[1].split()) > 1 and pids[1].split()[-1] == "1" and state[1] not in "ZX")


@dataclass
class Journal:
    """Reads the start lines as they come, and keeps what contradicts a promise.

    Args:
        folder: mounted into each container as /journal.
        mark: the run's own mark.
    """

    folder: Path
    mark: str
    starts: list[Start] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    looks: int = 0
    _read: dict[Path, int] = field(default_factory=lambda: defaultdict(int))
    _highest: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def look(self) -> None:
        """Read new lines, count the living, and check both."""
        self.looks += 1
        for path in sorted(self.folder.iterdir()):
            with path.open() as file:
                file.seek(self._read[path])
                for line in iter(file.readline, ""):
                    if not line.endswith("\n"):
                        break
                    self._read[path] = file.tell()
                    self._note(path.name, line)
        by_workload = defaultdict(list)
        for one in live_containers(self.mark):
            by_workload[one.workload].append(one)
        self.violations += [f"two live containers: {living}" for living in by_workload.values() if len(living) > 1]

    def _note(self, workload: str, line: str) -> None:
        wish, container = line.split()
        start = Start(workload, int(wish), container)
        self.starts.append(start)
        if start.wish < self._highest[workload]:
            self.violations.append(f"new was followed by old: {start} after wish {self._highest[workload]}")
        self._highest[workload] = max(self._highest[workload], start.wish)
