# SPDX-License-Identifier: Apache-2.0
"""The parts on which cases are played: a Temporal server, a Podman, a control worker and a host worker, all real."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, Self

from tests.cases.witness import Service
from tests.support.images import Images
from tests.support.leftovers import make_home
from tests.support.podman import IsolatedPodman
from tests.support.temporal import TemporalServer
from tests.support.workers import WorkerProcess

HOST: Final = "edge-1"


class Host:
    """One host: a Podman of its own and its worker.

    Args:
        name: of the host.
        temporal: the address of the server.
    """

    def __init__(self, name: str, temporal: str) -> None:
        self.name = name
        self.temporal = temporal
        self.home = make_home("case")
        self.configuration = self.home / "configuration"
        self.podman = IsolatedPodman({"XDG_CONFIG_HOME": str(self.configuration)})
        self.images = Images(self.podman)
        self.worker = WorkerProcess("--host", name, temporal=temporal, home=self.home, podman=self.podman.url)

    def __enter__(self) -> Self:
        self.podman.start()
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.kill()
        self.podman.destroy()
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def service(self) -> Service:
        """What a witness looks at."""
        return Service(self.podman, self.temporal, self.name, lambda: self.worker.is_running)

    def files_of(self, workload: str) -> list[Path]:
        """What the worker has written on the host for a workload."""
        return [path for path in (self.home / "files").glob(f"**/{workload}/*") if path.is_file()]


class Stage:
    """The server, the control worker and a host."""

    def __init__(self) -> None:
        self.temporal = TemporalServer()
        self.home = make_home("case")
        self.control = WorkerProcess("--control", temporal=self.temporal.address, home=self.home)
        self.host = Host(HOST, self.temporal.address)

    def __enter__(self) -> Self:
        self.temporal.start()
        self.control.start()
        self.host.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.host.__exit__()
        self.control.kill()
        self.temporal.destroy()
        shutil.rmtree(self.home, ignore_errors=True)
