# SPDX-License-Identifier: Apache-2.0
"""Many containers that run: what that costs while nothing happens, and what becomes of them when their keeper is killed."""

from __future__ import annotations

import asyncio

from bench.contestant import Contestant
from bench.docker import NoDocker
from bench.report import Aim, Figure, Of
from bench.rpcs import Requests
from bench.scene import Scene
from bench.stage import IMAGE

QUIET_SECONDS = 20
"""After the last start, until nothing of it is left to do."""


async def standing(scene: Scene) -> list[Figure]:
    """All contestants have their containers up in the same time, so that one quiet minute serves for all."""
    fresh = {
        contestant: tuple(f"{contestant.key}-standing-{number}" for number in range(scene.rounds.workloads))
        for contestant in scene.contestants
    }
    for contestant, names in fresh.items():
        await contestant.run(*names, image=IMAGE)
        await scene.stamps.wait_all(names)
    await asyncio.sleep(QUIET_SECONDS)
    figures = await _idle(scene, fresh) + await _crash(scene, fresh)
    for contestant, names in fresh.items():
        await contestant.remove(*names)
    return figures


async def _idle(scene: Scene, fresh: dict[Contestant, tuple[str, ...]]) -> list[Figure]:
    """CPU seconds in a minute without change, of all processes together."""
    requests = Requests(scene.stage)
    asked = await requests.so_far()
    before = {contestant: contestant.cpu() for contestant in fresh}
    await asyncio.sleep(scene.rounds.idle.total_seconds())
    minutes = scene.rounds.idle.total_seconds() / 60
    parts = {
        contestant: {part: (value - before[contestant][part]) / minutes for part, value in contestant.cpu().items()}
        for contestant in fresh
    }
    sent = await requests.so_far() - asked
    cpu = {contestant.name: [sum(used.values())] for contestant, used in parts.items()}
    memory = {contestant.name: [contestant.memory()] for contestant in fresh}
    count = scene.rounds.workloads
    return [
        Figure(
            f"idle with {count} running, CPU seconds a minute",
            "s",
            cpu.pop(scene.perdure.name),
            Aim(1.0),
            cpu,
            parts[scene.perdure] | dict(sent),
        ),
        Figure(f"memory with {count} running, PSS", "MiB", memory.pop(scene.perdure.name), peers=memory),
    ]


async def _crash(scene: Scene, fresh: dict[Contestant, tuple[str, ...]]) -> list[Figure]:
    """Kill -9 of the host's worker, of Podman's service, of dockerd: until all are in care again, and how many were restarted."""
    back: dict[str, list[float] | str] = {}
    restarted: dict[str, list[float] | str] = {}
    ours, our_restarts = await _crashes(scene, scene.perdure, fresh[scene.perdure], scene.rounds.crash)
    for peer in scene.peers:
        try:
            back[peer.name], restarted[peer.name] = await _crashes(scene, peer, fresh[peer], 1)
        except (NoDocker, TimeoutError, LookupError) as error:
            back[peer.name] = restarted[peer.name] = f"did not recover: {error}"
    count = scene.rounds.workloads
    return [
        Figure(f"keeper killed -> all {count} in its care again", "s", ours, Aim(2.0), back),
        Figure("containers restarted by that", "of them", our_restarts, Aim(0.0, Of.LARGEST), restarted),
    ]


async def _crashes(
    scene: Scene, contestant: Contestant, names: tuple[str, ...], rounds: int
) -> tuple[list[float], list[float]]:
    """How long each recovery took, and how many containers were restarted by it."""
    back, restarted = [], []
    for _ in range(rounds):
        before = await _identities(scene, contestant, names)
        back.append(await contestant.crash(*names))
        after = await _identities(scene, contestant, names)
        restarted.append(float(sum(after[name] != before[name] for name in names)))
    return back, restarted


async def _identities(
    scene: Scene, contestant: Contestant, names: tuple[str, ...]
) -> dict[str, tuple[int, int, float]]:
    """Of each container: its main process, and how often and when it was started. A restart changes all of them."""
    return {name: (await contestant.pid(name), scene.stamps.starts(name), scene.stamps.latest(name)) for name in names}
