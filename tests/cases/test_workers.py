# SPDX-License-Identifier: Apache-2.0
"""R6 and its kin: the host's worker is killed, stopped, away, or there twice. Containers outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from perdure.model.faults import FaultKind
from perdure.model.messages import Outcome
from perdure.model.observation import Live
from perdure.model.status import WorkloadStatus
from tests.cases.case import Case, Workload, took
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.support.podman_proxy import PodmanProxy
from tests.support.sabotage import half_a_blob
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually_async
from tests.support.workers import WorkerProcess


@pytest.fixture
async def worker_goes(stage: Stage) -> AsyncIterator[WorkerProcess]:
    """The host's worker, for tests that end it. It is there again afterwards."""
    yield stage.host.worker
    if not stage.host.worker.is_running:
        await asyncio.to_thread(stage.host.worker.start)


async def lives(workloads: list[Workload]) -> list[Live | None]:
    """What runs of each."""
    return [(await workload.runs()).live for workload in workloads]


@pytest.mark.parametrize("step", ["create", "start"])
async def test_r6_killed_between_a_step_and_its_answer(
    case: Case, stage: Stage, sleeper: str, worker_goes: WorkerProcess, step: str
) -> None:
    """The next worker adopts what is there; five that run keep their ids and start times; an orphan goes."""
    web, *others = case.several(6)
    await case.apply({workload: {"image": sleeper} for workload in others})
    before = await lives(others)
    await asyncio.to_thread(worker_goes.stop)
    path = stage.host.home / f"proxy-{step}.sock"
    with PodmanProxy(stage.host.podman.socket, path) as proxy:
        doomed = WorkerProcess(
            "--host", stage.host.name, temporal=stage.temporal.address, home=stage.host.home, podman=proxy.url
        )
        with doomed:
            proxy.hold("/containers/create" if step == "create" else "/start")
            await web.send(sleeper)
            await eventually_async(lambda: asyncio.to_thread(proxy.answered.is_set), within=patience(15))
            (made,) = await web.containers()
            assert made["State"] == ("created" if step == "create" else "running")
            doomed.kill()
        orphan = await an_orphan(case, others[0], sleeper)
        await asyncio.to_thread(worker_goes.start)
        status = await web.runs(within=10)
    assert status.live is not None
    assert status.live.container_id == made["Id"]
    assert [one.what for one in await case.podman.mutations(case.began_at) if one.workload == web.name] == [
        "create",
        "start",
    ]
    assert await lives(others) == before
    await eventually_async(lambda: is_gone(case, orphan), within=patience(15), what="the orphan is gone")


async def an_orphan(case: Case, like: Workload, image: str) -> str:
    """A container of our own host whose workload nobody knows."""
    (container,) = await like.containers()
    labels = {
        **container["Labels"],
        "dev.perdure.workload": f"ghost-{case.mark}",
        "dev.perdure.incarnation": uuid4().hex,
    }
    options = [f"--label={key}={value}" for key, value in labels.items()]
    return await case.podman.cli("run", "--detach", "--network=none", *options, image)


async def is_gone(case: Case, container: str) -> bool:
    return container not in {one["Id"] for one in await case.podman.containers()}


