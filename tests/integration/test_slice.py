# SPDX-License-Identifier: Apache-2.0
"""From a manifest to a container, through real parts: Temporal and the registry in containers, the worker as a process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client

from client.api import Reconciler, Wait
from client.errors import NotFound
from client.waiting import Condition
from perdure.model.faults import FaultKind
from perdure.model.messages import Outcome
from perdure.model.states import State, Substate
from perdure.wire.converter import data_converter
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async
from tests.support.workers import WorkerProcess
from tests.support.workloads import manifest, reconciler

SOON = timedelta(seconds=30)
HOST = "slice-1"
"""Not the name that the shared stack of the command line's tests holds on the same Podman."""


@pytest.fixture
def worker(clean_podman: IsolatedPodman, temporal_in_container: str, tmp_path: Path) -> Iterator[WorkerProcess]:
    """One worker that serves both roles."""
    with WorkerProcess(
        "--control", "--host", HOST, temporal=temporal_in_container, home=tmp_path, podman=clean_podman.url
    ) as worker:
        yield worker


@pytest.fixture
async def fleet(temporal_in_container: str, worker: WorkerProcess) -> Reconciler:
    """The client of a fleet that is served."""
    client = await Client.connect(temporal_in_container, data_converter=data_converter())
    return reconciler(client, temporal_in_container)


async def test_a_workload_lives_and_goes(
    fleet: Reconciler, clean_podman: IsolatedPodman, images: Images, registry_in_container: str
) -> None:
    """Pulled from the registry, started, seen running, and gone without a trace after its removal."""
    reference = f"{registry_in_container}/team/web:1"
    local = images.obedient("slice")
    images.push(local, reference)
    images.forget(local)

    (result,) = await fleet.apply([manifest({"web": {"image": reference}}, host=HOST)], timeout=SOON)
    assert result.answer is not None
    assert result.answer.outcome is Outcome.RUNNING, result
    status = await fleet.wait(HOST, "web", Condition.RUNNING, timeout=SOON, generation=1)
    assert status is not None
    assert status.live is not None
    assert clean_podman.is_alive(status.live.container_id)

    await fleet.remove(HOST, "web")
    await fleet.wait(HOST, "web", Condition.REMOVED, timeout=SOON)
    assert clean_podman.containers() == []


async def test_a_missing_image_is_told_and_healed_by_a_push(
    fleet: Reconciler, images: Images, registry_in_container: str
) -> None:
    """Apply returns after the first attempt with the error, status tells it, and the push alone makes it run."""
    reference = f"{registry_in_container}/team/late:1"
    (result,) = await fleet.apply([manifest({"late": {"image": reference}}, host=HOST)], timeout=SOON)
    assert result.answer is not None
    assert result.answer.outcome is Outcome.RETRYING
    status = await fleet.status(HOST, "late")
    assert (status.state, status.substate) == (State.PENDING, Substate.PULL_BACKOFF)
    assert status.last_error is not None
    assert status.last_error.kind is FaultKind.IMAGE_NOT_FOUND
    assert status.attempt >= 1

    local = images.obedient("late")
    images.push(local, reference)
    running = await fleet.wait(HOST, "late", Condition.RUNNING, timeout=SOON)
    assert running is not None
    assert running.last_error is None or running.last_error.kind is FaultKind.IMAGE_NOT_FOUND
    await fleet.remove(HOST, "late")
    await fleet.wait(HOST, "late", Condition.REMOVED, timeout=SOON)


async def test_containers_go_on_while_the_worker_is_away(
    fleet: Reconciler, worker: WorkerProcess, clean_podman: IsolatedPodman, images: Images
) -> None:
    """A worker that stops or is killed restarts no container, and the next one adopts what runs."""
    await fleet.apply([manifest({"web": {"image": images.obedient()}}, host=HOST)], wait=Wait.RUNNING, timeout=SOON)
    before = await fleet.status(HOST, "web")
    assert before.live is not None
    assert worker.stop() == 0
    assert clean_podman.is_alive(before.live.container_id)
    worker.start()
    worker.restart()

    async def tells_the_same() -> bool:
        now = await fleet.status(HOST, "web")
        return now.live == before.live and now.restarts == before.restarts

    await eventually_async(tells_the_same, within=10, what="the status is as before")
    assert clean_podman.is_alive(before.live.container_id)
    await fleet.remove(HOST, "web")
    await fleet.wait(HOST, "web", Condition.REMOVED, timeout=SOON)
    with pytest.raises(NotFound):
        await fleet.status(HOST, "web")
