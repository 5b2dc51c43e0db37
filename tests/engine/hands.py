# SPDX-License-Identifier: Apache-2.0
"""What somebody does to containers behind the engine's back, on Podman and on the fake in the same words."""

from __future__ import annotations

import asyncio
from typing import Protocol

from perdure.model.observation import ContainerState
from tests.engine.workload import Workload
from tests.fakes.engine import FakeEngine
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async


class Hands(Protocol):
    """Somebody at the host."""

    async def kill(self, workload: Workload) -> None:
        """End the container of a workload by SIGKILL."""

    async def pause(self, workload: Workload) -> None:
        """Freeze it."""

    async def remove(self, workload: Workload) -> None:
        """Remove it."""


class PodmanHands:
    """By the command line."""

    def __init__(self, podman: IsolatedPodman) -> None:
        self._podman = podman

    async def kill(self, workload: Workload) -> None:
        """Also waits until Podman has noticed."""
        await self._run("kill", await self._id(workload))

        async def ended() -> bool:
            return [managed.state for managed in await workload.containers()] == [ContainerState.EXITED]

        await eventually_async(ended, within=5)

    async def pause(self, workload: Workload) -> None:
        await self._run("pause", await self._id(workload))

    async def remove(self, workload: Workload) -> None:
        await self._run("rm", "--force", "--time=0", await self._id(workload))

    async def _run(self, *command: str) -> None:
        await asyncio.to_thread(self._podman.cli, *command)

    async def _id(self, workload: Workload) -> str:
        (managed,) = await workload.containers()
        return managed.container_id


class FakeHands:
    """By a call."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def kill(self, workload: Workload) -> None:
        self._engine.end(workload.name, 137)

    async def pause(self, workload: Workload) -> None:
        self._engine.change(workload.name, state=ContainerState.PAUSED)

    async def remove(self, workload: Workload) -> None:
        self._engine.vanish(workload.name)
