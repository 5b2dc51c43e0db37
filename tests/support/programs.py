# SPDX-License-Identifier: Apache-2.0
"""A server of somebody else as a process of a test: it can be killed and started again, and keeps its files and addresses."""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final, Self

from tests.support.leftovers import make_home
from tests.support.waiting import eventually

STARTS_WITHIN: Final = 30.0
ENDS_WITHIN: Final = 30.0


class Program(ABC):
    """One server, with a home of its own.

    Args:
        what: its name, for the home and for messages.
    """

    def __init__(self, what: str) -> None:
        self.home: Path = make_home(what)
        self.log = self.home / f"{what}.log"
        self._what = what
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> list[str]:
        """How it is started."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    @property
    def pid(self) -> int | None:
        """Its process, or None where it does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it serves, or do nothing where it runs."""
        self.launch()
        eventually(self._is_up, within=STARTS_WITHIN, what=f"the {self._what} serves, see {self.log}")

    def launch(self) -> None:
        """Start it and do not wait, or do nothing where it runs."""
        if self._process is not None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home
            )

    def stop(self) -> None:
        """End it politely. What it has accepted stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(ENDS_WITHIN)
            self._process = None

    def kill(self) -> None:
        """End it by SIGKILL. What it has accepted stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def destroy(self) -> None:
        """End it and remove what it stored."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _is_up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the {self._what} ended: {self.log.read_text(errors='replace')[-1000:]}")
        return self._answers()
