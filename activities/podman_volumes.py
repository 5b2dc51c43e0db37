# SPDX-License-Identifier: Apache-2.0
"""Named volumes: made when they are missing, and never removed while anything is in them.

A volume holds the user's data, so it outlives the workload. Only one that a workload made and that nothing was ever put
into goes with it: that is what is left when a container failed before it ran.
"""

from __future__ import annotations

import asyncio
import os

from activities.engine import Ownership
from activities.podman_api import PodmanApi
from activities.podman_connection import Refused
from activities.podman_facts import FLEET, HOST, WORKLOAD
from activities.translate import refusal_fault
from perdure.model.faults import Phase
from perdure.model.workload import ContainerSpec, VolumeMount


class Volumes:
    """The named volumes of workloads."""

    def __init__(self, api: PodmanApi) -> None:
        self._api = api

    async def make_missing(self, spec: ContainerSpec, owner: Ownership) -> None:
        """Make the volumes of a spec that are not there, with labels that say for whom. Raises EngineFault."""
        for name in sorted({mount.source for mount in spec.mounts if isinstance(mount, VolumeMount)}):
            if await self._api.volume(name, Phase.START) is not None:
                continue
            try:
                await self._api.create_volume(name, _labels(owner.fleet, owner.host, owner.workload), Phase.START)
            except Refused as refused:
                # Somebody else may have made it in between.
                if await self._api.volume(name, Phase.START) is None:
                    raise refusal_fault(Phase.START, f"create volume {name}", refused.text) from refused

    async def remove_unused(self, fleet: str, host: str, workload: str) -> None:
        """Remove the volumes that were made for a workload, are empty, and are used by no container."""
        for volume in await self._api.volumes(_labels(fleet, host, workload), Phase.STOP):
            if await asyncio.to_thread(_is_empty, str(volume.get("Mountpoint") or "")):
                try:
                    await self._api.remove_volume(str(volume["Name"]), Phase.STOP)
                except Refused:
                    # Somebody uses it: then it is no longer ours to remove.
                    continue


def _labels(fleet: str, host: str, workload: str) -> dict[str, str]:
    return {FLEET: fleet, HOST: host, WORKLOAD: workload}


def _is_empty(folder: str) -> bool:
    """Whether a folder is certainly empty; one that we cannot look into is not."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False
