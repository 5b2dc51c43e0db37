# SPDX-License-Identifier: Apache-2.0
"""What is measured, one function for each story."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.plain import PlainPodman
from bench.report import Measure
from bench.stage import HOST, TIMEOUT, Stage
from client.api import Reconciler, Wait
from perdure.model.states import Substate
from perdure.policy.restart import SETTLED
from perdure.runtime.connect import connect_to_stack
from perdure.wire import names

PLAIN_THREADS = 2
SAME_ERROR_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often each story is told."""

    start: int = 20
    supersede: int = 10
    kill: int = 10
    many: int = 3
    workloads: int = 50


async def start(stage: Stage, fleet: Reconciler, plain: PlainPodman, rounds: Rounds) -> list[Measure]:
    """From the call of apply to the first instruction; image local, client connected; in turns with plain Podman."""
    ours, returned, theirs = [], [], []
    for turn in range(rounds.start + 1):
        plain_name, name = f"plain-start-{turn}", f"start-{turn}"
        begun = time.time()
        plain.run(plain_name)
        theirs.append(stage.stamps.wait(plain_name) - begun)
        plain.remove(plain_name)
        manifest = stage.manifest(name)
        begun = time.time()
        await fleet.apply([manifest], wait=Wait.FIRST_ATTEMPT, timeout=TIMEOUT)
        returned.append(time.time() - begun)
        ours.append(stage.stamps.wait(name) - begun)
        await stage.remove(fleet, name)
    ours, returned, theirs = ours[1:], returned[1:], theirs[1:]  # the first one warms the caches of both
    over = statistics.median(ours) - statistics.median(theirs)
    return [
        Measure("apply -> running", "s", ours),
        Measure("plain Podman, create and start -> running", "s", theirs),
        Measure("apply -> running, above plain Podman", "s", [over], aim="<= 0.060 s"),
        Measure("apply returns after the first attempt", "s", returned),
    ]


async def supersede(stage: Stage, fleet: Reconciler, rounds: Rounds) -> list[Measure]:
    """From the call of the second apply to its first instruction, while the first one hangs in a pull."""
    took = []
    with silent_registry() as registry:
        for turn in range(rounds.supersede):
            name = f"supersede-{turn}"
            await fleet.apply([stage.manifest(name, image=f"{registry}/hangs:{turn}")], wait=Wait.NONE, timeout=TIMEOUT)
            await _until(fleet, name, Substate.PULLING)
            manifest = stage.manifest(name)
            begun = time.time()
            await fleet.apply([manifest], wait=Wait.NONE, timeout=TIMEOUT)
            took.append(await asyncio.to_thread(stage.stamps.wait, name) - begun)
            await stage.remove(fleet, name)
    return [Measure("newer version while a pull hangs -> running", "s", took, aim="<= 0.440 s")]


async def kill(stage: Stage, fleet: Reconciler, plain: PlainPodman, rounds: Rounds) -> list[Measure]:
    """From SIGKILL of the main process to the first instruction of the next one, after a run that counts as settled."""
    ours: list[float] = []
    theirs: list[float] = []
    workloads = [f"kill-{turn}" for turn in range(rounds.kill)]
    plain_names = [f"plain-kill-{turn}" for turn in range(rounds.kill)]
    await fleet.apply([stage.manifest(*workloads)], wait=Wait.RUNNING, timeout=TIMEOUT)
    for name in plain_names:
        plain.run(name, restart=True)
    await asyncio.sleep(SETTLED.total_seconds() + 1)
    for name, plain_name in zip(workloads, plain_names, strict=True):
        status = await fleet.status(HOST, name)
        if status.live is None:
            raise RuntimeError(f"{name} is not live")
        for victim, counted, taken in ((plain_name, plain_name, theirs), (status.live.container_id, name, ours)):
            pid = plain.pid(victim)
            begun = time.time()
            os.kill(pid, signal.SIGKILL)
            taken.append(await asyncio.to_thread(stage.stamps.wait, counted, starts=2) - begun)
    await stage.remove(fleet, *workloads)
    for name in plain_names:
        plain.remove(name)
    return [
        Measure("kill -9 of a container -> running", "s", ours),
        Measure("plain Podman, --restart=always: kill -9 -> running", "s", theirs),
    ]


