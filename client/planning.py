# SPDX-License-Identifier: Apache-2.0
"""What an apply would do to each workload, found out without sending anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from temporalio.client import Client

from client.applying import Wish
from client.errors import NotFound
from client.waiting import look
from perdure.model.status import WorkloadStatus
from perdure.policy import drift

LOOKS_AT_ONCE: Final = 16


class Change(StrEnum):
    """What an apply does."""

    NEW = "new"
    REPLACED = "replaced"
    """Its container is replaced."""
    SETTINGS = "settings"
    """Its settings change; the container is not touched."""
    UNCHANGED = "unchanged"
    STALE = "stale"
    """It would be refused: a newer revision was accepted before."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What an apply would do to one workload."""

    host: str
    name: str
    change: Change
    generation: int
    """The generation that it is at now, 0 where it is not there."""
    detail: str = ""


async def plan(client: Client, wishes: Sequence[Wish]) -> tuple[Planned, ...]:
    """Compare what is wanted with what was accepted before."""
    slots = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def compare(wish: Wish) -> Planned:
        async with slots:
            try:
                seen = await look(client, wish.target.host, wish.target.name)
            except NotFound:
                return planned(wish, None)
        return planned(wish, seen.status)

    return tuple(await asyncio.gather(*(compare(wish) for wish in wishes)))


def planned(wish: Wish, status: WorkloadStatus | None) -> Planned:
    """What a wish would do to a workload with this status; None where there is none."""
    host, name, image = wish.target.host, wish.target.name, wish.target.spec.container.image
    if status is None:
        return Planned(host, name, Change.NEW, 0, image)
    revision = wish.request.revision
    if revision is not None and status.revision is not None and revision < status.revision:
        return Planned(
            host, name, Change.STALE, status.generation, f"revision {revision} is older than {status.revision}"
        )
    if drift.spec_hash(wish.target.spec) == status.spec_hash:
        return Planned(host, name, Change.UNCHANGED, status.generation)
    if drift.container_hash(wish.target.spec.container) == status.container_hash:
        return Planned(host, name, Change.SETTINGS, status.generation)
    detail = f"{status.image} -> {image}" if image != status.image else ""
    return Planned(host, name, Change.REPLACED, status.generation, detail)
