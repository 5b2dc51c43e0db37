# SPDX-License-Identifier: Apache-2.0
"""Perdure, driven by its Python client as a user's program would drive it."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from temporalio.client import Client

from bench import cpu
from bench.plain import cpu_of_podman, pids_of_podman, remove_by_podman
from bench.stage import HOST, PARTS, TIMEOUT, Stage
from bench.waiting import until
from client.api import Reconciler, Wait
from client.errors import NotFound
from client.waiting import Condition
from perdure.model.host import HostState, HostStatus
from perdure.model.states import State
from perdure.model.status import WorkloadStatus
from perdure.runtime.connect import connect_to_stack
from perdure.runtime.processes import Process
from perdure.wire import names


class Perdure:
    """A stack on one machine, and a client that is connected."""

    name = "Perdure"
    key = "perdure"

    def __init__(self, stage: Stage, fleet: Reconciler, temporal: Client) -> None:
        self.stage = stage
        self.fleet = fleet
        self._temporal = temporal

    @classmethod
    async def connect(cls, stage: Stage) -> Perdure:
        """Connect to the stack of the stage."""
        temporal = await connect_to_stack(stage.record, "bench")
        return cls(stage, await Reconciler.connect(stage.settings, by="bench"), temporal)

    async def run(self, *names: str, image: str) -> None:
        """Apply one manifest with all of them, and wait for the first attempts."""
        await self.apply(*names, image=image)

    async def apply(self, *names: str, wait: Wait = Wait.FIRST_ATTEMPT, **settings: Any) -> None:
        """Apply one manifest with workloads of these settings."""
        await self.fleet.apply([self.stage.manifest(*names, **settings)], wait=wait, timeout=TIMEOUT)

    async def remove(self, *names: str) -> None:
        """Remove workloads, and wait until they are gone."""
        for name in names:
            await self.fleet.remove(HOST, name)
        for name in names:
            try:
                await self.fleet.wait(HOST, name, Condition.REMOVED, timeout=TIMEOUT)
            except NotFound:
                continue

    async def status(self, name: str) -> WorkloadStatus:
        """What a user sees of a workload."""
        return await self.fleet.status(HOST, name)

    async def shows(self, name: str, state: State) -> bool:
        """Whether a user sees this state."""
        return (await self.status(name)).state is state

    async def tries(self, name: str) -> int:
        """How many tries of its present step were begun so far."""
        return (await self.status(name)).attempt

    async def events(self, name: str) -> int:
        """How long the history of a workload is."""
        description = await self._temporal.get_workflow_handle(names.workload_id(HOST, name)).describe()
        return description.history_length

    async def pid(self, name: str) -> int:
        """The main process of a container. Raises LookupError where none runs."""
        command = [*self.stage.podman.command(), "inspect", "--format", "{{.State.Pid}}", await self._container(name)]
        asking = await asyncio.create_subprocess_exec(
            *command, env=self.stage.podman.prepare(), stdout=asyncio.subprocess.PIPE
        )
        answer, _ = await asking.communicate()
        if not (pid := int(answer or 0)):
            raise LookupError(name)
        return pid

    async def remove_by_hand(self, name: str) -> None:
        """By Podman's command line."""
        await asyncio.to_thread(remove_by_podman, self.stage.podman, await self._container(name))

    async def crash(self, *names: str) -> float:
        """Kill the host's worker; the stack starts the next one by itself, and the host's workflow knows when that watches."""
        before = self.worker()
        before.send(signal.SIGKILL)
        await until(lambda: self._next_worker(before) is not None, "the next worker")
        after = self.worker()
        seen_at = await until(
            lambda: self._is_supervised_by(after), "supervision by the next worker", poll_seconds=0.05
        )
        statuses = [await self.status(name) for name in names]
        if amiss := [status.name for status in statuses if status.state is not State.RUNNING]:
            raise RuntimeError(f"not shown as running after the worker was killed: {', '.join(amiss)}")
        return seen_at - cpu.started_at(after.pid)

    def worker(self) -> Process:
        """The process of the host's worker."""
        process = self.stage.part("host")
        if process is None:
            raise RuntimeError(f"the host's worker does not run: see {self.stage.home / 'logs'}")
        return process

    def cpu(self) -> dict[str, float]:
        """Every process of the stack, its Podman and the containers, and this one, which is the client."""
        processes = {part: self.stage.part(part) for part in PARTS}
        used = {part: cpu.cpu_seconds(process.pid) for part, process in processes.items() if process is not None}
        return used | cpu_of_podman(self.stage.podman)

    def memory(self) -> float:
        """The same processes, without the client."""
        stack = {process.pid for part in PARTS if (process := self.stage.part(part)) is not None}
        return cpu.memory_mib(stack | pids_of_podman(self.stage.podman))

    async def _container(self, name: str) -> str:
        status = await self.status(name)
        if status.live is None:
            raise LookupError(f"{name} has no container")
        return status.live.container_id

    def _next_worker(self, before: Process) -> Process | None:
        process = self.stage.part("host")
        return process if process is not None and process.pid != before.pid else None

    async def _is_supervised_by(self, worker: Process) -> bool:
        """Whether the workflow of the host was told by this very process that it has looked at everything, and watches it."""
        description = await self._temporal.get_workflow_handle(names.host_id(HOST)).describe()
        status = await description.memo_value(names.MEMO_STATUS, type_hint=HostStatus)
        identity = names.worker_identity("host", HOST, worker.pid)
        if status.worker is None or status.worker.identity != identity or status.last_resync is None:
            return False
        return status.state is HostState.READY and status.last_resync.at >= status.worker.started_at
