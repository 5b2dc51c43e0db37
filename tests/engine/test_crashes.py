# SPDX-License-Identifier: Apache-2.0
"""The Podman service dies by SIGKILL at random points of everything we do, and it always ends well.

Always means: the next calls converge, with one container or none as wanted; at no moment do two containers of the workload
live; no process is left that belongs to no container.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from activities.engine import EngineFault
from activities.podman_engine import PodmanEngine
from perdure.model.faults import FaultClass
from perdure.model.observation import ContainerState
from tests.engine.reboot import pull_the_plug
from tests.engine.workload import Workload
from tests.support.images import Images
from tests.support.podman import IsolatedPodman, process_is_alive

ROUNDS = 8
"""For each of the four ways of work: 32 kills in all."""
LATEST_SECONDS = 0.5
TRIES = 6


class Census:
    """The processes of one workload, found through /proc: what Podman believes does not count."""

    def __init__(self, workload: Workload) -> None:
        self._mark = f"PERDURE_CENSUS={workload.fleet}\0".encode()
        self._monitor = f"\0web-g\\d+-{workload.incarnation[:8]}\0".encode()

    def live_containers(self) -> set[str]:
        """The ids of the containers that have a living process."""
        return {
            found[0]
            for pid in self._pids()
            if (found := re.findall(r"libpod-([0-9a-f]{64})", _read(pid, "cgroup").decode()))
        }

    async def settles_on(self, wanted: set[str], message: str) -> None:
        """Assert that soon these containers live, and no other."""
        for _ in range(20):
            if self.live_containers() == wanted:
                return
            await asyncio.sleep(0.1)
        assert self.live_containers() == wanted, message

    def monitors(self) -> list[int]:
        """The conmon processes."""
        return [pid for pid in _all_pids() if re.search(self._monitor, _read(pid, "cmdline"))]

    async def left(self) -> list[str]:
        """What is left after a removal, once monitors that are about to end have ended."""

        def look() -> list[str]:
            pids = [*self._pids(), *self.monitors()]
            return [f"{pid}: {_read(pid, 'cmdline').decode()!r} {_read(pid, 'stat')[:60]!r}" for pid in pids]

        for _ in range(20):
            if not look():
                break
            await asyncio.sleep(0.1)
        return look()

    def _pids(self) -> list[int]:
        return [pid for pid in _all_pids() if self._mark in _read(pid, "environ") and process_is_alive(pid)]


def _all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


async def broken_off(work: Awaitable[object], podman: IsolatedPodman, after: float) -> None:
    """Begin some work, kill the service after a while, and start it again."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(after)
    podman.kill()
    with suppress(EngineFault):
        await task
    await asyncio.to_thread(podman.start)


async def converge(work: Callable[[], Awaitable[object]]) -> None:
    """Try again as the workflow does, for a few times; every failure on the way must be worth a try."""
    for _ in range(TRIES - 1):
        try:
            await work()
        except EngineFault as raised:
            if raised.fault.fault_class is not FaultClass.TRANSIENT:
                raise
            await asyncio.sleep(0.1)
        else:
            return
    await work()


@pytest.mark.parametrize("way", ["make", "replace", "start again", "remove"])
async def test_a_killed_service_leaves_nothing_that_cannot_be_healed(
    workload: Workload, podman: IsolatedPodman, way: str
) -> None:
    """Each round kills at a random point; the seed is the way's name, so that a failure can be had again."""
    chance = random.Random(way)
    census = Census(workload)
    generation = 0

    async def ensure() -> None:
        spec = workload.spec(environment={"PERDURE_CENSUS": workload.fleet, "GENERATION": str(generation)})
        await workload.ensure(spec, generation)

    async def remove() -> None:
        await workload.remove(timedelta(seconds=1))

    for _ in range(ROUNDS):
        after = chance.uniform(0, LATEST_SECONDS)
        generation += 1
        match way:
            case "make":
                await broken_off(ensure(), podman, after)
            case "replace":
                await converge(ensure)
                generation += 1
                await broken_off(ensure(), podman, after)
            case "start again":
                await converge(ensure)
                (managed,) = await workload.containers()
                podman.cli("kill", managed.container_id)
                await broken_off(ensure(), podman, after)
            case "remove":
                await converge(ensure)
                await broken_off(remove(), podman, after)
        assert len(census.live_containers()) <= 1, f"two live containers, killed after {after:.3f} s"

        if way != "remove":
            await converge(ensure)
            (managed,) = await workload.containers()
            # A program just started has its own environment only a moment later.
            await census.settles_on({managed.container_id}, f"killed after {after:.3f} s: {managed}")
            assert managed.owner.generation == generation
            assert len(census.monitors()) == 1
        if way != "replace":
            await converge(remove)
            assert await workload.containers() == []
            assert await census.left() == [], f"killed after {after:.3f} s"


async def test_a_name_that_a_killed_create_left_in_the_storage_is_freed(
    workload: Workload, podman: IsolatedPodman
) -> None:
    """C1: `podman ps` does not show it, and Podman says for ever that the name is in use."""
    podman.forget_a_container(workload.container_name(), workload.image)
    assert workload.container_name() not in podman.cli("ps", "--all")
    refused = podman.cli("create", f"--name={workload.container_name()}", workload.image, check=False)
    assert refused == ""
    await workload.ensure()
    assert len(await workload.running()) == 1


async def test_after_a_reboot_the_same_container_runs_again(tmp_path: Path) -> None:
    """R10: what is below /run is gone, Podman calls those that ran created, and all keep their ids; ends keep their codes."""
    with IsolatedPodman() as podman:
        engine = PodmanEngine(podman.url, files_dir=tmp_path / "files")
        workload = Workload(engine, Images(podman).obedient())
        try:
            ended = Workload(engine, workload.image, fleet=workload.fleet, name="job")
            await ended.ensure(ended.spec(command=("sh", "-c", "exit 3")))
            before = await workload.ensure()
            (managed,) = await workload.containers()
            pull_the_plug(podman, managed.container_id)
            await asyncio.to_thread(podman.start)
            assert [managed.state for managed in await workload.containers()] == [ContainerState.CREATED]
            after = await workload.ensure()
            assert after.container_id == before.container_id
            assert len(await workload.running()) == 1
            (job,) = await ended.containers()
            assert job.state is ContainerState.EXITED
            assert job.exit is not None
            assert job.exit.code == 3
            await asyncio.gather(workload.remove(), ended.remove())
        finally:
            await engine.close()
