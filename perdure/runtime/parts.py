# SPDX-License-Identifier: Apache-2.0
"""The parts of the embedded stack: each can be started, waited for, and stopped, also by a later process than its starter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

from perdure.runtime.podman_service import PodmanService
from perdure.runtime.problems import StackProblem
from perdure.runtime.processes import PidFile, Process, start_detached

LOOK_EVERY_SECONDS: Final = 0.05


class Part(Protocol):
    """One part."""

    @property
    def name(self) -> str:
        """For messages, logs and files."""

    @property
    def log(self) -> Path:
        """Its output."""

    def running(self) -> Process | None:
        """Its process, whoever started it."""

    async def start(self) -> Process:
        """Start it and wait until it is of use. Raises StackProblem."""

    async def stop(self) -> bool:
        """Stop it if it runs, politely first. Returns whether it ran."""


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """A part that is a program of its own."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    home: Path
    """Its pid file is below ``run``, its log below ``logs``."""
    grace: timedelta
    """How long it may take to end."""
    is_ready: Callable[[], Awaitable[bool]] | None = None
    """Whether it is of use; None where nobody needs to wait for it."""
    ready_within: timedelta = timedelta(seconds=30)

    @property
    def pid_file(self) -> PidFile:
        """Where its process is written down."""
        return PidFile(self.home / "run" / f"{self.name}.pid")

    @property
    def log(self) -> Path:
        """Its output."""
        return self.home / "logs" / f"{self.name}.log"

    def running(self) -> Process | None:
        """Its process."""
        return self.pid_file.running()

    async def start(self) -> Process:
        """Start it and wait until it is ready."""
        process = start_detached(
            self.command, pid_file=self.pid_file, log=self.log, environment=self.environment, working_folder=self.home
        )
        if self.is_ready is None:
            return process
        try:
            async with asyncio.timeout(self.ready_within.total_seconds()):
                while not await self.is_ready():
                    if not process.running:
                        process.reap()
                        raise StackProblem(
                            f"{self.name} ended while it started: {last_line(self.log)}", f"See {self.log}."
                        )
                    await asyncio.sleep(LOOK_EVERY_SECONDS)
        except TimeoutError:
            await process.stop(self.grace.total_seconds())
            limit = f"{self.ready_within.total_seconds():g} s"
            raise StackProblem(f"{self.name} does not answer after {limit}", f"See {self.log}.") from None
        return process

    async def stop(self) -> bool:
        """Stop it."""
        process = self.running()
        if process is not None:
            await process.stop(self.grace.total_seconds())
        self.pid_file.remove()
        return process is not None


@dataclass(frozen=True, slots=True)
class PodmanPart:
    """The Podman service that is ours, where the machine runs none."""

    service: PodmanService

    @property
    def name(self) -> str:
        """Always the same."""
        return "podman"

    @property
    def log(self) -> Path:
        """Its output."""
        return self.service.log

    def running(self) -> Process | None:
        """Its process."""
        return self.service.process

    async def start(self) -> Process:
        """Start it and wait until it answers."""
        await asyncio.to_thread(self.service.start)
        process = self.running()
        if process is None:
            raise StackProblem(
                f"a Podman service that is not ours answers at {self.service.url}",
                "End it, or name it by PERDURE_PODMAN.",
            )
        return process

    async def stop(self) -> bool:
        """Stop it; containers go on."""
        return await asyncio.to_thread(self.service.stop)


def last_line(log: Path) -> str:
    """The last thing that a program said."""
    return (_lines(log, 0) or ["it said nothing"])[-1]


def complaint(log: Path, begins_at: int = 0) -> StackProblem | None:
    """The latest error that a program of ours told people, with its hint; None where it told none from that byte on."""
    said = _lines(log, begins_at)
    errors = [number for number, line in enumerate(said) if line.startswith("error: ")]
    if not errors:
        return None
    hints = [line.removeprefix("hint: ") for line in said[errors[-1] + 1 :] if line.startswith("hint: ")]
    return StackProblem(said[errors[-1]].removeprefix("error: "), hints[0] if hints else f"See {log}.")


def size_of(log: Path) -> int:
    """How long a log is by now."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _lines(log: Path, begins_at: int) -> list[str]:
    try:
        return log.read_bytes()[begins_at:].decode(errors="replace").strip().splitlines()
    except OSError:
        return []