async def many(stage: Stage, fleet: Reconciler, plain: PlainPodman, rounds: Rounds) -> list[Measure]:
    """All workloads of one apply, from the call to the first instruction of the last one."""
    ours, theirs, our_cpu, their_cpu = [], [], [], []
    by_part: dict[str, list[float]] = {}
    for turn in range(rounds.many):
        plain_names = [f"plain-many-{turn}-{number}" for number in range(rounds.workloads)]
        before, begun = stage.cpu(), time.time()
        await asyncio.to_thread(plain.run_all, plain_names, PLAIN_THREADS)
        theirs.append(max(stage.stamps.wait(name) for name in plain_names) - begun)
        used = {part: value - before[part] for part, value in stage.cpu().items()}
        their_cpu.append(used["podman"] + used["containers"] + used["client"])
        for name in plain_names:
            plain.remove(name)
        workloads = [f"many-{turn}-{number}" for number in range(rounds.workloads)]
        manifest = stage.manifest(*workloads)
        before, begun = stage.cpu(), time.time()
        await fleet.apply([manifest], wait=Wait.FIRST_ATTEMPT, timeout=TIMEOUT)
        ours.append(max(stage.stamps.wait(name) for name in workloads) - begun)
        used = {part: value - before[part] for part, value in stage.cpu().items()}
        our_cpu.append(sum(used.values()))
        for part, value in used.items():
            by_part.setdefault(part, []).append(value)
        await stage.remove(fleet, *workloads)
    medians = {part: statistics.median(values) for part, values in by_part.items()}
    count = rounds.workloads
    return [
        Measure(f"{count} workloads from one apply, wall", "s", ours),
        Measure(f"plain Podman, {count} with {PLAIN_THREADS} threads, wall", "s", theirs),
        Measure(f"{count} workloads, wall, of plain Podman", "x", _ratios(ours, theirs), aim="<= 1.5 x"),
        Measure(f"{count} workloads from one apply, CPU", "s", our_cpu, detail=medians),
        Measure(f"plain Podman, {count} with {PLAIN_THREADS} threads, CPU", "s", their_cpu),
        Measure(f"{count} workloads, CPU, of plain Podman", "x", _ratios(our_cpu, their_cpu), aim="<= 1.9 x"),
    ]


async def history(stage: Stage, fleet: Reconciler) -> list[Measure]:
    """Events of a workload's history until it runs, and for each failed attempt that repeats the same error."""
    temporal = await connect_to_stack(stage.record, "bench")

    async def events(name: str) -> int:
        description = await temporal.get_workflow_handle(names.workload_id(HOST, name)).describe()
        return description.history_length

    await fleet.apply([stage.manifest("history")], wait=Wait.RUNNING, timeout=TIMEOUT)
    until_running = await events("history")
    failing = stage.manifest("failing", image="nosuch.invalid/web:1", retry={"maximumInterval": "1s"})
    await fleet.apply([failing], wait=Wait.FIRST_ATTEMPT, timeout=TIMEOUT)
    first = await _attempt(fleet, "failing", at_least=2)
    before = await events("failing")
    last = await _attempt(fleet, "failing", at_least=first + SAME_ERROR_ATTEMPTS)
    each = (await events("failing") - before) / (last - first)
    await stage.remove(fleet, "history", "failing")
    return [
        Measure("history until running", "events", [until_running]),
        Measure(
            "history of a failed attempt with the same error",
            "events",
            [each],
            aim="0",
            detail={"attempts": last - first},
        ),
    ]


@contextmanager
def silent_registry() -> Iterator[str]:
    """Something that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        yield f"localhost:{listener.getsockname()[1]}"


async def _until(fleet: Reconciler, name: str, substate: Substate) -> None:
    async with asyncio.timeout(TIMEOUT.total_seconds()):
        while (await fleet.status(HOST, name)).substate is not substate:
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # until the pull really hangs on the wire


async def _attempt(fleet: Reconciler, name: str, *, at_least: int) -> int:
    async with asyncio.timeout(TIMEOUT.total_seconds()):
        while (attempt := (await fleet.status(HOST, name)).attempt) < at_least:
            await asyncio.sleep(0.2)
    return attempt


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [our / their for our, their in zip(ours, theirs, strict=True)]
