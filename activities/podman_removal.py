# SPDX-License-Identifier: Apache-2.0
"""Stop and remove a container so that nothing of it is left, in whatever state a crash has left it.

Two things surprise. Removing a container that is ``stopping`` makes Podman 4.3 forget it while its process lives on, so
it is always stopped first. And a container whose monitor is dead never stops by Podman's hand, so its process is killed
by ours.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from activities.engine import EngineFault
from activities.podman_api import PodmanApi
from activities.podman_connection import Json, Refused
from activities.podman_facts import inspected_state, pid_of, stop_timeout_of
from activities.podman_processes import Processes
from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.observation import ContainerState

ROUNDS: Final = 8
"""How often a removal is tried within one call: a lost monitor needs two, and a service that just came back a few."""
PAUSE_SECONDS: Final = 0.2
LOOK_AGAIN_SECONDS: Final = 0.1
STOP_MARGIN: Final = timedelta(seconds=5)
"""What Podman may need on top of the grace, before the monitor counts as lost."""


class Remover:
    """Ends containers for good."""

    def __init__(self, api: PodmanApi, processes: Processes) -> None:
        self._api = api
        self._processes = processes

    async def remove(self, container_id: str, grace: timedelta | None, phase: Phase) -> bool:
        """Stop a container gracefully, remove it, and see to it that its process is gone.

        Args:
            container_id: must be ours.
            grace: how long it may take to end by itself; None for what it was made with.
            phase: for the faults.

        Returns:
            Whether it was there. Raises EngineFault StopFailed where it cannot be removed.
        """
        last_refusal = "it is still there"
        pid = 0
        for round_number in range(ROUNDS):
            container = await self._api.container(container_id, phase)
            if container is None:
                self._processes.kill(container_id, pid)
                return round_number > 0
            pid = pid_of(container) or pid
            try:
                await self.stop(container, grace if round_number == 0 else timedelta(0), phase)
                await self._api.remove(container_id, phase)
            except Refused as refused:
                last_refusal = refused.text
                await asyncio.sleep(PAUSE_SECONDS * round_number)
        if await self._api.container(container_id, phase) is None:
            return True
        raise _cannot_remove(container_id, last_refusal, phase)

    async def stop(self, container: Json, grace: timedelta | None, phase: Phase) -> None:
        """Bring the container's process to its end: politely, by force, and at last by our own hand."""
        container_id = str(container["Id"])
        if inspected_state(container, self._processes) in (ContainerState.CREATED, ContainerState.EXITED):
            # Also `initialized`, where the runtime waits in the container's place: removal ends it.
            return
        if grace is None:
            grace = stop_timeout_of(container)
        try:
            if container["State"].get("Status") == "paused":
                await self._api.unpause(container_id, phase)
            if not self._processes.is_gone(container_id, pid_of(container)):
                await self._stop_until_gone(container, grace, phase)
        except Refused:
            self._processes.kill(container_id, pid_of(container))

    async def _stop_until_gone(self, container: Json, grace: timedelta, phase: Phase) -> None:
        """Without its monitor Podman does not notice that the process has obeyed, and would wait for all of its grace."""
        container_id, pid = str(container["Id"]), pid_of(container)
        stopping = asyncio.ensure_future(self._api.stop(container_id, grace, STOP_MARGIN, phase))
        if inspected_state(container, self._processes) is not ContainerState.UNMONITORED:
            await stopping
            return
        try:
            while not stopping.done() and not self._processes.is_gone(container_id, pid):
                await asyncio.wait([stopping], timeout=LOOK_AGAIN_SECONDS)
            if stopping.done():
                await stopping
        finally:
            stopping.cancel()

    async def free_name(self, name: str, phase: Phase) -> None:
        """Remove what a killed create left in the storage: a name that is in use although no container has it."""
        try:
            await self._api.remove(name, phase)
        except Refused as refused:
            raise _cannot_remove(name, refused.text, phase) from refused


def _cannot_remove(name: str, text: str, phase: Phase) -> EngineFault:
    return engine_fault(FaultKind.STOP_FAILED, phase, f"remove container {name}", text, name=name)
