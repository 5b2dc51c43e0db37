# SPDX-License-Identifier: Apache-2.0
"""What failing workloads cost a healthy one: a fresh workload alone, and the same beside many that fail."""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from bench.report import Aim, Figure
from bench.scene import Scene
from bench.stage import IMAGE
from bench.stories import trouble
from bench.waiting import until
from client.api import Wait

PAUSE_SECONDS = 1.5
"""At most so long between two rounds, at random: they must not fall into step with the waits of those that fail."""


async def fairness(scene: Scene) -> list[Figure]:
    """Beside one hung pull, many pulls of a registry that refuses, and one container that crashes again and again."""
    registry = scene.stage.registry
    await asyncio.to_thread(registry.start)
    alone = await _rounds(scene, "alone")
    with trouble.silent_registry() as silent:
        failing = tuple(f"perdure-failing-{number}" for number in range(scene.rounds.failing))
        refusing = trouble.refusing_registry()
        await scene.perdure.apply("perdure-hangs", image=f"{silent}/hangs:1", wait=Wait.NONE)
        await scene.perdure.apply(*failing, image=f"{refusing}/web:1", wait=Wait.NONE)
        await scene.perdure.apply("perdure-crashes", image=IMAGE, command=["sh", "-c", "exit 1"], wait=Wait.NONE)
        for name in failing:
            await until(lambda name=name: _has_failed(scene, name), f"{name} fails", poll_seconds=0.2)  # type: ignore[misc]
        beside = await _rounds(scene, "beside")
        await scene.perdure.remove("perdure-hangs", "perdure-crashes", *failing)
    await asyncio.to_thread(registry.stop)
    trouble_is = f"beside 1 hung pull, {len(failing)} pulls that are tried again and 1 crash loop"
    figures = []
    for kind in ("image local", "with a pull"):
        delay = statistics.median(beside[kind]) - statistics.median(alone[kind])
        figures += [
            Figure(f"fresh workload alone, {kind} -> running", "s", alone[kind]),
            Figure(f"the same {trouble_is}", "s", beside[kind]),
            Figure("delay by that, of the medians", "s", [delay], Aim(1.0)),
        ]
    return figures


async def _rounds(scene: Scene, label: str) -> dict[str, list[float]]:
    """Fresh workloads one by one, with a local image and with one that must be pulled."""
    pulled = tuple(f"perdure-pulled-{label}-{turn}" for turn in range(scene.rounds.fair))
    images = await asyncio.to_thread(trouble.push, scene.stage.registry, *pulled)
    took: dict[str, list[float]] = {"image local": [], "with a pull": []}
    for turn, name in enumerate(pulled):
        took["image local"].append(await _fresh(scene, f"perdure-local-{label}-{turn}", IMAGE))
        took["with a pull"].append(await _fresh(scene, name, images[name]))
    return took


async def _fresh(scene: Scene, name: str, image: str) -> float:
    await asyncio.sleep(random.uniform(0, PAUSE_SECONDS))
    begun = time.time()
    await scene.perdure.run(name, image=image)
    took = await scene.stamps.wait(name) - begun
    await scene.perdure.remove(name)
    return took


async def _has_failed(scene: Scene, name: str) -> bool:
    return (await scene.perdure.status(name)).last_error is not None
