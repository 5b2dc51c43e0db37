# SPDX-License-Identifier: Apache-2.0
"""Worker processes that start at once: forked from one that has loaded the worker's code already.

A worker spends two seconds of processor time on imports. A storm that kills one every other second would mostly see them load
code. What a nursery forks is a worker like any other from its first own instruction on.

Run as a program it is the nursery itself: one JSON object per line on stdin, the pid of the new worker per line on stdout.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]


class Fledgling:
    """A worker that came out of a nursery; understands what the storm needs of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it by SIGKILL."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it has ended."""
        if self._handle >= 0:
            select.select([self._handle], [], [])
            os.close(self._handle)
            self._handle = -1

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]


class Nursery:
    """Starts workers by forking."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def start(self, arguments: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: Path) -> Fledgling:
        """Start ``worker.py`` with arguments, in a folder, with exactly this environment, its output added to a log."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("the nursery has no pipes")
        egg = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder), "log": str(log)}
        self._process.stdin.write(json.dumps(egg).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the nursery has ended: worker.py cannot be imported")
        return Fledgling(int(answer))


def main() -> None:
    """Load the worker, then fork one for each line."""
    worker: Any = importlib.import_module("worker")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are buried by the kernel
    for line in sys.stdin:
        egg = json.loads(line)
        if pid := os.fork():
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(egg["folder"])
        os.environ.clear()
        os.environ.update(egg["environment"])
        log = os.open(egg["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        worker.main(egg["arguments"])


if __name__ == "__main__":
    main()
