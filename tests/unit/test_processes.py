# SPDX-License-Identifier: Apache-2.0
"""Detached processes: found again, stopped, and never mistaken for another one."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.runtime.problems import StackProblem
from perdure.runtime.processes import PidFile, Process, start_detached
from tests.support.waiting import eventually


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[PidFile]:
    file = PidFile(tmp_path / "run" / "part.pid")
    yield file
    if (process := file.running()) is not None:
        process.send(signal.SIGKILL)
        eventually(lambda: not process.running, within=5)
        process.reap()


def start(pid_file: PidFile, script: str) -> Process:
    """Start a shell script."""
    return start_detached(
        ["sh", "-c", script],
        pid_file=pid_file,
        log=pid_file.path.parent / "part.log",
        environment=dict(os.environ),
        working_folder=pid_file.path.parent,
    )


def log(pid_file: PidFile) -> str:
    return (pid_file.path.parent / "part.log").read_text()


def test_a_process_is_found_again_by_its_file(pid_file: PidFile) -> None:
    process = start(pid_file, "exec sleep 60")
    assert pid_file.running() == process
    assert PidFile(pid_file.path).read() == process


def test_it_has_a_session_and_a_folder_of_its_own(pid_file: PidFile) -> None:
    start(pid_file, "pwd; echo to stderr >&2; exec sleep 60")
    eventually(lambda: "stderr" in log(pid_file), within=10)
    assert log(pid_file) == f"{pid_file.path.parent}\nto stderr\n"
    process = pid_file.running()
    assert process is not None
    assert os.getsid(process.pid) == process.pid


async def test_an_end_is_noticed_without_polling(pid_file: PidFile) -> None:
    process = start(pid_file, "exit 3")
    async with asyncio.timeout(10):
        await process.ended()
    assert not process.running
    assert pid_file.running() is None


async def test_it_is_asked_to_stop_first(pid_file: PidFile) -> None:
    process = start(pid_file, "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in log(pid_file), within=10)
    await process.stop(10)
    assert not process.running
    assert log(pid_file) == "ready\nbye\n"


async def test_it_is_made_to_stop_where_it_does_not_listen(pid_file: PidFile) -> None:
    process = start(pid_file, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in log(pid_file), within=10)
    await process.stop(0.2)
    assert not process.running


async def test_a_recycled_pid_is_never_touched(pid_file: PidFile) -> None:
    """The same number, but started at another time, or in another boot, is somebody else."""
    process = start(pid_file, "exec sleep 60")
    for other in (
        Process(process.pid, process.started + 1, process.boot),
        Process(process.pid, process.started, "boot-2"),
    ):
        assert not other.running
        await other.stop(1)
        other.send(signal.SIGKILL)
        await other.ended()
    assert process.running


@pytest.mark.parametrize("text", ["", "12", "a b c", "\x00"])
def test_a_broken_pid_file_is_no_process(pid_file: PidFile, text: str) -> None:
    pid_file.path.parent.mkdir()
    pid_file.path.write_text(text)
    assert pid_file.running() is None


def test_a_missing_program_is_named(pid_file: PidFile) -> None:
    with pytest.raises(StackProblem, match="no-such-program is not installed"):
        start_detached(["no-such-program"], pid_file=pid_file, log=pid_file.path, environment={})


def test_a_starter_that_dies_at_once_leaves_a_known_process(pid_file: PidFile) -> None:
    """The child writes itself down: no moment is left in which nobody knows it."""
    code = f"""
import os
from pathlib import Path
from perdure.runtime import processes
processes.PidFile.write = lambda self, process: os._exit(0)
file = processes.PidFile(Path({str(pid_file.path)!r}))
processes.start_detached(["sleep", "60"], pid_file=file, log=file.path.parent / "part.log", environment=dict(os.environ))
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
    process = eventually(pid_file.running, within=10)
    assert process is not None
    command = Path(f"/proc/{process.pid}/cmdline")
    eventually(lambda: command.read_bytes().split(b"\0")[0].endswith(b"sleep"), within=10)


def test_arguments_arrive_as_they_are(pid_file: PidFile) -> None:
    """No shell reads them again."""
    words = ["a b", "$HOME", "`id`", "'", '"', "*", ""]
    start(pid_file, f'for word in {shlex.join(words)}; do echo "[$word]"; done; exec sleep 60')
    eventually(lambda: log(pid_file).count("[") == len(words), within=10)
    assert log(pid_file).splitlines() == [f"[{word}]" for word in words]
