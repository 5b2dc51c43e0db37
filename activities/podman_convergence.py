# SPDX-License-Identifier: Apache-2.0
"""Bring one workload's containers to what is wanted: one container, equal to the spec, alive; or none.

Everything is decided from what Podman has now, never from what an earlier call did, so a call may come twice, or after a
crash at any point. The order keeps the old container running as long as possible: make the new one, end the others,
start the new one. An error while making it therefore leaves the old one running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from activities.architecture import check_architecture
from activities.engine import EngineFault, Managed, Ownership
from activities.podman_api import PodmanApi
from activities.podman_connection import Json, Refused
from activities.podman_facts import (
    inspected_live,
    inspected_state,
    owner_of,
)
from activities.podman_files import HostFiles
from activities.podman_health import Healthchecks
from activities.podman_listing import Listing
from activities.podman_processes import Processes
from activities.podman_removal import Remover
from activities.podman_spec import create_spec
from activities.podman_ulimits import DefaultUlimits
from activities.podman_volumes import Volumes
from activities.shared_questions import SharedQuestions
from activities.translate import START_IS_WEDGED, engine_fault, refusal_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.observation import ContainerState, Live
from perdure.model.workload import ContainerSpec

ROUNDS: Final = 4
"""How often a broken container is made again within one call."""
SETTLING_SECONDS: Final = 1.5
"""How long Podman may take to notice that a process has ended; measured: up to 0.3 s."""
_POLL_SECONDS: Final = 0.05
_LIVE: Final = (ContainerState.RUNNING, ContainerState.PAUSED)
_READY: Final = (ContainerState.CREATED, ContainerState.EXITED)
_PASSING: Final = (ContainerState.DEAD, ContainerState.STOPPING)
"""It may be that Podman notices in a moment that its process has ended. A lost monitor never comes back."""


class Convergence:
    """Makes containers and ends them, one workload at a time: the caller holds the workload's lock."""

    def __init__(
        self,
        api: PodmanApi,
        *,
        listing: Listing,
        processes: Processes,
        files: HostFiles,
        remover: Remover,
        healthchecks: Healthchecks,
    ) -> None:
        self._api = api
        self._listing = listing
        self._processes = processes
        self._files = files
        self._healthchecks = healthchecks
        self._volumes = Volumes(api)
        self._remover = remover
        self._ulimits = DefaultUlimits(api, remover)
        self._images: SharedQuestions[str, Json | None] = SharedQuestions(self._ask_for_images)

    async def ensure_running(self, name: str, spec: ContainerSpec, owner: Ownership) -> Live:
        """See ``Engine.ensure_running``."""
        is_first = self._listing.is_first(owner)
        for number in range(ROUNDS):
            if (live := await self._try_running(name, spec, owner, look=number > 0 or not is_first)) is not None:
                await asyncio.to_thread(self._files.keep_only, owner.host, owner.workload, spec.files)
                return live
        raise engine_fault(
            FaultKind.ENGINE_ERROR,
            Phase.START,
            f"start container {name}",
            f"it was made again {ROUNDS} times and is still broken",
        )

    async def ensure_absent(self, fleet: str, host: str, workload: str, grace: timedelta, fleet_id: str) -> int:
        """See ``Engine.ensure_absent``."""
        listed = await self._listing.containers(fleet, host, workload, Phase.STOP)
        found = [managed for managed in listed if managed.owner.fleet_id == fleet_id]
        removals = (self._remover.remove(managed.container_id, grace, Phase.STOP) for managed in found)
        outcomes = await asyncio.gather(*removals, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await asyncio.to_thread(self._files.keep_only, host, workload, ())
        await self._volumes.remove_unused(fleet, host, workload)
        return len(found)

    async def _ask_for_images(self, names: frozenset[str]) -> dict[str, Json | EngineFault | None]:
        async def ask(name: str) -> Json | EngineFault | None:
            try:
                return await self._api.image(name, Phase.START)
            except EngineFault as fault:
                return fault

        return dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))

    # ---- one round ----

    async def _try_running(self, name: str, spec: ContainerSpec, owner: Ownership, *, look: bool) -> Live | None:
        """One round; None where something broken was cleared away, and the next round may succeed."""
        found, image = await asyncio.gather(self._of_workload(owner) if look else _none(), self._images.ask(spec.image))
        _refuse_stale(found, owner)
        mounted = await asyncio.to_thread(self._files.write, owner.host, owner.workload, spec.files)
        keep = await self._usable(_equal(found, owner), name)
        is_new = keep is None
        if keep is None:
            _check_image(name, spec, image)
            for managed in found:
                if managed.name == name:
                    await self._remover.remove(managed.container_id, None, Phase.START)
            keep = await self._create(name, spec, owner, mounted)
            if keep is None:
                return None
        for managed in found:
            if managed.container_id != keep:
                await self._remover.remove(managed.container_id, None, Phase.START)
        container = None if is_new else await self._api.container(keep, Phase.START)
        if container is None or inspected_state(container, self._processes) is not ContainerState.RUNNING:
            if not await self._start(keep, name, spec, owner, container):
                return None
            container = await self._api.container(keep, Phase.START)
        if container is None:
            return None
        self._healthchecks.learn(container)
        return inspected_live(container, self._processes, owner.generation)

    async def _of_workload(self, owner: Ownership) -> list[Managed]:
        listed = await self._listing.containers(owner.fleet, owner.host, owner.workload, Phase.START)
        return [managed for managed in listed if managed.owner.is_same_workload(owner)]

    async def _usable(self, candidates: Sequence[Managed], name: str) -> str | None:
        """The best of some equal containers: one that runs, by our name; else one that can be started."""
        for managed in sorted(candidates, key=lambda one: (one.state not in _LIVE, one.name != name)):
            if managed.state in (*_LIVE, *_READY):
                return managed.container_id
            if managed.state in _PASSING and await self._settled(managed.container_id):
                return managed.container_id
        return None

    async def _settled(self, container_id: str) -> bool:
        """Give Podman a moment to notice that a process has ended; whether it did, so that the container can be started."""
        for _ in range(round(SETTLING_SECONDS / _POLL_SECONDS)):
            container = await self._api.container(container_id, Phase.START)
            if container is None:
                return False
            if inspected_state(container, self._processes) in _READY:
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False

    async def _create(
        self, name: str, spec: ContainerSpec, owner: Ownership, mounted: Sequence[tuple[str, str]]
    ) -> str | None:
        """Make the container; None where its name had to be freed first."""
        await self._volumes.make_missing(spec, owner)
        try:
            body = create_spec(name, spec, owner, mounted, self._ulimits.missing_from(spec))
            return await self._api.create(body, Phase.START)
        except Refused as refused:
            doing = f"create container {name}"
            fault = refusal_fault(Phase.START, doing, refused.text, image=spec.image, name=name)
            if fault.fault.kind is not FaultKind.NAME_CONFLICT:
                raise fault from refused
            await self._free_name(name, owner, fault)
            return None

    async def _free_name(self, name: str, owner: Ownership, fault: EngineFault) -> None:
        """Free a name that only a crash can have left. Raises NameConflict where somebody else's container has it."""
        holder = await self._api.container(name, Phase.START)
        if holder is None:
            await self._remover.free_name(name, Phase.START)
            return
        theirs = owner_of(holder["Config"].get("Labels"))
        if theirs is None or not theirs.is_same_workload(owner):
            raise fault

    async def _start(
        self, container_id: str, name: str, spec: ContainerSpec, owner: Ownership, container: Json | None
    ) -> bool:
        """Start the container; False where it was broken and has been cleared away."""
        try:
            if container is not None and inspected_state(container, self._processes) is ContainerState.PAUSED:
                await self._api.unpause(container_id, Phase.START)
            else:
                await self._api.start(container_id, Phase.START)
        except Refused as refused:
            await self._after_failed_start(container_id, name, spec, owner, refused)
            return False
        return True

    async def _after_failed_start(
        self, container_id: str, name: str, spec: ContainerSpec, owner: Ownership, refused: Refused
    ) -> None:
        """Clear the container away where that can help, else raise what the refusal means."""
        fault = refusal_fault(Phase.START, f"start container {name}", refused.text, image=spec.image, name=name)
        if not START_IS_WEDGED.search(refused.text):
            is_ulimit = fault.fault.kind is FaultKind.ULIMIT_TOO_HIGH
            if not is_ulimit or not await self._ulimits.learn(name, spec, owner):
                raise fault from refused
        await self._remover.remove(container_id, timedelta(0), Phase.START)


async def _none() -> list[Managed]:
    """Nothing to look for."""
    return []


def _check_image(name: str, spec: ContainerSpec, image: Json | None) -> None:
    """Raise ImageMissing or WrongArchitecture before anything is changed."""
    doing = f"create container {name}"
    if image is None:
        raise refusal_fault(Phase.START, doing, f"{spec.image}: image not known", image=spec.image)
    check_architecture(image, Phase.START, doing)


def _equal(found: Sequence[Managed], owner: Ownership) -> list[Managed]:
    return [
        managed
        for managed in found
        if (managed.owner.incarnation, managed.owner.spec_hash) == (owner.incarnation, owner.spec_hash)
    ]


def _refuse_stale(found: Sequence[Managed], owner: Ownership) -> None:
    """Never act below a generation that is there already: a late attempt would undo a newer one."""
    newer = [
        managed.owner.generation
        for managed in found
        if managed.owner.incarnation == owner.incarnation and managed.owner.generation > owner.generation
    ]
    if newer:
        text = f"generation {max(newer)} is there already"
        raise engine_fault(FaultKind.SUPERSEDED, Phase.START, f"start generation {owner.generation}", text)
