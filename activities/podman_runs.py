# SPDX-License-Identifier: Apache-2.0
"""Start or end one run of a container that is there, and leave everything else as it is.

A run is told from the next one of the same container by the time of its start: what was decided about one must never hit
another. The caller holds the workload's lock, so only a person at the host can come between the look and the deed.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

from activities.podman_api import PodmanApi
from activities.podman_connection import Json, Refused
from activities.podman_facts import inspected_live, inspected_state, owner_of, parse_time
from activities.podman_processes import Processes
from activities.podman_removal import Remover
from activities.translate import START_IS_WEDGED, engine_fault, refusal_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.observation import ContainerState, Live, Run

LOOKS: Final = 10
LOOK_AGAIN_SECONDS: Final = 0.1
"""What was killed needs a moment to be gone."""
_CAN_BE_STARTED: Final = (ContainerState.CREATED, ContainerState.EXITED)
_RUNS: Final = (ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.UNMONITORED)


class Runs:
    """The runs of containers that are there."""

    def __init__(self, api: PodmanApi, processes: Processes, remover: Remover) -> None:
        self._api = api
        self._processes = processes
        self._remover = remover

    async def start_again(self, container_id: str) -> Live | None:
        """See ``Engine.start_again``."""
        container = await self._look(container_id)
        if container is None:
            return None
        state = inspected_state(container, self._processes)
        if state in _CAN_BE_STARTED:
            try:
                await self._api.start(container_id, Phase.START)
            except Refused as refused:
                if START_IS_WEDGED.search(refused.text):
                    return None
                raise refusal_fault(Phase.START, f"start container {container_id}", refused.text) from refused
            container = await self._api.container(container_id, Phase.START)
        elif state is not ContainerState.RUNNING:
            return None
        owner = None if container is None else owner_of(container["Config"].get("Labels"))
        if container is None or owner is None:
            return None
        return inspected_live(container, self._processes, owner.generation)

    async def end_run(self, run: Run, grace: timedelta) -> bool:
        """See ``Engine.end_run``."""
        container = await self._running(run)
        if container is None:
            return False
        await self._remover.stop(container, grace, Phase.START)
        for _ in range(LOOKS):
            if await self._running(run) is None:
                return True
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        name = run.container_id
        raise engine_fault(FaultKind.STOP_FAILED, Phase.START, f"stop container {name}", "it still runs", name=name)

    async def _running(self, run: Run) -> Json | None:
        """The container, if this run of it goes on."""
        container = await self._look(run.container_id)
        if container is None or not _is_of(run, container):
            return None
        return container if inspected_state(container, self._processes) in _RUNS else None

    async def _look(self, container_id: str) -> Json | None:
        """The container, if it is there and one of ours."""
        await self._processes.learn()
        container = await self._api.container(container_id, Phase.START)
        return container if container is not None and owner_of(container["Config"].get("Labels")) else None


def _is_of(run: Run, container: Json) -> bool:
    """Whether the container's present run is this one. Podman's list knows whole seconds only, so either time may be one."""
    started_at = parse_time(str(container["State"].get("StartedAt", "")))
    if run.started_at is None or started_at is None:
        return run.started_at is started_at
    return started_at == run.started_at or _seconds(started_at) == run.started_at


def _seconds(at: datetime) -> datetime:
    return at.replace(microsecond=0)
