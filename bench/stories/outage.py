# SPDX-License-Identifier: Apache-2.0
"""A registry that is away for a minute: when what waits for it runs, and how often it was tried meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.perdure import Perdure
from bench.report import Aim, Figure, Of
from bench.scene import Scene
from bench.stories import trouble
from bench.swarm import Swarm
from bench.waiting import until

NEVER = "never: it does not try a pull again"


async def outage(scene: Scene) -> list[Figure]:
    """One after the other, each with images of its own, no two of them alike."""
    registry = scene.stage.registry
    asked: list[Perdure | Swarm] = [scene.perdure, *([scene.swarm] if scene.swarm else [])]
    took: dict[str, list[float]] = {}
    tries: dict[str, list[float]] = {}
    for contestant in asked:
        names = tuple(f"{contestant.key}-outage-{number}" for number in range(scene.rounds.waiting))
        await asyncio.to_thread(registry.start)
        images = await asyncio.to_thread(trouble.push, registry, *names)
        await asyncio.to_thread(registry.stop)
        await asyncio.gather(*(contestant.run(name, image=images[name]) for name in names))
        await asyncio.sleep(scene.rounds.outage.total_seconds())
        tries[contestant.name] = [float(await contestant.tries(name)) for name in names]
        starting = asyncio.create_task(asyncio.to_thread(registry.start))
        up_at = await until(lambda: registry.is_answering, "the registry", poll_seconds=0.01)
        await starting
        took[contestant.name] = [await scene.stamps.wait(name) - up_at for name in names]
        await contestant.remove(*names)
        await asyncio.to_thread(registry.stop)
    ours, our_tries = took.pop(scene.perdure.name), tries.pop(scene.perdure.name)
    never: dict[str, Sequence[float] | str] = {peer.name: NEVER for peer in scene.peers if peer not in asked}
    seconds = scene.rounds.outage.total_seconds()
    return [
        Figure(f"registry up after {seconds:.0f} s -> running", "s", ours, Aim(3.0), {**took, **never}),
        Figure("tries of each workload in the outage", "tries", our_tries, Aim(8, Of.LARGEST), {**tries, **never}),
    ]
