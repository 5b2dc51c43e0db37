# SPDX-License-Identifier: Apache-2.0
"""The limits that a container gets where its spec leaves them open.

Podman gives ``default_ulimits`` of the host's containers.conf only to containers that set no limit at all. One that sets
``core`` alone gets Podman's own high ``nofile`` and ``nproc``, which a host without CAP_SYS_RESOURCE cannot set, and fails
to start. So when a start fails that way, the host's defaults are read from a container that is made and never started,
and the gaps are filled with them from then on.
"""

from __future__ import annotations

from dataclasses import replace

from activities.engine import Ownership
from activities.podman_api import PodmanApi
from activities.podman_connection import Refused
from activities.podman_removal import Remover
from activities.podman_spec import create_spec
from perdure.model.faults import Phase
from perdure.model.workload import ContainerSpec, Ulimit


class DefaultUlimits:
    """What is known of a host's ``default_ulimits``: nothing, until a start has failed for want of it."""

    def __init__(self, api: PodmanApi, remover: Remover) -> None:
        self._api = api
        self._remover = remover
        self._known: dict[str, Ulimit] = {}

    def missing_from(self, spec: ContainerSpec) -> dict[str, Ulimit]:
        """The limits to add to those of a spec; none where it sets none, as Podman fills those itself."""
        if not spec.ulimits:
            return {}
        return {name: limit for name, limit in self._known.items() if name not in spec.ulimits}

    async def learn(self, name: str, spec: ContainerSpec, owner: Ownership) -> bool:
        """Read the defaults; whether that gives a spec whose start has failed another chance. Raises EngineFault."""
        if not spec.ulimits or self._known:
            return False
        # With another spec hash, so that one left over by a crash is never taken for the workload's container.
        nothing = ContainerSpec(image=spec.image, command=("true",))
        bare = create_spec(f"{name}-limits", nothing, replace(owner, spec_hash="-"))
        try:
            container_id = await self._api.create(bare, Phase.START)
        except Refused:
            return False
        try:
            container = await self._api.container(container_id, Phase.START)
        finally:
            await self._remover.remove(container_id, None, Phase.START)
        for limit in ((container or {}).get("HostConfig") or {}).get("Ulimits") or ():
            limit_name = str(limit["Name"]).lower().removeprefix("rlimit_")
            self._known[limit_name] = Ulimit(soft=limit["Soft"], hard=limit["Hard"])
        return bool(self.missing_from(spec))
