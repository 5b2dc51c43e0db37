# SPDX-License-Identifier: Apache-2.0
"""A host with two hundred containers, on a real Podman and a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.podman_api import PodmanApi
from activities.podman_connection import PodmanConnection
from activities.podman_engine import PodmanEngine
from activities.podman_spec import create_spec
from perdure.model.faults import Phase
from perdure.model.host import ResyncReason
from perdure.model.states import State, Substate
from perdure.model.workload import ContainerSpec
from tests.cases.patience import patience
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.workflow.host_stage import HostStage, owner_of

COUNT = 200
AT_ONCE = 8


@pytest.fixture
async def engine(clean_podman: IsolatedPodman, tmp_path: Path) -> AsyncIterator[PodmanEngine]:
    """The real one."""
    engine = PodmanEngine(clean_podman.url, files_dir=tmp_path)
    yield engine
    await engine.close()


@pytest.fixture
async def stage(dev_client: Client, engine: PodmanEngine) -> AsyncIterator[HostStage]:
    """A host of its own."""
    stage = HostStage(dev_client, engine)
    yield stage
    await stage.end()


async def test_a_full_resync_of_two_hundred_takes_less_than_a_second(
    stage: HostStage, clean_podman: IsolatedPodman, images: Images
) -> None:
    """With one question to each side. They have never run, which is quicker to set up; as many that run are listed in 0.12 s."""
    connection = PodmanConnection(clean_podman.url, timedelta(seconds=60))
    api, slots = PodmanApi(connection, start_slots=4), asyncio.Semaphore(AT_ONCE)
    spec = ContainerSpec(image=images.obedient(), networks=("none",))

    async def make(name: str) -> None:
        async with slots:
            await api.create(create_spec(f"{stage.host}-{name}", spec, owner_of(stage, name)), Phase.START)
            await stage.workload(name, State.SUCCEEDED, Substate.OK, up=False)

    await asyncio.gather(*(make(f"web-{number}") for number in range(COUNT)))
    await connection.close()
    await stage.that_all_are_listed()
    stage.counting.calls.clear()
    report = await stage.supervision().resync(ResyncReason.ASKED)
    assert (report.containers, report.workloads, report.differences) == (COUNT, COUNT, ())
    assert report.took < timedelta(seconds=patience(1))
    assert stage.counting.calls == {"list": 1}
