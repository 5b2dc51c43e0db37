# SPDX-License-Identifier: Apache-2.0
"""What a workload leaves in Temporal's history."""

from __future__ import annotations

from bench.report import Aim, Figure
from bench.scene import Scene
from bench.stage import IMAGE
from bench.waiting import until
from perdure.model.states import State

SAME_ERROR_TRIES = 8


async def history(scene: Scene) -> list[Figure]:
    """Events until it runs, and for each failed try that repeats the same error."""
    perdure = scene.perdure
    await perdure.run("history", image=IMAGE)
    await until(lambda: perdure.shows("history", State.RUNNING), "running is shown")
    until_running = await perdure.events("history")
    await perdure.apply("failing", image="nosuch.invalid/web:1", retry={"maximumInterval": "1s"})
    first = await _tries(scene, at_least=2)
    before = await perdure.events("failing")
    last = await _tries(scene, at_least=first + SAME_ERROR_TRIES)
    each = (await perdure.events("failing") - before) / (last - first)
    await perdure.remove("history", "failing")
    return [
        Figure("history until running", "events", [until_running]),
        Figure(
            "history of a failed try with the same error", "events", [each], Aim(0.0), detail={"tries": last - first}
        ),
    ]


async def _tries(scene: Scene, *, at_least: int) -> int:
    made = 0

    async def enough() -> bool:
        nonlocal made
        made = await scene.perdure.tries("failing")
        return made >= at_least

    await until(enough, f"{at_least} tries", poll_seconds=0.2)
    return made
