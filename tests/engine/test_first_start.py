# SPDX-License-Identifier: Apache-2.0
"""The first start of a workload looks for no container of it, and is right where there is one all the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from activities.podman_api import PodmanApi
from activities.podman_engine import PodmanEngine
from activities.podman_firsts import Firsts
from perdure.model.faults import Phase
from tests.engine.workload import HOST, Workload


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, str]]:
    """The labels of every list that Podman is asked for."""
    asked: list[Mapping[str, str]] = []
    look = PodmanApi.containers

    async def containers(api: PodmanApi, labels: Mapping[str, str], phase: Phase) -> object:
        asked.append(labels)
        return await look(api, labels, phase)

    monkeypatch.setattr(PodmanApi, "containers", containers)
    return asked


async def test_after_a_list_of_the_host_a_first_start_needs_none(
    workload: Workload, engine: PodmanEngine, lists: list[Mapping[str, str]]
) -> None:
    """Each costs Podman more, the more containers there are."""
    await engine.list_managed(workload.fleet, HOST)
    lists.clear()
    first = await workload.ensure()
    assert lists == []
    assert await workload.ensure() == first, "a second one looks, and finds it"
    assert len(lists) == 1


async def test_a_worker_that_has_not_listed_its_host_looks(workload: Workload, lists: list[Mapping[str, str]]) -> None:
    await workload.ensure()
    assert len(lists) == 1


async def test_what_a_predecessor_made_after_the_list_is_adopted(
    workload: Workload, engine: PodmanEngine, new_engine: Callable[..., PodmanEngine]
) -> None:
    """Podman goes on with what a worker asked for that was killed."""
    await engine.list_managed(workload.fleet, HOST)
    predecessor = new_engine()
    try:
        made = await replace(workload, engine=predecessor).ensure()
    finally:
        await predecessor.close()
    assert (await workload.ensure()).container_id == made.container_id
    assert len(await workload.containers()) == 1


async def test_what_was_there_at_the_list_is_no_first_start(workload: Workload, engine: PodmanEngine) -> None:
    await workload.ensure()
    firsts = Firsts()
    assert not firsts.is_first(workload.owner(workload.spec())), "nothing was listed"
    firsts.learn(workload.fleet, HOST, await engine.list_managed(workload.fleet, HOST))
    assert not firsts.is_first(workload.owner(workload.spec()))


async def test_only_the_first_generation_is_a_first_start(workload: Workload) -> None:
    """An older one may still be on its way."""
    firsts = Firsts()
    firsts.learn(workload.fleet, HOST, [])
    assert not firsts.is_first(workload.owner(workload.spec(), 2))
    assert not firsts.is_first(workload.owner(workload.spec())), "it was met"
