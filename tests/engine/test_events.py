# SPDX-License-Identifier: Apache-2.0
"""Podman's stream of events: what it tells of our containers, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities.engine import EngineFault, Event, EventKind
from activities.podman_events import event_of
from activities.podman_facts import FLEET, HOST, WORKLOAD
from perdure.model.faults import FaultClass, FaultKind
from tests.engine import workload as workloads
from tests.engine.workload import Workload
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async


async def listening(workload: Workload, events: list[Event]) -> None:
    """Take note of what happens, until the stream ends."""
    stream = workload.engine.events(workload.fleet, workloads.HOST)
    while True:
        events.append(await anext(stream))


async def test_whatever_is_done_by_hand_is_told(workload: Workload, podman: IsolatedPodman) -> None:
    """Each of the kinds that there are."""
    events: list[Event] = []
    listener = asyncio.create_task(listening(workload, events))
    await asyncio.sleep(0)
    live = await workload.ensure()
    for command in ("pause", "unpause"):
        await asyncio.to_thread(podman.cli, command, live.container_id)
    await asyncio.to_thread(podman.cli, "restart", "--time=0", live.container_id)
    await asyncio.to_thread(podman.cli, "rm", "--force", "--time=0", live.container_id)

    async def all_told() -> bool:
        return {event.kind for event in events} == set(EventKind)

    await eventually_async(all_told, within=5)
    listener.cancel()
    await asyncio.wait([listener])


async def test_the_stream_ends_by_a_fault_when_podman_goes(workload: Workload, podman: IsolatedPodman) -> None:
    """R7: at once and not in silence, and a new stream begins where the old one broke off."""
    events: list[Event] = []
    listener = asyncio.create_task(listening(workload, events))
    await asyncio.sleep(0)
    await workload.ensure()

    async def begun() -> bool:
        return bool(events)

    await eventually_async(begun, within=5)
    podman.kill()
    with pytest.raises(EngineFault) as raised:
        await asyncio.wait_for(listener, 2)
    assert raised.value.fault.kind is FaultKind.ENGINE_UNREACHABLE
    assert raised.value.fault.fault_class is FaultClass.TRANSIENT


def entry(action: str, **labels: str) -> dict[str, Any]:
    """One line of the stream, in Podman's words."""
    return {"Type": "container", "Action": action, "Actor": {"ID": "c1", "Attributes": labels}}


OURS = {FLEET: "shop", HOST: "edge-1", WORKLOAD: "web"}


def test_only_what_is_ours_and_news_counts() -> None:
    """Podman takes several labels to mean any of them, so the others are compared here."""
    assert event_of(entry("died", **OURS), "shop", "edge-1") == Event("web", "c1", EventKind.ENDED)
    assert event_of(entry("exec", **OURS), "shop", "edge-1") is None
    for name in OURS:
        assert event_of(entry("died", **{**OURS, name: "other"}), "shop", "edge-1") is None or name == WORKLOAD
        assert event_of(entry("died", **{key: OURS[key] for key in OURS if key != name}), "shop", "edge-1") is None
    assert event_of({"Type": "container", "Action": "died"}, "shop", "edge-1") is None
