# SPDX-License-Identifier: Apache-2.0
"""Docker Swarm with one node: a service of one replica for each workload."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bench import cpu
from bench.docker import RECOVERY_SECONDS, Docker, NoDocker
from bench.plain import THREADS
from bench.stamps import MOUNT, SCRIPT, Stamps
from bench.waiting import until
from demo.registry import free_port

BRIDGE: Final = "docker_gwbridge"
TASKS_KEPT: Final = 1000
"""Ended tasks of a service that are kept: they are counted."""


class Swarm:
    """Creates services, and lets the Swarm do the rest.

    Args:
        docker: where it runs.
        stamps: of all containers.
        restart_delay: how long it waits before it makes a task anew; None for its default of 5 s.
    """

    def __init__(self, docker: Docker, stamps: Stamps, restart_delay: timedelta | None = None) -> None:
        self._docker = docker
        self._stamps = stamps
        self._policy: dict[str, object] = {"Condition": "any"}
        self.name, self.key = "Docker Swarm", "swarm"
        if restart_delay is not None:
            milliseconds = round(restart_delay / timedelta(milliseconds=1))
            self._policy["Delay"] = milliseconds * 1_000_000
            self.name, self.key = f"Docker Swarm, restart delay {milliseconds} ms", "swarm-at-once"

    async def run(self, *names: str, image: str) -> None:
        """Create the services; they are started in the background."""

        def all_of_them() -> None:
            with ThreadPoolExecutor(THREADS) as pool:
                for done in [pool.submit(self._create, name, image) for name in names]:
                    done.result()

        await asyncio.to_thread(all_of_them)

    async def remove(self, *names: str) -> None:
        """Remove the services, and wait until their containers are gone."""
        for name in names:
            self._docker.client.delete(f"/services/{name}").raise_for_status()
        await until(lambda: not set(names) & self._services_with_a_container(), "removal", poll_seconds=0.2)

    async def pid(self, name: str) -> int:
        """The main process of the container of a service. Raises LookupError where none runs."""
        tasks = self._docker.get("/tasks", {"service": [name], "desired-state": ["running"]})
        pids = [int(task["Status"].get("ContainerStatus", {}).get("PID") or 0) for task in tasks]
        if not (alive := [pid for pid in pids if _is_alive(pid)]):
            raise LookupError(name)
        return alive[0]

    async def remove_by_hand(self, name: str) -> None:
        """By the command line."""
        await asyncio.to_thread(self._docker.command, "rm", "--force", self._container(name))

    async def crash(self, *names: str) -> float:
        """Kill dockerd and start it again."""
        starts = {name: self._stamps.starts(name) for name in names}
        await self._docker.kill_daemon()
        process = await self._docker.start_daemon(RECOVERY_SECONDS)
        began = cpu.started_at(process.pid)

        def has_all() -> bool:
            """A task that was running before is shown as such for a while, though its container was ended."""
            tasks = self._docker.get("/tasks", {"desired-state": ["running"]})
            running = [task for task in tasks if task["Status"]["State"] == "running"]
            alive = [task for task in running if _is_alive(int(task["Status"]["ContainerStatus"].get("PID") or 0))]
            return len(alive) >= len(names)

        seen_at = await until(has_all, "all tasks", within_seconds=RECOVERY_SECONDS, poll_seconds=0.1)
        restarted = [name for name in names if self._stamps.starts(name) > starts[name]]
        return max([self._stamps.latest(name) for name in restarted], default=seen_at) - began

    async def tries(self, name: str) -> int:
        """How many tasks were made for a service so far."""
        return len(self._docker.get("/tasks", {"service": [name]}))

    def cpu(self) -> dict[str, float]:
        """Of its daemons and containers."""
        return self._docker.cpu()

    def memory(self) -> float:
        """Of its daemons and monitors."""
        return self._docker.memory()

    def _create(self, name: str, image: str) -> None:
        container = {
            "Image": image,
            "Command": ["sh", "-c", SCRIPT],
            "Env": [f"NAME={name}"],
            "Mounts": [{"Type": "bind", "Source": str(self._stamps.folder), "Target": MOUNT}],
        }
        task = {"ContainerSpec": container, "RestartPolicy": self._policy, "Networks": [{"Target": "host"}]}
        self._docker.post(
            "/services/create", {"Name": name, "TaskTemplate": task, "Mode": {"Replicated": {"Replicas": 1}}}
        )

    def _container(self, name: str) -> str:
        found = self._docker.get("/containers/json", {"label": [f"com.docker.swarm.service.name={name}"]})
        return str(found[0]["Id"])

    def _services_with_a_container(self) -> set[str]:
        found: list[Mapping[str, Any]] = self._docker.client.get("/containers/json", params={"all": "true"}).json()
        return {container["Labels"].get("com.docker.swarm.service.name", "") for container in found}


def begin(docker: Docker) -> None:
    """Make a Swarm of this one node. Raises NoDocker."""
    if Path("/sys/class/net", BRIDGE).exists():
        raise NoDocker(f"the machine has a network {BRIDGE} already: it is of another Swarm")
    specification = {
        "ListenAddr": f"127.0.0.1:{free_port()}",
        "AdvertiseAddr": "127.0.0.1",
        "Spec": {"Orchestration": {"TaskHistoryRetentionLimit": TASKS_KEPT}},
    }
    docker.post("/swarm/init", specification)


def end() -> None:
    """Remove what a Swarm leaves on the machine, outside of its folder. Only to be called where ``begin`` succeeded."""
    subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)


def _is_alive(pid: int) -> bool:
    return pid > 0 and Path(f"/proc/{pid}").exists()
