# SPDX-License-Identifier: Apache-2.0
"""Temporal is away: what ended is restarted by its host alone, and told when Temporal is back. R10: the host is restarted.

Each start of a container writes a line on its host, so that none can go unnoticed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from perdure.model.status import WorkloadStatus
from tests.cases.case import Case, Workload
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.cases.witness import Witness
from tests.engine.reboot import pull_the_plug
from tests.support.fault_registry import FaultRegistry
from tests.support.images import Images
from tests.support.registry import Registry
from tests.support.waiting import eventually_async

PROGRAM: Final = "echo start >>/starts/$ME; trap 'exit 0' USR1 TERM; while :; do sleep 0.1; done"
RESTARTED: Final = 20.0
"""Seconds: the time to notice that Temporal is away is in here."""


@pytest.fixture(scope="module")
def far_stage() -> Iterator[Stage]:
    """A fleet of its own: its server goes away."""
    with Stage() as stage:
        yield stage


@pytest.fixture
async def case(far_stage: Stage, images: Images, registry: Registry) -> AsyncIterator[Case]:
    """A case on it, with every promise kept at the end."""
    client = await far_stage.temporal.connect()
    front = FaultRegistry(registry)
    with Witness(far_stage.host.service) as witness:
        case = Case(client, far_stage.host, witness, front, images)
        yield case
        await asyncio.to_thread(far_stage.temporal.start)
        if not far_stage.host.worker.is_running:
            await asyncio.to_thread(far_stage.host.worker.start)
        await case.end()
    assert await case.broken_promises() == []
    front.close()


class Starts:
    """How often the container of each workload has begun to run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entry(self, workload: Workload, **more: Any) -> dict[str, Any]:
        """What a manifest says of a workload that is counted."""
        return {
            "image": workload.case.host.images.obedient(),
            "command": ["sh", "-c", PROGRAM],
            "environment": {"ME": workload.name},
            "mounts": [f"{self._folder}:/starts"],
            **more,
        }

    def of(self, workload: Workload) -> int:
        """So often."""
        file = self._folder / workload.name
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def are(self, workload: Workload, count: int) -> None:
        """Wait until it has begun so often, and see that it runs."""

        async def look() -> bool:
            (container,) = await workload.containers()
            assert self.of(workload) == count, f"{self.of(workload)} starts"
            assert container["State"] == "running"
            return True

        what = f"{workload.name} has begun {count} times"
        await eventually_async(look, within=patience(RESTARTED), what=what)


async def send(workload: Workload, number: signal.Signals) -> None:
    """Send a signal to the program in the only container of a workload."""
    (container,) = await workload.containers()
    os.kill(int((await workload.case.podman.inspect(container["Id"]))["State"]["Pid"]), number)


async def test_what_ends_while_temporal_is_away_is_restarted_by_its_host(
    case: Case, far_stage: Stage, tmp_path: Path
) -> None:
    """By policy and backoff, and told afterwards; what rests goes on resting."""
    starts = Starts(tmp_path)
    web, job, once, resting = (case.workload(name) for name in ("web", "job", "once", "resting"))
    await case.apply(
        {
            web: starts.entry(web),
            job: starts.entry(job, restart="onFailure"),
            once: starts.entry(once, restart="never"),
            resting: starts.entry(resting),
        }
    )
    before = {workload: await workload.runs() for workload in case.workloads}
    await case.fleet.pause(case.host.name, resting.name)
    await resting.until("Paused/Ok")
    await asyncio.to_thread(case.host.worker.restart)
    await eventually_async(
        lambda: knows_what_rests(case, resting), within=patience(15), what="the host knows who rests"
    )

    await asyncio.to_thread(far_stage.temporal.kill)
    for workload in (web, once, resting):
        await send(workload, signal.SIGKILL)
    await send(job, signal.SIGUSR1)
    await starts.are(web, 2)
    await send(web, signal.SIGKILL)
    await starts.are(web, 3)
    assert [starts.of(workload) for workload in (job, once, resting)] == [1, 1, 1]

    await asyncio.to_thread(far_stage.temporal.start)
    told = await web.has("tells of its restarts", lambda status: status.restarts == 2 and status.state == "Running")
    assert told.last_exit is not None
    assert (told.last_exit.code, told.last_exit.signal) == (137, "SIGKILL")
    assert any(step.reason == "its host restarted it 2 times while Temporal was away" for step in told.history)
    assert (await once.until("Failed/Exited")).restarts == 0
    await job.until("Succeeded/Ok")
    await resting.until("Paused/Ok")
    assert container_of(told) == container_of(before[web])
    await send(web, signal.SIGKILL)
    await web.has("is restarted as ever", lambda status: status.restarts == 3 and status.state == "Running")
    assert [starts.of(workload) for workload in (web, job, once, resting)] == [4, 1, 1, 1]


async def test_r10_a_worker_that_never_reaches_temporal_keeps_its_containers_up(
    case: Case, far_stage: Stage, tmp_path: Path
) -> None:
    """After a kill of its predecessor, and after a reboot; nothing is removed, and nothing is started twice."""
    starts, worker = Starts(tmp_path), case.host.worker
    web, steady, ended = (case.workload(name) for name in ("web", "steady", "ended"))
    never = {"restart": "never"}
    await case.apply(
        {web: starts.entry(web), steady: starts.entry(steady, **never), ended: starts.entry(ended, **never)}
    )
    before = {workload: await workload.runs() for workload in case.workloads}
    await send(ended, signal.SIGUSR1)
    await ended.until("Succeeded/Ok")

    await asyncio.to_thread(worker.kill)
    await asyncio.to_thread(far_stage.temporal.kill)
    await send(web, signal.SIGKILL)
    await asyncio.to_thread(worker.launch)
    await starts.are(web, 2)

    await asyncio.to_thread(worker.kill)
    await asyncio.to_thread(pull_the_plug, case.host.podman, *(container_of(before[one]) for one in (web, steady)))
    await asyncio.to_thread(case.host.podman.start)
    await asyncio.to_thread(worker.launch)
    await starts.are(web, 3)
    await starts.are(steady, 2)
    assert {one["Id"] for one in await case.podman.containers()} == {container_of(status) for status in before.values()}

    await asyncio.to_thread(far_stage.temporal.start)
    for workload, restarts in {web: 2, steady: 1}.items():
        told = await workload.has("tells of its restarts", partial(has_restarted, restarts))
        assert container_of(told) == container_of(before[workload])
    await ended.until("Succeeded/Ok")
    assert [starts.of(workload) for workload in (web, steady, ended)] == [3, 2, 1]


def has_restarted(times: int, status: WorkloadStatus) -> bool:
    return status.restarts == times and status.state == "Running"


def container_of(status: WorkloadStatus) -> str:
    assert status.live is not None
    return status.live.container_id


async def knows_what_rests(case: Case, resting: Workload) -> bool:
    """Whether the host has heard of a pause."""
    ledger = case.host.home / f"autonomy-default-{case.host.name}.json"
    return await asyncio.to_thread(lambda: resting.name in ledger.read_text())
