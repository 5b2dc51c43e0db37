# SPDX-License-Identifier: Apache-2.0
"""Which peers can be run here, besides plain Podman, and why the others cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx

from bench import swarm
from bench.contestant import Contestant
from bench.docker import Docker, NoDocker
from bench.dockerd import PlainDocker
from bench.stage import FOLDER, IMAGE
from bench.stamps import Stamps
from bench.swarm import Swarm
from demo.image import busybox_rootfs


@dataclass(frozen=True, slots=True)
class Peers:
    """Those that run."""

    others: Sequence[Contestant]
    tuned: Sequence[Contestant]
    absent: Mapping[str, str]
    """Why the others do not, by name."""

    @classmethod
    @asynccontextmanager
    async def started(cls, stamps: Stamps, *, with_docker: bool) -> AsyncIterator[Peers]:
        """Start what is wanted and can be run, and remove it at the end."""
        if not with_docker:
            why = "not asked for (make bench-peers)"
            yield cls((), (), {PlainDocker.name: why, "Docker Swarm": why})
            return
        others: list[Contestant] = []
        tuned: list[Contestant] = []
        absent: dict[str, str] = {}
        dockers = _dockers()
        has_swarm = False
        try:
            try:
                await _begin(dockers[0])
                others.append(PlainDocker(dockers[0], stamps))
            except (NoDocker, httpx.HTTPError, OSError) as error:
                absent[PlainDocker.name] = str(error)
            try:
                await _begin(dockers[1])
                swarm.begin(dockers[1])
                has_swarm = True
                others.append(Swarm(dockers[1], stamps))
                tuned.append(Swarm(dockers[1], stamps, timedelta(0)))
            except (NoDocker, httpx.HTTPError, OSError) as error:
                absent["Docker Swarm"] = str(error)
            yield cls(others, tuned, absent)
        finally:
            for docker in dockers:
                await docker.destroy()
            if has_swarm:
                swarm.end()


async def clear() -> None:
    """Remove what an earlier run left that was killed."""
    for docker in _dockers():
        if docker.folder.exists():
            await docker.destroy()
            swarm.end()


def _dockers() -> tuple[Docker, Docker]:
    return Docker(FOLDER / "docker"), Docker(FOLDER / "swarm")


async def _begin(docker: Docker) -> None:
    await docker.start()
    docker.import_image(busybox_rootfs({}), IMAGE)
