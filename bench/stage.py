# SPDX-License-Identifier: Apache-2.0
"""What is measured: a stack started by the command line, as a user has it, on a Podman of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

from bench.cpu import cpu_seconds, cpu_seconds_of_containers
from bench.stamps import MOUNT, SCRIPT, Stamps
from client.api import Reconciler
from client.errors import NotFound
from client.waiting import Condition
from demo.image import busybox_rootfs
from perdure.model.manifest import Manifest
from perdure.runtime.podman_service import PodmanService
from perdure.runtime.processes import PidFile
from perdure.runtime.settings import Settings
from perdure.runtime.stack_record import StackRecord, read_record, run_folder

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".bench"
HOST: Final = "bench-host"
IMAGE: Final = "localhost/bench:1"
TIMEOUT: Final = timedelta(seconds=120)
PARTS: Final = ("temporal", "control", "host")


class Stage:
    """The stack and its Podman, in one folder that is removed at the end."""

    def __init__(self) -> None:
        self.home = FOLDER / "state"
        self.podman = PodmanService(FOLDER / "engine", private=True, insecure_registries=["localhost"])
        self.stamps = Stamps(FOLDER / "stamps")

    def __enter__(self) -> Self:
        self._clear()
        for folder in (self.home, self.stamps.folder):
            folder.mkdir(parents=True)
        self.podman.start()
        self._podman("import", "--quiet", "--change", "ENV PATH=/bin", "-", IMAGE, stdin=busybox_rootfs({}))
        self._perdure("up", "--detach", "--host", HOST, "--temporal-port", "0", "--ui-port", "0")
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    @property
    def record(self) -> StackRecord:
        """Where the stack is."""
        if (record := read_record(self.home)) is None:
            raise RuntimeError(f"the stack is not up: see {self.home / 'logs'}")
        return record

    async def connect(self) -> Reconciler:
        """The Python client."""
        return await Reconciler.connect(Settings.load(home=self.home), by="bench")

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

    async def remove(self, fleet: Reconciler, *names: str) -> None:
        """Remove workloads, and wait until they are gone."""
        for name in names:
            await fleet.remove(HOST, name)
        for name in names:
            try:
                await fleet.wait(HOST, name, Condition.REMOVED, timeout=TIMEOUT)
            except NotFound:
                continue

    def cpu(self) -> dict[str, float]:
        """CPU seconds used so far, by part. ``containers`` has Podman's monitors and runtimes in it."""
        pids = {part: PidFile(run_folder(self.home) / f"{part}.pid").running() for part in PARTS}
        used = {part: cpu_seconds(process.pid) for part, process in pids.items() if process is not None}
        engine = self.podman.process
        used["podman"] = cpu_seconds(engine.pid) if engine is not None else 0.0
        used["containers"] = cpu_seconds_of_containers(self.podman.home)
        used["client"] = cpu_seconds(os.getpid())
        return used

    def _clear(self) -> None:
        if self.home.exists():
            self._perdure("down")
        self.podman.destroy()
        shutil.rmtree(FOLDER, ignore_errors=True)

    def _perdure(self, *arguments: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PERDURE_", "TEMPORAL_"))}
        environment = kept | {"PERDURE_HOME": str(self.home), "PERDURE_PODMAN": self.podman.url}
        command = [str(Path(sys.executable).with_name("perdure")), *arguments]
        done = subprocess.run(command, env=environment, cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"perdure {' '.join(arguments)}: code {done.returncode}: {done.stderr.strip()}")

    def _podman(self, *arguments: str, stdin: bytes) -> None:
        command = [*self.podman.command(), *arguments]
        subprocess.run(command, env=self.podman.prepare(), input=stdin, capture_output=True, check=True)
