# SPDX-License-Identifier: Apache-2.0
"""Where the story takes place: one folder with a Podman, a registry and a Perdure of its own.

The user's own containers, registry, Temporal server and settings are neither used nor touched.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from demo.registry import Registry
from perdure.model.status import WorkloadStatus
from perdure.runtime.podman_service import PodmanService

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".demo"
HOST = "edge-1"
COMMAND_SECONDS = 120.0

_STATUSES = TypeAdapter(list[WorkloadStatus])


@dataclass(frozen=True, slots=True)
class Said:
    """What a command did."""

    command: str
    code: int
    output: str
    """What it printed for people and for programs, in the order in which it came."""
    seconds: float


class Stage:
    """All the parts, found again through the folder by any later process."""

    def __init__(self, folder: Path = FOLDER, registry_port: int = 0) -> None:
        self.folder = folder
        self.home = folder / "state"
        self.manifest = folder / "web.yaml"
        self.registry = Registry(folder / "registry", registry_port)
        self.podman = PodmanService(folder / "engine", private=True, insecure_registries=[self.registry.address])

    def run(self, *arguments: str) -> Said:
        """Run the command line as a user does."""
        return self._run(
            ["perdure", *arguments], [str(Path(sys.executable).with_name("perdure")), *arguments], self.environment
        )

    def run_podman(self, *arguments: str) -> Said:
        """Run Podman's own command line on the containers of this stage."""
        return self._run(["podman", *arguments], [*self.podman.command(), *arguments], self.podman.prepare())

    def status(self) -> WorkloadStatus | None:
        """The one workload, as ``perdure get workloads -o json`` tells it; None while there is none.

        Raises:
            RuntimeError: the command failed.
        """
        found = subprocess.run(
            [Path(sys.executable).with_name("perdure"), "get", "workloads", "-o", "json"],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if found.returncode != 0:
            raise RuntimeError(f"perdure get workloads ended with code {found.returncode}: {found.stderr.strip()}")
        statuses = _STATUSES.validate_python(json.loads(found.stdout))
        return statuses[0] if statuses else None

    @property
    def environment(self) -> dict[str, str]:
        """Of the commands: that of the user, without what would lead to another stack."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PERDURE_", "TEMPORAL_"))}
        return kept | {
            "PERDURE_HOME": str(self.home),
            "PERDURE_PODMAN": self.podman.url,
            "TEMPORAL_CONFIG_FILE": str(self.folder / "temporal.toml"),
            "COLUMNS": "118",
        }

    def set_up(self) -> None:
        """Start Podman and the registry, and write two short commands for the user who looks around afterwards."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.folder / "temporal.toml").touch()
        self.podman.start()
        self.registry.start()
        names = ("PERDURE_HOME", "PERDURE_PODMAN", "TEMPORAL_CONFIG_FILE")
        variables = {name: self.environment[name] for name in names}
        self._write_command("perdure", [str(Path(sys.executable).with_name("perdure"))], variables)
        prepared = self.podman.prepare()
        changed = {key: value for key, value in prepared.items() if os.environ.get(key) != value}
        self._write_command("podman", self.podman.command(), changed)

    def tear_down(self) -> list[str]:
        """Stop and remove all parts. Returns what could not be removed, in words."""
        if self.home.exists() and (down := self.run("down")).code != 0:
            # The folder knows which processes are ours, so it must stay until they are gone.
            return [f"perdure down ended with code {down.code}: {down.output.strip()}"]
        self.podman.destroy()
        self.registry.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        return [f"{self.folder} is still there"] if self.folder.exists() else []

    def _run(self, shown: list[str], command: list[str], environment: dict[str, str]) -> Said:
        begun = time.monotonic()
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Said(shlex.join(shown), done.returncode, done.stdout, time.monotonic() - begun)

    def _write_command(self, name: str, command: list[str], variables: dict[str, str]) -> None:
        path = self.folder / name
        exports = [f"export {key}={shlex.quote(value)}" for key, value in sorted(variables.items())]
        path.write_text("\n".join(["#!/bin/sh", *exports, f'exec {shlex.join(command)} "$@"', ""]))
        path.chmod(0o755)
