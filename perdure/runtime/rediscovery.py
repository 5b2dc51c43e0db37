# SPDX-License-Identifier: Apache-2.0
"""Finds the processes of a stack whose pid files are lost, and none of anybody else.

Each part works in a folder of its stack, and its arguments tell which part it is. Folders are compared by their inodes: a process
in a container may call another folder by the same path. The supervisor may work anywhere; it is who holds its lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from perdure.runtime.processes import PidFile, Process
from perdure.runtime.stack_record import (
    CONTROL_PART,
    HOST_PART,
    SUPERVISOR,
    SUPERVISOR_LOCK,
    TEMPORAL_PART,
    StackRecord,
    pid_file_of,
    read_last_record,
    run_folder,
)

PROC: Final = Path("/proc")


def restore_pid_files(home: Path) -> None:
    """Write the pid files of a stack anew that were lost while their processes went on."""
    record = read_last_record(home)
    if record is None:
        return
    supervisor = pid_file_of(home, SUPERVISOR)
    if supervisor.running() is None and (process := holding(run_folder(home) / SUPERVISOR_LOCK)) is not None:
        supervisor.write(process)
    for part in (TEMPORAL_PART, CONTROL_PART, HOST_PART):
        _restore(pid_file_of(home, part), home, part, record)


def _restore(file: PidFile, home: Path, part: str, record: StackRecord) -> None:
    if file.running() is not None:
        return
    for process in working_in(home, partial(_is_part, part, record)):
        if part == TEMPORAL_PART or variables_of(process).get("TEMPORAL_ADDRESS") == record.temporal_address:
            file.write(process)
            return


def _is_part(part: str, record: StackRecord, arguments: Sequence[str]) -> bool:
    """Whether arguments are those that a stack gives to its part."""
    if part == TEMPORAL_PART:
        return arguments[1:3] == ["server", "start-dev"]
    return arguments[-1:] == ["--control"] if part == CONTROL_PART else arguments[-2:] == ["--host", record.host]


def working_in(folder: Path, is_wanted: Callable[[Sequence[str]], bool]) -> list[Process]:
    """The live processes of a folder's owner that work in it, and whose arguments are the wanted ones."""
    found = []
    for entry in _processes_of_the_owner(folder):
        try:
            is_here = (entry / "cwd").samefile(folder)
            arguments = _strings(entry / "cmdline")
        except OSError:
            continue  # it has ended meanwhile
        if is_here and is_wanted(arguments) and (process := Process.of(int(entry.name))) is not None:
            found.append(process)
    return found


def holding(lock: Path) -> Process | None:
    """The live process that holds a file locked."""
    for entry in _processes_of_the_owner(lock):
        if _holds(entry, lock):
            return Process.of(int(entry.name))
    return None


def variables_of(process: Process) -> dict[str, str]:
    """The environment that a process was started with; nothing where it may not be read, or the process has ended."""
    try:
        return dict(entry.split("=", 1) for entry in _strings(PROC / str(process.pid) / "environ") if "=" in entry)
    except OSError:
        return {}


def _processes_of_the_owner(path: Path) -> Iterator[Path]:
    """The entries of the processes that belong to the owner of a file or folder."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return
    for entry in PROC.glob("[0-9]*"):
        try:
            if entry.stat().st_uid == owner:
                yield entry
        except OSError:
            continue


def _holds(process: Path, lock: Path) -> bool:
    """Whether a process has locked a file; who merely has it open has not."""
    try:
        handles = list((process / "fd").iterdir())
    except OSError:
        return False
    for handle in handles:
        try:
            if handle.samefile(lock) and "FLOCK" in (process / "fdinfo" / handle.name).read_text(encoding="ascii"):
                return True
        except OSError:
            continue  # it was closed meanwhile
    return False


def _strings(file: Path) -> list[str]:
    return os.fsdecode(file.read_bytes()).rstrip("\0").split("\0")
