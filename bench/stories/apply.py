# SPDX-License-Identifier: Apache-2.0
"""From apply to running: one workload, a newer version while the first one hangs, and many at once."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import defaultdict

from bench import cpu
from bench.contestant import Contestant
from bench.report import Aim, Figure, Of
from bench.scene import Scene
from bench.stage import IMAGE
from bench.stories.trouble import silent_registry
from bench.waiting import until
from client.api import Wait
from perdure.model.states import Substate

HANGS_SECONDS = 0.5
"""After it is shown as pulling, until it really hangs on the wire."""


async def one(scene: Scene) -> list[Figure]:
    """From the call to the first instruction; image local, clients connected; everybody in turns."""
    took: dict[str, list[float]] = defaultdict(list)
    returned: list[float] = []
    for turn in range(scene.rounds.start + 1):
        for contestant in scene.contestants:
            name = f"{contestant.key}-start-{turn}"
            begun = time.time()
            await contestant.run(name, image=IMAGE)
            answered = time.time() - begun
            started = await scene.stamps.wait(name) - begun
            await contestant.remove(name)
            if turn > 0:  # the first one warms the caches of all
                took[contestant.name].append(started)
                if contestant is scene.perdure:
                    returned.append(answered)
    ours = took.pop(scene.perdure.name)
    return [
        Figure("apply -> running", "s", ours, Aim(0.060, Of.ABOVE), took),
        Figure("apply returns after the first attempt", "s", returned),
    ]


async def newer(scene: Scene) -> list[Figure]:
    """From the call of the second apply to its first instruction, while the first one hangs in a pull."""
    took = []
    with silent_registry() as registry:
        for turn in range(scene.rounds.supersede):
            name = f"perdure-newer-{turn}"
            await scene.perdure.apply(name, image=f"{registry}/hangs:{turn}", wait=Wait.NONE)
            await until(lambda name=name: _is_pulling(scene, name), f"{name} pulls", poll_seconds=0.05)  # type: ignore[misc]
            await asyncio.sleep(HANGS_SECONDS)
            begun = time.time()
            await scene.perdure.apply(name, wait=Wait.NONE)
            took.append(await scene.stamps.wait(name) - begun)
            await scene.perdure.remove(name)
    return [Figure("newer version while a pull hangs -> running", "s", took, Aim(0.440))]


async def many(scene: Scene) -> list[Figure]:
    """All of one apply, from the call to the first instruction of the last one; CPU seconds of all processes and the client."""
    wall: dict[str, list[float]] = defaultdict(list)
    used: dict[str, list[float]] = defaultdict(list)
    parts: dict[str, list[float]] = defaultdict(list)
    for turn in range(scene.rounds.many):
        for contestant in scene.contestants:
            names = tuple(f"{contestant.key}-many-{turn}-{number}" for number in range(scene.rounds.workloads))
            before, begun = _cpu(contestant), time.time()
            await contestant.run(*names, image=IMAGE)
            wall[contestant.name].append(await scene.stamps.wait_all(names) - begun)
            spent = {part: value - before[part] for part, value in _cpu(contestant).items()}
            used[contestant.name].append(sum(spent.values()))
            if contestant is scene.perdure:
                for part, value in spent.items():
                    parts[part].append(value)
            await contestant.remove(*names)
    count = scene.rounds.workloads
    our_wall, our_cpu = wall.pop(scene.perdure.name), used.pop(scene.perdure.name)
    medians = {part: statistics.median(values) for part, values in parts.items()}
    return [
        Figure(f"{count} workloads at once, wall", "s", our_wall, Aim(1.5, Of.RATIO), wall),
        Figure(f"{count} workloads at once, CPU", "s", our_cpu, Aim(1.9, Of.RATIO), used, medians),
    ]


async def _is_pulling(scene: Scene, name: str) -> bool:
    return (await scene.perdure.status(name)).substate is Substate.PULLING


def _cpu(contestant: Contestant) -> dict[str, float]:
    return contestant.cpu() | {"client": cpu.cpu_seconds(os.getpid())}
