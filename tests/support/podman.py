# SPDX-License-Identifier: Apache-2.0
"""A Podman of its own for a test session: same machine, other storage, other socket, nothing left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from perdure.runtime.podman_service import PodmanService
from tests.support.leftovers import make_home


class IsolatedPodman:
    """A private Podman with its API service, unique for each instance.

    Registries at ``localhost`` may speak plain HTTP; those at ``127.0.0.1`` must have a certificate that is trusted, so
    that tests of TLS need no second Podman. Networks are shared with the machine: use network ``none`` or unique names.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        home = make_home("podman")
        self.service = PodmanService(
            home, private=True, insecure_registries=["localhost"], environment={"TZ": "UTC", **(environment or {})}
        )
        self.url = self.service.url
        self.socket = self.service.socket
        self._environment = self.service.prepare()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def start(self) -> None:
        """Start the API service, or do nothing where it runs."""
        self.service.start()

    def stop(self) -> None:
        """End the API service politely; containers go on."""
        self.service.stop()

    def kill(self) -> None:
        """End the API service by SIGKILL; containers go on."""
        self.service.kill()

    def restart(self) -> None:
        """Kill the API service and start it again."""
        self.kill()
        self.start()

    def destroy(self) -> None:
        """Remove everything: containers, images, service, mounts, files."""
        self.service.destroy()

    def cli(self, *arguments: str, stdin: bytes | None = None, check: bool = True, timeout: float = 120) -> str:
        """Run a ``podman`` command on this storage and return its output, stripped; with ``check`` it must succeed."""
        command = [*self.service.command(), *arguments]
        done = subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"podman {' '.join(arguments)}: code {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode().strip()

    def run(self, image: str, *command: str, name: str | None = None, options: tuple[str, ...] = ()) -> str:
        """Run a container by hand, without network and detached, and return its id."""
        named = ["--name", name] if name else []
        return self.cli("run", "--detach", "--network=none", *named, *options, image, *command)

    def containers(self, *labels: str) -> list[dict[str, Any]]:
        """All containers, running or not, as ``podman ps --format json`` shows them."""
        filters = [f"--filter=label={label}" for label in labels]
        shown: list[dict[str, Any]] = json.loads(self.cli("ps", "--all", "--format=json", *filters) or "[]")
        return shown

    def inspect(self, container: str) -> dict[str, Any] | None:
        """Everything about a container, or None where there is none."""
        answer = self.cli("container", "inspect", container, check=False)
        found: list[dict[str, Any]] = json.loads(answer or "[]")
        return found[0] if found else None

    def forget_a_container(self, name: str, image: str) -> None:
        """Make a container that only the storage knows, by taking Podman's database back to the moment before."""
        database = self.service.home / "storage/libpod/bolt_state.db"
        before = database.read_bytes()
        self.cli("create", "--network=none", f"--name={name}", image)
        database.write_bytes(before)

    def is_alive(self, container: str) -> bool:
        """Whether the main process of a container is really there, whatever Podman believes."""
        seen = self.inspect(container)
        return seen is not None and process_is_alive(int(seen["State"]["Pid"]))

    def remove_containers(self) -> None:
        """Remove all containers at once, for a clean start of the next test."""
        self.cli("rm", "--all", "--force", "--time=0", check=False)


def process_is_alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    if pid <= 0:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
