# SPDX-License-Identifier: Apache-2.0
"""docker-compose.yml as it stands, started with podman-compose: it serves a host outside, and loses nothing by a crash."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.integration.compose_images import ROOT, make_temporal, make_worker
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.ports import free_ports, is_listening
from tests.support.waiting import eventually

BIN = Path(sys.executable).parent
HOST = "compose-edge"
SERVICES: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")["services"]
MANIFEST = """\
apiVersion: perdure/v1
name: compose
workloads:
  web:
    host: {host}
    image: {image}
    networks: [none]
"""


@dataclass(frozen=True, slots=True)
class Compose:
    """The running services, and how to talk to them."""

    podman: IsolatedPodman
    folder: Path
    project: str
    ports: dict[str, int]

    def call(self, *arguments: str) -> str:
        """Run podman-compose on the file of the repository."""
        options = ["--podman-path", str(self.folder / "podman"), "--project-name", self.project]
        done = subprocess.run(
            [str(BIN / "podman-compose"), *options, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def perdure(self, *arguments: str) -> tuple[int, str, str]:
        """Run the command line against the server of the composition."""
        done = subprocess.run(
            [BIN / "perdure", *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def apply(self, image: str) -> None:
        """Apply the manifest with this image; it must run at the first attempt."""
        (self.folder / "web.yaml").write_text(MANIFEST.format(host=HOST, image=image))
        code, output, talk = self.perdure("apply", "-f", "web.yaml", "--wait", "running", "--timeout", "60s")
        assert code == 0, output + talk

    def status(self) -> dict[str, Any]:
        """The one workload."""
        code, output, talk = self.perdure("get", "workloads", "-o", "json")
        assert code == 0, talk
        (found,) = json.loads(output)
        assert isinstance(found, dict)
        return found

    def pid(self, service: str) -> int:
        """The main process of a service, on this machine; 0 where it does not run."""
        seen = self.podman.inspect(f"{self.project}_{service}_1")
        assert seen is not None
        return int(seen["State"]["Pid"])

    def crash(self, service: str) -> None:
        """Kill a service's process as a crash would, and wait until its restart policy has brought it back."""
        before = self.pid(service)
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self.pid(service) not in (0, before), within=30, what=f"{service} is started again")

    @property
    def _environment(self) -> dict[str, str]:
        return self.host_environment | {name: str(port) for name, port in self.ports.items()}

    @property
    def host_environment(self) -> dict[str, str]:
        """Of a host's worker and a user."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PERDURE_", "TEMPORAL_"))}
        return kept | {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.ports['PERDURE_TEMPORAL_PORT']}",
            "PERDURE_HOME": str(self.folder / "home"),
            "PERDURE_PODMAN": self.podman.url,
        }


@pytest.fixture(scope="module")
def compose(podman: IsolatedPodman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    """The services, up, on free ports and under a name of their own."""
    podman.start()
    folder = tmp_path_factory.mktemp("compose")
    with tempfile.TemporaryDirectory() as scratch:
        make_temporal(podman, SERVICES["temporal"]["image"], Path(scratch))
        make_worker(podman, SERVICES["control"]["image"], Path(scratch))
    prepared = podman.service.prepare()
    exports = [f"export {key}={shlex.quote(value)}" for key, value in prepared.items() if os.environ.get(key) != value]
    command = folder / "podman"
    command.write_text("\n".join(["#!/bin/sh", *exports, f'exec {shlex.join(podman.service.command())} "$@"', ""]))
    command.chmod(0o755)
    ports = dict(zip(("PERDURE_TEMPORAL_PORT", "PERDURE_UI_PORT"), free_ports(2), strict=True))
    services = Compose(podman, folder, f"perdure-{os.getpid()}", ports)
    try:
        services.call("up", "--detach", "--no-build")
        yield services
    finally:
        services.call("down", "--volumes")


@pytest.fixture(scope="module")
def host_worker(compose: Compose) -> Iterator[None]:
    """A worker for one host, outside of the composition, as on a real host."""
    (compose.folder / "home").mkdir()
    log = compose.folder / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [BIN / "perdure-worker", "--host", HOST],
            env=compose.host_environment,
            cwd=compose.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        eventually(lambda: "worker is ready" in log.read_text(), within=60, what=f"the worker is ready, see {log}")
        yield
    finally:
        worker.terminate()
        worker.wait(30)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("host_worker")
def test_nothing_is_lost_by_a_crash_of_the_server_or_the_control_worker(compose: Compose, images: Images) -> None:
    """Before, between and after the crashes, applies go through, and the container is not touched by any of them."""
    first, second = images.obedient("compose-1"), images.obedient("compose-2")
    compose.apply(first)
    before = compose.status()
    assert (before["state"], before["generation"]) == ("Running", 1)

    compose.crash("temporal")
    after = eventually(compose.status, within=60, what="the status can be read again")
    assert (after["state"], after["generation"]) == ("Running", 1)
    assert after["live"]["containerId"] == before["live"]["containerId"]
    assert compose.podman.is_alive(after["live"]["containerId"])

    compose.crash("control")
    compose.apply(second)
    renewed = compose.status()
    assert (renewed["state"], renewed["generation"]) == ("Running", 2)
    assert len(compose.podman.containers("dev.perdure.host=" + HOST)) == 1

    code, _, talk = compose.perdure("delete", f"{HOST}/web")
    assert code == 0, talk
    assert compose.podman.containers("dev.perdure.host=" + HOST) == []


def test_web_ui_is_served(compose: Compose) -> None:
    eventually(lambda: is_listening(compose.ports["PERDURE_UI_PORT"]), within=30)
