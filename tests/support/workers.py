# SPDX-License-Identifier: Apache-2.0
"""Perdure's own worker as a process of its own, which can be killed and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from tests.support.nursery import Fledgling, Nursery
from tests.support.waiting import eventually

PROGRAM: Final = Path(__file__).parents[2] / "worker.py"


class WorkerProcess:
    """One ``perdure-worker``. Lock, files and log lie in its home.

    Args:
        roles: its arguments, for example ``"--control"`` or ``"--host", "edge-1"``.
        temporal: the address of the server.
        home: the folder of its state; several workers may share one.
        podman: the URL of the Podman socket, where it serves a host.
        nursery: where to fork it from, instead of starting an interpreter.
    """

    def __init__(
        self,
        *roles: str,
        temporal: str,
        home: Path,
        podman: str = "",
        nursery: Nursery | None = None,
    ) -> None:
        self._roles = roles
        self._nursery = nursery
        # Nothing that was set for the tests themselves may reach the worker.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PERDURE_", "TEMPORAL_"))}
        self._environment = inherited | {
            "PERDURE_HOME": str(home),
            "PERDURE_PODMAN": podman,
            "PERDURE_LOG_FORMAT": "json",
            "TEMPORAL_ADDRESS": temporal,
        }
        self._home = home
        self.log = home / f"worker-{'-'.join(role.strip('-') for role in roles)}.log"
        self._process: subprocess.Popen[bytes] | Fledgling | None = None
        self._started_at = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int | None:
        """The process, or None where it was not started."""
        return self._process.pid if self._process else None

    @property
    def code(self) -> int | None:
        """Its exit code, where it was started as a program and has ended by itself."""
        return self._process.poll() if isinstance(self._process, subprocess.Popen) else None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        match self._process:
            case None:
                return False
            case Fledgling():
                return self._process.is_running
            case _:
                return self._process.poll() is None

    def launch(self) -> None:
        """Start it and do not wait."""
        self.kill()
        self._home.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        self._started_at = self.log.stat().st_size
        if self._nursery:
            self._process = self._nursery.start(
                self._roles, environment=self._environment, folder=self._home, log=self.log
            )
            return
        command = [sys.executable, str(PROGRAM), *self._roles]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=self._environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.launch()
        eventually(self.is_ready, within=30, what=f"the worker is ready, see {self.log}")

    def stop(self, within: float = 30) -> int:
        """Ask it to end, as a service manager does, and return its exit code."""
        if not isinstance(self._process, subprocess.Popen):
            raise TypeError("only a worker that was started as a program has an exit code")
        self._process.terminate()
        code = self._process.wait(within)
        self._process = None
        return code

    def kill(self) -> None:
        """End it by SIGKILL, or do nothing where it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def logged(self) -> list[dict[str, Any]]:
        """What it has logged since its last start; lines that are not JSON come as ``{"event": line}``."""
        with self.log.open("rb") as log:
            log.seek(self._started_at)
            return [_parsed(line) for line in log.read().decode(errors="replace").splitlines()]

    def is_ready(self) -> bool:
        """Whether it serves since its last start. Raises RuntimeError where it has ended by itself."""
        if not self.is_running:
            raise RuntimeError(f"the worker ended: {self.log.read_text(errors='replace')[-2000:]}")
        return b"worker is ready" in self.log.read_bytes()[self._started_at :]


def _parsed(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"event": line}
