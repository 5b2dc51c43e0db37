# SPDX-License-Identifier: Apache-2.0
"""An embedded stack for all tests that leave it alone, and homes for those that do not."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.e2e.command import Perdure
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async


@contextmanager
def a_home(podman: IsolatedPodman) -> Iterator[Perdure]:
    """A new home, with a short path; whatever runs in it is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-e2e-", dir="/tmp"))
    command = Perdure(folder / "home", {"PERDURE_PODMAN": podman.url, "NO_COLOR": "1"})
    try:
        yield command
    finally:
        command("down", code=None)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_home(podman: IsolatedPodman) -> Iterator[Callable[[], Perdure]]:
    """Makes homes without a stack."""
    podman.start()
    with ExitStack() as homes:
        yield lambda: homes.enter_context(a_home(podman))


@pytest.fixture(scope="session")
def shared_stack(podman: IsolatedPodman) -> Iterator[Perdure]:
    """A stack with host edge-1, for tests that do not stop it. Its fleet is its own: others have a host of that name, too."""
    podman.start()
    with a_home(podman) as command:
        command.environment["PERDURE_FLEET"] = "shared"
        command("up", "--detach", "--temporal-port", "0", "--host", "edge-1")
        yield command


@pytest.fixture
def perdure(shared_stack: Perdure, clean_podman: IsolatedPodman) -> Iterator[Perdure]:
    """The shared stack, without workloads before and after the test."""
    yield shared_stack
    clean_podman.start()
    if left := shared_stack("get", "workloads", "--host", "edge-1", "-o", "name").out.split():
        shared_stack("delete", *left, "--timeout", "60s", code=None)
    asyncio.run(end_workloads(shared_stack))


async def end_workloads(perdure: Perdure) -> None:
    """End what cannot be deleted because its host never was."""
    client = await Client.connect(perdure.address, namespace=perdure.fleet)
    query = 'WorkflowType="Workload" AND ExecutionStatus="Running"'
    async for row in client.list_workflows(query):
        await client.get_workflow_handle(row.id).terminate()

    async def none_is_left() -> bool:
        return (await client.count_workflows(query)).count == 0

    await eventually_async(none_is_left, within=30)


@pytest.fixture(scope="session")
def image(images: Images) -> str:
    """A small image whose program sleeps, and stops when it is asked to."""
    return images.obedient()
