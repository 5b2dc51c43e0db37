# SPDX-License-Identifier: Apache-2.0
"""R8, N4 and their kin: a host drops what it believes, and looks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from perdure.model.host import HostState, HostStatus, ResyncReason
from perdure.wire import names
from tests.cases.case import Case
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.support.podman_proxy import PodmanProxy
from tests.support.waiting import eventually_async
from tests.support.workers import WorkerProcess


@pytest.fixture
async def proxy(stage: Stage) -> AsyncIterator[PodmanProxy]:
    """Between the host's worker and Podman, until the end of the test."""
    host = stage.host
    await asyncio.to_thread(host.worker.stop)
    with PodmanProxy(host.podman.socket, host.home / "resync.sock") as proxy:
        behind = WorkerProcess("--host", host.name, temporal=stage.temporal.address, home=host.home, podman=proxy.url)
        await asyncio.to_thread(behind.start)
        yield proxy
        await asyncio.to_thread(behind.stop)
    await asyncio.to_thread(host.worker.start)


async def test_r8_an_apply_during_a_full_resync_is_applied_once_after_it(
    case: Case, sleeper: str, proxy: PodmanProxy
) -> None:
    """It waits at the gate, and the resync neither sees it half done nor tells of it as drift."""
    web, other, new = case.several(3)
    await case.apply({web: {"image": sleeper}, other: {"image": sleeper}})
    before = [await web.runs(), await other.runs()]
    assert before[1].live is not None
    proxy.hold("/containers/json")
    resync = asyncio.create_task(case.fleet.resync(case.host.name))
    await eventually_async(lambda: asyncio.to_thread(proxy.answered.is_set), within=patience(10))
    await case.podman.cli("rm", "--force", "--time=0", before[1].live.container_id)
    for workload in (web, new):
        await workload.send(sleeper, environment={"V": "2"})
    for workload in (web, new):
        await workload.has("is under way", lambda status: status.state == "Pending" and status.substate != "Initial")
    begun = await case.podman.mutations(case.began_at)
    proxy.let_go()
    report = await resync
    assert report.reason is ResyncReason.ASKED
    assert {one.workload for one in report.differences} <= {other.name}
    for workload, generation in {web: 2, new: 1}.items():
        await workload.runs(generation=generation)
    await other.has("is another one", lambda status: status.live not in (None, before[1].live))
    await other.runs()
    done = [(one.workload, one.what) for one in (await case.podman.mutations(case.began_at))[len(begun) :]]
    assert sorted(done) == sorted(
        (workload.name, what) for workload in (web, other, new) for what in ("create", "start")
    )
    assert (await case.fleet.resync(case.host.name)).differences == ()


async def test_n4_what_changed_while_the_worker_was_down_is_noticed_at_its_start(
    case: Case, stage: Stage, sleeper: str
) -> None:
    """Also where nothing but the content of a file differs."""
    web, quiet = case.several(2)
    files = [{"path": "/etc/app.conf", "content": "colour: red"}]
    await case.apply({web: {"image": sleeper, "files": files}, quiet: {"image": sleeper, "files": files}})
    before, untouched = await web.runs(), await quiet.runs()
    await asyncio.to_thread(stage.host.worker.stop)
    try:
        files = [{"path": "/etc/app.conf", "content": "colour: green"}]
        await web.send(sleeper, files=files)
        assert (await web.status()).live == before.live
    finally:
        await asyncio.to_thread(stage.host.worker.start)
    after = await web.runs(within=10, generation=2)
    assert after.live is not None
    assert after.live != before.live
    assert await case.podman.cli("exec", after.live.container_id, "cat", "/etc/app.conf") == "colour: green"
    assert (await quiet.runs()).live == untouched.live


async def test_a_new_worker_takes_the_place_of_a_killed_one_at_once(case: Case, stage: Stage, sleeper: str) -> None:
    """Its host is never lost: the supervision of the dead one is not waited for."""
    web = case.workload()
    await web.apply(sleeper)
    before = await web.runs()
    dead = stage.host.worker.pid
    await case.restart_worker()

    async def is_ready() -> HostStatus:
        handle = case.client.get_workflow_handle(names.host_id(case.host.name))
        status = HostStatus.model_validate(await (await handle.describe()).memo_value(names.MEMO_STATUS, None))
        assert status.state is HostState.READY
        assert status.worker is not None
        assert status.worker.identity == f"host/{case.host.name}@{stage.host.worker.pid}"
        assert status.worker.engine == "Podman"
        assert status.worker.engine_version
        assert status.last_resync is not None
        assert status.last_resync.at > status.worker.started_at
        return status

    status = await eventually_async(is_ready, within=patience(5), what="the new worker has looked around")
    assert status.last_resync is not None
    assert status.last_resync.reason is ResyncReason.START
    of_the_dead = [step for step in status.history if f"@{dead}" not in step.reason]
    assert HostState.LOST not in {step.state for step in of_the_dead[-3:]}
    assert (await web.runs()).live == before.live