async def test_ends_while_the_worker_is_away_are_noticed_at_its_start(
    case: Case, sleeper: str, worker_goes: WorkerProcess
) -> None:
    """A crash, a success, a removal by hand: each is told and answered by its policy, as if somebody had looked."""
    always, never, success, removed, quiet = case.several(5)
    ends = {"command": ["sh", "-c", "trap 'exit 0' USR1; while :; do sleep 0.1; done"]}
    await case.apply(
        {
            always: {"image": sleeper},
            never: {"image": sleeper, "restart": "never"},
            success: {"image": sleeper, "restart": "onFailure", **ends},
            removed: {"image": sleeper, "restart": "never"},
            quiet: {"image": sleeper},
        }
    )
    before = {workload: await workload.runs() for workload in (always, never, success, removed, quiet)}
    assert await asyncio.to_thread(worker_goes.stop) == 0
    for workload, number in {always: signal.SIGKILL, never: signal.SIGKILL, success: signal.SIGUSR1}.items():
        os.kill(await case.podman.pid(before[workload]), number)
    await case.podman.cli("rm", "--force", "--time=0", container_of(before[removed]))
    await asyncio.to_thread(worker_goes.start)
    status = await always.has("was restarted", lambda status: status.restarts == 1)
    assert status.last_exit is not None
    assert (status.last_exit.code, status.last_exit.signal) == (137, "SIGKILL")
    await always.runs()
    status = await never.until("Failed/Exited")
    assert status.last_exit is not None
    assert status.last_exit.code == 137
    await success.until("Succeeded/Ok")
    status = await removed.runs()
    assert status.live != before[removed].live
    assert any("missing" in step.reason for step in status.history)
    assert (await quiet.runs()).live == before[quiet].live


def container_of(status: WorkloadStatus) -> str:
    assert status.live is not None
    return status.live.container_id


async def test_a_worker_that_is_stopped_in_a_hanging_pull_burns_no_try(case: Case, worker_goes: WorkerProcess) -> None:
    """It ends at once with code 0, the pull is cut off, nothing is told as an error, and the next worker's try is the first."""
    web = case.workload()
    image = await case.push()
    case.front.sabotage(case.repository(), half_a_blob())
    await web.send(image)
    await case.is_asking("v1")
    for _ in range(2):
        seconds, code = await took(asyncio.to_thread(worker_goes.stop))
        assert code == 0
        assert seconds < patience(5)
        await case.is_asking("v1", busy=False)
        assert (await web.status()).last_error is None
        await asyncio.to_thread(worker_goes.start)
        await case.is_asking("v1")
    case.front.refuse()
    status = await web.has("tells of its first failure", lambda status: status.last_error is not None)
    assert status.last_error is not None
    assert status.last_error.kind in (FaultKind.REGISTRY_UNREACHABLE, FaultKind.CORRUPT_IMAGE), (
        "cut off in a blob or before"
    )
    assert status.last_error.attempt == 1
    case.front.recover()
    await web.runs()


async def test_a_second_worker_of_a_host_is_refused(case: Case, stage: Stage, sleeper: str) -> None:
    """It says which process is the first one, ends with code 1, and the first one works on."""
    second = WorkerProcess(
        "--host", stage.host.name, temporal=stage.temporal.address, home=stage.host.home, podman=stage.host.podman.url
    )
    second.launch()
    await eventually_async(lambda: asyncio.to_thread(lambda: not second.is_running), within=patience(20))
    assert second.code == 1
    told = "\n".join(str(line.get("event")) for line in second.logged())
    assert f"error: host {stage.host.name} already has a worker, process {stage.host.worker.pid} (lock " in told
    assert "hint: Stop that one first" in told
    await still_serves(case, sleeper)


async def test_a_second_worker_with_another_home_is_refused_on_the_same_podman(
    case: Case, stage: Stage, sleeper: str
) -> None:
    """Even of another server: it would take the containers of the first one for orphans, and remove them."""
    web = case.workload()
    await web.apply(sleeper)
    before = await web.runs()
    with TemporalServer() as other_server:
        second = WorkerProcess(
            "--host",
            stage.host.name,
            temporal=other_server.address,
            home=stage.host.home / "elsewhere",
            podman=stage.host.podman.url,
        )
        second.launch()
        await eventually_async(lambda: asyncio.to_thread(lambda: not second.is_running), within=patience(20))
    assert second.code == 1
    told = "\n".join(str(line.get("event")) for line in second.logged())
    assert f"already has a worker on the Podman at {stage.host.podman.socket}, process {stage.host.worker.pid}" in told
    assert (await web.runs()).live == before.live


async def still_serves(case: Case, image: str) -> None:
    """The worker works."""
    assert (await case.workload().apply(image)).outcome is Outcome.RUNNING
