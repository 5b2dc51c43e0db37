# SPDX-License-Identifier: Apache-2.0
"""R9: a host's worker falls silent. What it runs is then unknown, is said to be so, and is known again by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from perdure.model.host import HostState, HostStatus, ResyncReason
from perdure.model.messages import Outcome
from perdure.wire import names
from tests.cases.case import Case, Workload, took
from tests.cases.patience import patience
from tests.cases.stage import Host, Stage
from tests.cases.witness import Witness
from tests.support.fault_registry import FaultRegistry
from tests.support.images import Images
from tests.support.registry import Registry
from tests.support.waiting import eventually_async

OUTAGE_SECONDS = 60
WITHIN = timedelta(seconds=30)


@pytest.fixture(scope="module")
def far_stage() -> Iterator[tuple[Stage, Host]]:
    """A fleet of two hosts of its own: here hosts are lost, and the server goes away."""
    with Stage() as stage, Host("edge-2", stage.temporal.address) as other:
        yield stage, other


@pytest.fixture
async def cases(far_stage: tuple[Stage, Host], images: Images, registry: Registry) -> AsyncIterator[tuple[Case, Case]]:
    """A case on each host, with every promise kept at the end."""
    stage, other = far_stage
    client = await stage.temporal.connect()
    front = FaultRegistry(registry)
    with ExitStack() as witnesses:
        pair = [
            Case(client, host, witnesses.enter_context(Witness(host.service)), front, images)
            for host in (stage.host, other)
        ]
        yield pair[0], pair[1]
        await asyncio.gather(*(case.end() for case in pair))
    assert [await case.broken_promises() for case in pair] == [[], []]
    front.close()


async def up(case: Case) -> Workload:
    """A workload that runs."""
    web = case.workload()
    await web.apply(case.host.images.obedient())
    await web.runs()
    return web


async def host_status(case: Case) -> HostStatus:
    """What the workflow of the case's host has told, read without any worker."""
    description = await case.client.get_workflow_handle(names.host_id(case.host.name)).describe()
    return HostStatus.model_validate(await description.memo_value(names.MEMO_STATUS, None))


async def host_is(case: Case, wanted: HostState) -> HostStatus:
    """Wait until the case's host is in a state."""

    async def look() -> HostStatus:
        status = await host_status(case)
        assert status.state is wanted, status.model_dump_json()
        return status

    return await eventually_async(look, within=patience(30), what=f"{case.host.name} is {wanted}")


async def test_r9_a_worker_that_is_stopped_or_killed(cases: tuple[Case, Case]) -> None:
    """Within thirty seconds its workloads are unknown, with the time when it was seen last; back by itself, nothing restarted."""
    stopped, killed = cases
    webs = [await up(case) for case in cases]
    before = [(await web.runs()).live for web in webs]
    assert stopped.host.worker.pid is not None
    os.kill(stopped.host.worker.pid, signal.SIGSTOP)
    killed.host.worker.kill()
    silent_since = datetime.now(UTC)
    for case, web in zip(cases, webs, strict=True):
        status = await web.until("Unknown/HostLost", within=30)
        assert status.host_seen_at is not None
        assert status.since - silent_since < timedelta(seconds=patience(WITHIN.total_seconds()))
        assert status.since - status.host_seen_at < timedelta(seconds=patience(WITHIN.total_seconds()))
        assert status.last_known == "Running/Ok"
        assert f"host lost, last seen {status.host_seen_at:%Y-%m-%d %H:%M:%S} UTC" in [
            step.reason for step in status.history
        ]
        host = await host_status(case)
        assert host.state is HostState.LOST
        assert "last seen" in host.history[-1].reason
    late = killed.workload("late")
    seconds, answer = await took(late.apply(killed.host.images.obedient()))
    assert answer.outcome is Outcome.NO_WORKER
    assert answer.message.startswith(f"no worker for host {killed.host.name}, last seen ")
    assert seconds < patience(12)

    os.kill(stopped.host.worker.pid, signal.SIGCONT)
    await asyncio.to_thread(killed.host.worker.start)
    for case, web, live in zip(cases, webs, before, strict=True):
        back = await web.runs(within=20)
        assert back.live == live
        assert back.host_lost_at is None
        assert "host is back" in [step.reason for step in back.history]
        assert (await host_is(case, HostState.READY)).history[-1].reason.endswith("answers")
        made = [one.what for one in await case.podman.mutations(case.began_at) if one.workload == web.name]
        assert made == ["create", "start"], "nothing was restarted"
    await late.runs()


async def test_r9_an_outage_of_the_server_loses_no_host(
    far_stage: tuple[Stage, Host], cases: tuple[Case, Case]
) -> None:
    """Nobody knows anything for a minute; afterwards every host is taken at its word again, and none was ever lost."""
    stage, _ = far_stage
    webs = [await up(case) for case in cases]
    before = [(await web.runs()).live for web in webs]
    ready_since = [(await host_is(case, HostState.READY)).since for case in cases]
    await asyncio.to_thread(stage.temporal.kill)
    await asyncio.sleep(OUTAGE_SECONDS)
    back_at = datetime.now(UTC)
    await asyncio.to_thread(stage.temporal.start)

    for case, web, live, since in zip(cases, webs, before, ready_since, strict=True):

        async def looked_again(case: Case = case) -> HostStatus:
            status = await host_status(case)
            assert status.last_resync is not None
            assert status.last_resync.reason is ResyncReason.RECONNECT, status.last_resync
            assert status.last_resync.at > back_at
            return status

        status = await eventually_async(looked_again, within=patience(30), what=f"{case.host.name} looked again")
        assert (status.state, status.since) == (HostState.READY, since), status.history
        now = await web.runs()
        assert now.live == live
        assert "lost" not in " ".join(step.reason for step in now.history)
