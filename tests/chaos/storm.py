# SPDX-License-Identifier: Apache-2.0
"""A storm: parts are killed and started again at random points while a user goes on applying, and removing, workloads.

Promises checked all along: at most one live container of each workload; new is never followed by old; the generation never goes
backwards. And at the end, when all parts run again: no accepted apply or removal was lost, and everything has converged.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from client.api import Reconciler, Wait
from client.applying import Progress
from client.errors import NotFound
from perdure.model.manifest import Manifest
from perdure.model.states import State, Substate
from perdure.runtime.problems import Problem
from perdure.wire import names
from tests.chaos.journal import SCRIPT, Journal, live_containers
from tests.support.images import Images
from tests.support.leftovers import make_home
from tests.support.nursery import Nursery
from tests.support.podman import IsolatedPodman
from tests.support.ports import free_port
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async
from tests.support.workers import WorkerProcess
from tests.support.workloads import manifest, reconciler

HOST: Final = "edge-1"
PASSING: Final = "passing"
"""The name of one more workload, which comes and goes all the time and is gone at the end."""
CALM_SECONDS: Final = (0.05, 1.5)
"""Between two kills, after what the next one waits for."""
HASTE_SHARE: Final = 0.3
"""This share of the kills waits for nothing: it may hit a part that has just been started, or more than one at once."""
PATIENCE_SECONDS: Final = 10
"""The others wait until a container was started since the last kill, at most so long: then there is work to be hit."""
DOWN_SECONDS: Final = (0.0, 1.0)
"""How long a part stays down."""
APPLY_SECONDS: Final = (0.3, 2.5)
LOOK_SECONDS: Final = 0.05
LIST_SECONDS: Final = 0.5
"""A list of statuses costs the server, which must not be starved by the test."""
BAD_SHARE: Final = 0.2
"""Of the wishes this share names an image that cannot be pulled, until the next wish supersedes it."""
CONTAINER_SHARE: Final = 0.25
"""After a kill of a part, a container is killed too with this chance."""


@dataclass
class Report:
    """What happened in a storm."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    containers_killed: int = 0
    wishes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    removals: int = 0
    sends_repeated: int = 0
    starts: int = 0
    looks: int = 0
    seconds: float = 0.0
    seconds_to_converge: float = 0.0
    violations: list[str] = field(default_factory=list)
    logs: str = ""
    """Where the logs are, kept where a promise was broken."""

    def as_json(self) -> dict[str, Any]:
        """For printing."""
        return {**vars(self), "all_kills": self.kills.total(), "passed": self.passed}

    @property
    def passed(self) -> bool:
        """Whether all promises were kept."""
        return not self.violations


