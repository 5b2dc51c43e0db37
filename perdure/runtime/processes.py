# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive their starter, and are found again without a mistake.

A pid alone is no name: after the process has ended, or the machine has rebooted, it may belong to somebody else. So a process is
known by its pid, its start time and the boot it was started in, and signals go through a pidfd, which cannot hit another one.

The child writes its own pid file before it becomes the program: a starter that dies at any moment leaves no process that
nobody knows.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perdure.runtime.problems import StackProblem

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_LAUNCH: Final = """\
cd "$1" || exit
shift
read -r boot < /proc/sys/kernel/random/boot_id
started=$(cut -d ' ' -f 22 "/proc/$$/stat")
printf '%s %s %s\\n' "$$" "$started" "$boot" > "$0.new" && mv "$0.new" "$0" && exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine, past or present."""

    pid: int
    started: int
    """In clock ticks since the boot."""
    boot: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this pid now."""
        started = _started(pid)
        return None if started is None else cls(pid, started, _boot())

    @property
    def running(self) -> bool:
        """Whether it is still there. A dead child that nobody has waited for is not."""
        return self.boot == _boot() and _started(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where the process has ended."""
        if (handle := self._open()) is None:
            return
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)

    async def ended(self) -> None:
        """Wait until it has ended, whoever started it, without polling."""
        if (handle := self._open()) is None:
            return
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(handle, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)
        self.reap()

    def reap(self) -> None:
        """Take the exit code of a child that has ended, so that it does not stay as a zombie."""
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return

    async def stop(self, grace_seconds: float) -> None:
        """Ask it to end by SIGTERM, and make it end by SIGKILL when the grace is over."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.ended()
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self.ended()

    def _open(self) -> int | None:
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.running:
            return handle
        os.close(handle)
        return None


@dataclass(frozen=True, slots=True)
class PidFile:
    """Where a process is written down."""

    path: Path

    def read(self) -> Process | None:
        """The process written down last, whether it runs or not."""
        try:
            pid, started, boot = self.path.read_text(encoding="ascii").split()
            return Process(int(pid), int(started), boot)
        except (OSError, ValueError):
            return None

    def running(self) -> Process | None:
        """The process, if it runs."""
        process = self.read()
        return process if process is not None and process.running else None

    def write(self, process: Process) -> None:
        """Write a process down that did not do it itself."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".starter")
        fresh.write_text(f"{process.pid} {process.started} {process.boot}\n", encoding="ascii")
        fresh.replace(self.path)

    def remove(self) -> None:
        """Forget the process."""
        self.path.unlink(missing_ok=True)


def start_detached(
    command: Sequence[str],
    *,
    pid_file: PidFile,
    log: Path,
    environment: Mapping[str, str],
    working_folder: Path | None = None,
) -> Process:
    """Start a program in a session of its own, its output appended to a log file.

    Args:
        command: the program and its arguments; the program is looked up on PATH.
        pid_file: where the child writes itself down.
        log: takes its standard output and error.
        environment: of the child.
        working_folder: where it works; None for here.

    Raises:
        StackProblem: the program is not there.
    """
    if (program := shutil.which(command[0])) is None:
        raise StackProblem(f"{command[0]} is not installed", f"Install {command[0]}, or put it on PATH.")
    for folder in (pid_file.path.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", _LAUNCH, str(pid_file.path), str(working_folder or Path.cwd()), program, *command[1:]],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigdef=[signal.SIGPIPE, signal.SIGINT],
    )
    process = Process(pid, _started(pid) or 0, _boot())
    pid_file.write(process)  # the same as the child writes: whoever looks now must find it, too
    return process


def _boot() -> str:
    return BOOT_ID.read_text(encoding="ascii").strip()


def _started(pid: int) -> int | None:
    """When a live process was started; None where there is none, or only what is left of one."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = line.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])
