# SPDX-License-Identifier: Apache-2.0
"""Plain Podman: the two REST calls that nothing on Podman can be faster than, and its own ``--restart=always``.

It has a service and a storage of its own, of the same kind as the one that Perdure is given, so that neither pays for the other.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import httpx

from bench import cpu
from bench.stamps import MOUNT, SCRIPT, Stamps
from bench.waiting import until
from perdure.runtime.podman_service import PodmanService

API = "http://podman/v4.0.0/libpod/containers"
THREADS = 2
"""As many as there are cores: with two it is the fastest for its CPU time."""


class PlainPodman:
    """Creates and starts containers through Podman's own API."""

    name = "plain Podman"
    key = "podman"

    def __init__(self, service: PodmanService, stamps: Stamps) -> None:
        self._service = service
        self._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(service.socket)), timeout=60, trust_env=False)
        self._stamps = stamps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    async def run(self, *names: str, image: str) -> None:
        """Create and start."""
        await self._each(names, lambda name: self._run(name, image))

    async def remove(self, *names: str) -> None:
        """Remove at once."""
        await self._each(names, self._remove)

    async def pid(self, name: str) -> int:
        """The main process of a container."""
        return int(self._inspect(name)["Pid"])

    async def remove_by_hand(self, name: str) -> None:
        """By the command line."""
        await asyncio.to_thread(remove_by_podman, self._service, name)

    async def crash(self, *names: str) -> float:
        """Kill the service and start it again."""
        self._service.kill()
        await asyncio.to_thread(self._service.start)
        process = self._service.process
        if process is None:
            raise RuntimeError("the Podman service did not come back")
        await until(lambda: all(self._inspect(name)["Running"] for name in names), "all containers in its care")
        return cpu.seconds_since_start(process.pid)

    def cpu(self) -> dict[str, float]:
        """The service, and the containers with their monitors."""
        return cpu_of_podman(self._service)

    def memory(self) -> float:
        """The service and the monitors."""
        return cpu.memory_mib(pids_of_podman(self._service))

    async def _each(self, names: tuple[str, ...], work: Callable[[str], None]) -> None:
        def all_of_them() -> None:
            with ThreadPoolExecutor(THREADS) as pool:
                for done in [pool.submit(work, name) for name in names]:
                    done.result()

        await asyncio.to_thread(all_of_them)

    def _run(self, name: str, image: str) -> None:
        specification = {
            "name": name,
            "image": image,
            "command": ["sh", "-c", SCRIPT],
            "env": {"NAME": name},
            "mounts": [
                {"type": "bind", "source": str(self._stamps.folder), "destination": MOUNT, "options": ["rbind"]}
            ],
            "netns": {"nsmode": "host"},
            "restart_policy": "always",
        }
        self._client.post(f"{API}/create", json=specification).raise_for_status()
        self._client.post(f"{API}/{name}/start").raise_for_status()

    def _remove(self, name: str) -> None:
        self._client.delete(f"{API}/{name}", params={"force": True, "timeout": 0}).raise_for_status()

    def _inspect(self, name: str) -> dict[str, Any]:
        state: dict[str, Any] = self._client.get(f"{API}/{name}/json").raise_for_status().json()["State"]
        return state


def remove_by_podman(service: PodmanService, container: str) -> None:
    """Remove a container by Podman's command line, as a person would."""
    command = [*service.command(), "rm", "--force", container]
    subprocess.run(command, env=service.prepare(), capture_output=True, check=True)


def pids_of_podman(service: PodmanService) -> set[int]:
    """The service and the monitors of its containers."""
    process = service.process
    return cpu.monitors(service.home) | ({process.pid} if process else set())


def cpu_of_podman(service: PodmanService) -> dict[str, float]:
    """CPU seconds of the service, and of its containers with their monitors and the runtimes that they ran."""
    process = service.process
    return {
        "podman": cpu.cpu_seconds(process.pid) if process else 0.0,
        "containers": cpu.cpu_seconds_of_containers(service.home),
    }