class Storm:
    """One run.

    Args:
        kills: how many kills of parts to make.
        seed: of all random choices. The machine's own timing is not repeatable, the plan of the storm is.
        workloads: how many workloads there are.
    """

    def __init__(self, *, kills: int, seed: int, workloads: int = 5) -> None:
        self.report = Report(seed)
        self._kills = kills
        self._random = random.Random(seed)
        self._home = make_home("chaos")
        (self._home / "journal").mkdir()
        self._journal = Journal(self._home / "journal", mark=f"{os.getpid()}-{seed}")
        self._names = [f"w{number}" for number in range(workloads)]
        self._generations: dict[str, int] = defaultdict(int)
        self._podman = IsolatedPodman()
        self._temporal = TemporalServer()
        address, state = self._temporal.address, self._home / "state"
        self._nursery = Nursery()
        self._control = WorkerProcess("--control", temporal=address, home=state, nursery=self._nursery)
        self._host = WorkerProcess(
            "--host", HOST, temporal=address, home=state, podman=self._podman.url, nursery=self._nursery
        )
        self._dead_registry = f"localhost:{free_port()}"
        self._image = ""

    async def run(self) -> Report:
        """Set up, rage, wait for calm, check, and clean up."""
        started = time.monotonic()
        try:
            with self._nursery:
                await asyncio.to_thread(self._start)
                client = reconciler(await self._temporal.connect("chaos"), self._temporal.address)
                await self._rage(client)
                await self._check_calm(client)
                if self.report.violations or self._journal.violations:
                    await self._keep_histories()
        finally:
            self.report.starts = len(self._journal.starts)
            self.report.looks = self._journal.looks
            self.report.violations += self._journal.violations
            self.report.seconds = round(time.monotonic() - started, 1)
            await asyncio.to_thread(self._clean_up)
        return self.report

    # ---- the storm ----

    async def _rage(self, client: Reconciler) -> None:
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_containers(over))
            tasks.create_task(self._watch_statuses(client, over))
            users = [tasks.create_task(self._apply_until(client, name, over)) for name in self._names]
            users.append(tasks.create_task(self._come_and_go_until(client, over)))
            for _ in range(self._kills):
                if self._random.random() >= HASTE_SHARE:
                    await self._see_a_start()
                await asyncio.sleep(self._random.uniform(*CALM_SECONDS))
                await self._kill_one()
            over.set()
            await asyncio.gather(*users)

    async def _see_a_start(self) -> None:
        before, patience_ends = len(self._journal.starts), time.monotonic() + PATIENCE_SECONDS
        while len(self._journal.starts) == before and time.monotonic() < patience_ends:
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill_one(self) -> None:
        parts: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "host worker": (self._host.kill, self._host.launch),
            "control worker": (self._control.kill, self._control.launch),
            "podman service": (self._podman.kill, self._podman.start),
            "temporal server": (self._temporal.kill, self._temporal.launch),
        }
        name = self._random.choice(list(parts))
        kill, start = parts[name]
        await asyncio.to_thread(kill)
        self.report.kills[name] += 1
        if self._random.random() < CONTAINER_SHARE:
            self._kill_a_container()
        await asyncio.sleep(self._random.uniform(*DOWN_SECONDS))
        await asyncio.to_thread(start)

    def _kill_a_container(self) -> None:
        if living := live_containers(self._journal.mark):
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(living).pid, signal.SIGKILL)
                self.report.containers_killed += 1

    async def _apply_until(self, client: Reconciler, name: str, over: asyncio.Event) -> None:
        """Apply one wish after the other, as an impatient user does; the last one is good."""
        chances = random.Random(f"{self.report.seed} {name}")
        while not over.is_set():
            await self._apply(client, name, is_good=chances.random() >= BAD_SHARE)
            await self._think(chances, over)
        await self._apply(client, name, is_good=True)

    async def _come_and_go_until(self, client: Reconciler, over: asyncio.Event) -> None:
        """Apply a workload and remove it, again and again, whether it has become something meanwhile or not."""
        chances = random.Random(f"{self.report.seed} {PASSING}")
        while not over.is_set():
            await self._apply(client, PASSING, is_good=True)
            await self._think(chances, over)
            await self._remove(client, PASSING)
            await self._think(chances, over)

    async def _think(self, chances: random.Random, over: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), chances.uniform(*APPLY_SECONDS) * len(self._names))

    async def _apply(self, client: Reconciler, name: str, *, is_good: bool) -> None:
        self.report.wishes[name] += 1
        wish = self._wish(name, self.report.wishes[name], is_good=is_good)
        while True:
            result = (await client.apply([wish], wait=Wait.NONE))[0]
            if result.progress is Progress.ACCEPTED:
                return
            self.report.sends_repeated += 1
            await asyncio.sleep(0.1)

    async def _remove(self, client: Reconciler, name: str) -> None:
        self.report.removals += 1
        while True:
            try:
                await client.remove(HOST, name)
            except NotFound:
                return
            except Problem:
                self.report.sends_repeated += 1
                await asyncio.sleep(0.1)
            else:
                return

    def _wish(self, name: str, number: int, *, is_good: bool) -> Manifest:
        workload = {
            "image": self._image if is_good else f"{self._dead_registry}/missing:{number}",
            "environment": {"CHAOS": self._journal.mark, "WORKLOAD": name, "WISH": str(number)},
            "mounts": [f"{self._journal.folder}:/journal"],
        }
        return manifest({name: workload}, host=HOST, name="chaos")

    async def _watch_containers(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await asyncio.to_thread(self._journal.look)
            await asyncio.sleep(LOOK_SECONDS)

    async def _watch_statuses(self, client: Reconciler, over: asyncio.Event) -> None:
        while not over.is_set():
            with suppress(Problem, TimeoutError):
                for status in await asyncio.wait_for(client.list(), timeout=5):
                    if status.name == PASSING:  # each of its lives counts from one
                        continue
                    before = self._generations[status.name]
                    if status.generation < before:
                        self._break(f"the generation went backwards: {status.name} {before} -> {status.generation}")
                    self._generations[status.name] = max(before, status.generation)
            await asyncio.sleep(LIST_SECONDS)

    # ---- the calm after it ----

    async def _check_calm(self, client: Reconciler) -> None:
        began = time.monotonic()
        try:
            await eventually_async(lambda: self._has_converged(client), within=120, what="all has converged")
        except AssertionError as late:
            self._break(str(late))
        self.report.seconds_to_converge = round(time.monotonic() - began, 1)
        await asyncio.to_thread(self._journal.look)
        containers = await asyncio.to_thread(self._podman.containers)
        if len(containers) != len(self._names):
            self._break(f"containers are left over or missing: {[(c['Names'], c['State']) for c in containers]}")

    async def _has_converged(self, client: Reconciler) -> bool:
        await asyncio.to_thread(self._journal.look)
        wanted = {name: self.report.wishes[name] for name in self._names}
        living = {one.workload: one.wish for one in live_containers(self._journal.mark)}
        assert living == wanted, f"alive is {living}, wanted is {wanted}"
        statuses = {status.name: status for status in await client.list()}
        assert statuses.keys() == wanted.keys(), f"known are {set(statuses)}"
        for name, wish in wanted.items():
            status = statuses[name]
            seen = (status.state, status.substate, status.generation, status.live and status.live.generation)
            assert seen == (State.RUNNING, Substate.OK, wish, wish), f"{name} is {seen}, wanted is generation {wish}"
        return True

    async def _keep_histories(self) -> None:
        """Write what Temporal remembers beside the logs: without it nobody could tell why a promise was broken."""
        client = await self._temporal.connect("chaos")
        for name in (*self._names, PASSING):
            history = await client.get_workflow_handle(names.workload_id(HOST, name)).fetch_history()
            (self._home / "state" / f"{name}.json").write_text(history.to_json())

    def _break(self, what: str) -> None:
        self.report.violations.append(what)

    # ---- before and after ----

    def _start(self) -> None:
        self._podman.start()
        self._image = Images(self._podman).make("chaos:1", ("sh", "-c", SCRIPT))
        self._temporal.start()
        self._control.start()
        self._host.start()

    def _clean_up(self) -> None:
        for worker in (self._host, self._control):
            worker.kill()
        self._temporal.destroy()
        self._podman.destroy()
        if self.report.passed:
            shutil.rmtree(self._home)
        else:
            self.report.logs = str(self._home / "state")
