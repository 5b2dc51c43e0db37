# SPDX-License-Identifier: Apache-2.0
"""dockerd and its own ``--restart=always``."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from bench import cpu
from bench.docker import RECOVERY_SECONDS, Docker
from bench.plain import THREADS
from bench.stamps import MOUNT, SCRIPT, Stamps
from bench.waiting import until


class PlainDocker:
    """Creates and starts containers through Docker's own API."""

    name = "plain Docker"
    key = "docker"

    def __init__(self, docker: Docker, stamps: Stamps) -> None:
        self._docker = docker
        self._stamps = stamps

    async def run(self, *names: str, image: str) -> None:
        """Create and start."""

        def all_of_them() -> None:
            with ThreadPoolExecutor(THREADS) as pool:
                for done in [pool.submit(self._run, name, image) for name in names]:
                    done.result()

        await asyncio.to_thread(all_of_them)

    async def remove(self, *names: str) -> None:
        """Remove at once."""
        for name in names:
            path = f"/containers/{name}"
            (await asyncio.to_thread(self._docker.client.delete, path, params={"force": "true"})).raise_for_status()

    async def pid(self, name: str) -> int:
        """The main process of a container."""
        return int(self._docker.get(f"/containers/{name}/json")["State"]["Pid"])

    async def remove_by_hand(self, name: str) -> None:
        """By the command line."""
        await asyncio.to_thread(self._docker.command, "rm", "--force", name)

    async def crash(self, *names: str) -> float:
        """Kill dockerd and start it again."""
        await self._docker.kill_daemon()
        process = await self._docker.start_daemon(RECOVERY_SECONDS)
        await until(lambda: set(names) <= self._running(), "all containers", within_seconds=RECOVERY_SECONDS)
        return cpu.seconds_since_start(process.pid)

    def cpu(self) -> dict[str, float]:
        """Of its daemons and containers."""
        return self._docker.cpu()

    def memory(self) -> float:
        """Of its daemons and monitors."""
        return self._docker.memory()

    def _run(self, name: str, image: str) -> None:
        specification = {
            "Image": image,
            "Cmd": ["sh", "-c", SCRIPT],
            "Env": [f"NAME={name}"],
            "HostConfig": {
                "Binds": [f"{self._stamps.folder}:{MOUNT}"],
                "NetworkMode": "host",
                "RestartPolicy": {"Name": "always"},
            },
        }
        self._docker.post("/containers/create", specification, name=name)
        self._docker.post(f"/containers/{name}/start")

    def _running(self) -> set[str]:
        found = self._docker.get("/containers/json", {"status": ["running"]})
        return {name.lstrip("/") for container in found for name in container["Names"]}
