# SPDX-License-Identifier: Apache-2.0
"""Where it takes place: a stack started by the command line, as a user has it, on a Podman of its own; and a registry.

All of it is in one folder, which is removed at the end. The user's own containers, servers and settings are neither used nor
touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from bench.stamps import MOUNT, SCRIPT, Stamps
from demo.image import busybox_rootfs
from demo.registry import Registry, free_port
from perdure.model.manifest import Manifest
from perdure.runtime.podman_service import PodmanService
from perdure.runtime.processes import PidFile, Process
from perdure.runtime.settings import Settings
from perdure.runtime.stack_record import StackRecord, read_record, run_folder

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".bench"
HOST: Final = "bench-host"
IMAGE: Final = "localhost/bench:1"
TIMEOUT: Final = timedelta(seconds=120)
PARTS: Final = ("temporal", "control", "host", "supervisor")


class Stage:
    """The stack with its Podman, another Podman without a stack, and a registry for all."""

    def __init__(self) -> None:
        self.home = FOLDER / "state"
        self.podman = _podman("engine")
        self.plain_podman = _podman("plain")
        self.stamps = Stamps(FOLDER / "stamps")
        self.registry = Registry(FOLDER / "registry", free_port())

    def __enter__(self) -> Self:
        self._end()
        shutil.rmtree(FOLDER, ignore_errors=True)
        try:
            self._begin()
        except BaseException:
            self._end()  # the logs stay
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(FOLDER, ignore_errors=True)

    def _begin(self) -> None:
        for folder in (self.home, self.stamps.folder):
            folder.mkdir(parents=True)
        for podman in (self.podman, self.plain_podman):
            podman.start()
            command = [*podman.command(), "import", "--quiet", "--change", "ENV PATH=/bin", "-", IMAGE]
            subprocess.run(command, env=podman.prepare(), input=busybox_rootfs({}), capture_output=True, check=True)
        self._perdure("up", "--detach", "--host", HOST, "--temporal-port", "0", "--ui-port", "0")

    @property
    def record(self) -> StackRecord:
        """Where the stack is."""
        if (record := read_record(self.home)) is None:
            raise RuntimeError(f"the stack is not up: see {self.home / 'logs'}")
        return record

    @property
    def settings(self) -> Settings:
        """Of the stack, for clients."""
        return Settings.load(home=self.home)

    def part(self, name: str) -> Process | None:
        """The process of a part of the stack, while it runs."""
        return PidFile(run_folder(self.home) / f"{name}.pid").running()

    def manifest(self, *names: str, image: str = IMAGE, **settings: Any) -> Manifest:
        """A manifest of workloads that write a stamp when they start."""
        workload = {
            "host": HOST,
            "image": image,
            "command": ["sh", "-c", SCRIPT],
            "mounts": [f"{self.stamps.folder}:{MOUNT}"],
            "networks": ["host"],
            **settings,
        }
        workloads = {name: {**workload, "environment": {"NAME": name}} for name in names}
        return Manifest.model_validate(
            {"apiVersion": "perdure/v1", "name": "bench", "workloads": workloads}, extra="forbid"
        )

    def _end(self) -> None:
        """End all that runs, also what an earlier run left that was killed."""
        if self.home.exists():
            self._perdure("down")
        self.registry.stop()
        for podman in (self.podman, self.plain_podman):
            podman.destroy()

    def _perdure(self, *arguments: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PERDURE_", "TEMPORAL_"))}
        environment = kept | {"PERDURE_HOME": str(self.home), "PERDURE_PODMAN": self.podman.url}
        command = [str(Path(sys.executable).with_name("perdure")), *arguments]
        done = subprocess.run(command, env=environment, cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"perdure {' '.join(arguments)}: code {done.returncode}: {done.stderr.strip()}")


def _podman(folder: str) -> PodmanService:
    """A Podman that talks to our registry, and writes down each request."""
    return PodmanService(FOLDER / folder, private=True, insecure_registries=["localhost"], log_level="info")
