# SPDX-License-Identifier: Apache-2.0
"""Our containers, as Podman lists them and the kernel corrects it, for as few calls as possible."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from activities.engine import Managed, Ownership
from activities.podman_api import PodmanApi
from activities.podman_connection import Json
from activities.podman_facts import FLEET, HOST, WORKLOAD, listed, looked_at, needs_closer_look
from activities.podman_firsts import Firsts
from activities.podman_processes import Processes
from activities.shared_questions import SharedQuestions
from perdure.model.faults import Phase
from perdure.model.observation import ContainerState

MANY: Final = 6
"""From so many workloads on, one list of all containers costs Podman less than a list for each; measured with 40 containers."""

_Key = tuple[str, str, str]
"""A workload: its fleet, its host, its name."""


class Listing:
    """The containers of one Podman that carry our labels."""

    def __init__(self, api: PodmanApi, processes: Processes) -> None:
        self._api = api
        self._processes = processes
        self._firsts = Firsts()
        self._entries: dict[Phase, SharedQuestions[_Key, list[Json]]] = {
            phase: SharedQuestions(partial(self._ask, phase)) for phase in Phase
        }

    async def containers(self, fleet: str, host: str, workload: str | None, phase: Phase) -> list[Managed]:
        """Our containers, by one call, and one more for each that is stopping or seems to have lost its monitor."""
        await self._processes.learn()
        if workload is None:
            entries = await self._api.containers({FLEET: fleet, HOST: host}, phase)
        else:
            entries = await self._entries[phase].ask((fleet, host, workload))
        found = [managed for entry in entries if (managed := listed(entry, self._processes)) is not None]
        if workload is None:
            self._firsts.learn(fleet, host, found)
        return [
            await self._look_closer(managed, phase) if needs_closer_look(managed, self._processes) else managed
            for managed in found
        ]

    def is_first(self, owner: Ownership) -> bool:
        """Whether nobody has to look for containers of a workload, see ``Firsts``."""
        return self._firsts.is_first(owner)

    async def _ask(self, phase: Phase, keys: frozenset[_Key]) -> dict[_Key, list[Json]]:
        """The containers of some workloads: by a list for each, or of many by one list of all."""
        if len(keys) < MANY:
            lists = [self._api.containers({FLEET: key[0], HOST: key[1], WORKLOAD: key[2]}, phase) for key in keys]
            return dict(zip(keys, await asyncio.gather(*lists), strict=True))
        found: dict[_Key, list[Json]] = {key: [] for key in keys}
        for fleet, host in {key[:2] for key in keys}:
            for entry in await self._api.containers({FLEET: fleet, HOST: host}, phase):
                found.get((fleet, host, str(entry["Labels"].get(WORKLOAD))), []).append(entry)
        return found

    async def _look_closer(self, managed: Managed, phase: Phase) -> Managed:
        container = await self._api.container(managed.container_id, phase)
        if container is None:
            return replace(managed, state=ContainerState.MISSING)
        return looked_at(managed, container, self._processes)
