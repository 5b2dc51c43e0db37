# SPDX-License-Identifier: Apache-2.0
"""From the end of a container, by a crash or by hand, to the first instruction of the next one."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict

from bench.contestant import Contestant
from bench.report import Aim, Figure
from bench.scene import Scene
from bench.stage import IMAGE
from perdure.policy.restart import SETTLED

ABSENT_SECONDS = 20
"""What is not back after this long does not come back."""
STABLE_SECONDS = 1.0
"""After this long the container that is there stays."""


async def killed(scene: Scene) -> list[Figure]:
    """From SIGKILL of the main process, after a run that counts as settled, once for each container."""
    contestants = (*scene.contestants, *scene.tuned)
    fresh = {contestant: _names(contestant, "kill", scene.rounds.kill) for contestant in contestants}
    await _settle(scene, fresh)
    took: dict[str, list[float]] = defaultdict(list)
    for turn in range(scene.rounds.kill):
        for contestant, names in fresh.items():
            pid = await contestant.pid(names[turn])
            begun = time.time()
            os.kill(pid, signal.SIGKILL)
            took[contestant.name].append(await scene.stamps.wait(names[turn], starts=2) - begun)
    for contestant, names in fresh.items():
        await contestant.remove(*names)
    ours = took.pop(scene.perdure.name)
    return [Figure("kill -9 of a container -> running", "s", ours, Aim(0.35), took)]


async def removed(scene: Scene) -> list[Figure]:
    """From the end of the engine's own ``rm -f``; what is back before that counts as 0 s."""
    healers: list[Contestant] = [scene.perdure, *(peer for peer in (scene.swarm, *scene.tuned) if peer is not None)]
    others = [peer for peer in scene.peers if peer not in healers]
    fresh = {healer: _names(healer, "remove", scene.rounds.remove) for healer in healers}
    given_up = {other: _names(other, "remove", 1) for other in others}
    await _settle(scene, fresh | given_up)
    for other, (name,) in given_up.items():
        await other.remove_by_hand(name)
    since = time.monotonic()
    took: dict[str, list[float] | str] = {}
    early, starts = 0, 0
    for healer, names in fresh.items():
        seconds = []
        for name in names:
            await healer.remove_by_hand(name)
            ended = time.time()
            back = await _back_for_good(scene, healer, name)
            seconds.append(max(0.0, back - ended))
            if healer is scene.perdure:
                early += back < ended
                starts += scene.stamps.starts(name) - 1
        took[healer.name] = seconds
        await healer.remove(*names)
    await asyncio.sleep(max(0.0, ABSENT_SECONDS - (time.monotonic() - since)))
    for other, (name,) in given_up.items():
        is_back = scene.stamps.starts(name) > 1
        took[other.name] = "comes back" if is_back else f"never (not after {time.monotonic() - since:.0f} s)"
    ours = took.pop(scene.perdure.name)
    if isinstance(ours, str):
        raise TypeError(ours)
    note = f"back before the command ended: {early} of {len(ours)}; {starts} starts for {len(ours)} removals"
    return [Figure("podman rm -f of a container -> running", "s", ours, Aim(0.40), took, note=note)]


async def _back_for_good(scene: Scene, healer: Contestant, name: str) -> float:
    """The time of the start that lasts: one that comes too early may be removed by the same command."""
    while True:
        await scene.stamps.wait(name, starts=2)
        started = scene.stamps.latest(name)
        await asyncio.sleep(STABLE_SECONDS)
        try:
            os.kill(await healer.pid(name), 0)
        except (LookupError, ProcessLookupError):
            continue
        if scene.stamps.latest(name) == started:
            return started


async def _settle(scene: Scene, fresh: dict[Contestant, tuple[str, ...]]) -> None:
    """Run all of these long enough that their first end is answered at once."""
    for contestant, names in fresh.items():
        await contestant.run(*names, image=IMAGE)
    for names in fresh.values():
        await scene.stamps.wait_all(names)
    await asyncio.sleep(SETTLED.total_seconds() + 1)


def _names(contestant: Contestant, story: str, count: int) -> tuple[str, ...]:
    return tuple(f"{contestant.key}-{story}-{number}" for number in range(count))
