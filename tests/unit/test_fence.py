# SPDX-License-Identifier: Apache-2.0
"""What the fence of a host lets pass."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from activities.engine import EngineFault
from activities.fence import Fence
from perdure.model.faults import FaultKind, Phase
from perdure.model.workload import Retry
from perdure.wire.contract import Ticket


def ticket(generation: int, incarnation: str = "life-1", name: str = "web") -> Ticket:
    """A request for a generation."""
    return Ticket(
        host="edge-1",
        name=name,
        incarnation=incarnation,
        generation=generation,
        retry=Retry(maximum_interval=timedelta(seconds=1)),
        attempts_before=0,
    )


async def nobody(_: str) -> str | None:
    """Temporal knows of no incarnation."""
    return None


async def test_a_removal_is_let_through_though_its_workflow_forgot_generations() -> None:
    """A reset in the Web UI without its signals takes a workflow back; its workload must not become immortal by that."""
    fence = Fence(nobody)
    async with fence.admit(ticket(96), Phase.START):
        pass
    with pytest.raises(EngineFault) as refused:
        async with fence.admit(ticket(2), Phase.START):
            pass
    assert refused.value.fault.kind is FaultKind.SUPERSEDED
    assert refused.value.fault.seen_generation == 96, "the workflow that forgot it goes on after it"
    async with fence.admit(ticket(2), Phase.STOP):
        pass
    with pytest.raises(EngineFault):  # and the removal does not open the way for what is older
        async with fence.admit(ticket(95), Phase.START):
            pass
    with pytest.raises(EngineFault):
        async with fence.admit(ticket(1, "life-0"), Phase.STOP):
            pass


async def test_what_comes_during_a_resync_is_let_in_once_afterwards() -> None:
    """And what was under way before goes on, and is named, so that nobody judges it."""
    fence, order = Fence(nobody), []

    async def work(name: str, may_end: asyncio.Event) -> None:
        async with fence.admit(ticket(1, name=name), Phase.START):
            order.append(f"{name} begins")
            await may_end.wait()
            order.append(f"{name} ends")

    slow, quick = asyncio.Event(), asyncio.Event()
    quick.set()
    before = asyncio.create_task(work("before", slow))
    behind = asyncio.create_task(work("before", quick))
    await asyncio.sleep(0)
    async with fence.resyncing() as busy:
        assert busy == {"before"}
        during = asyncio.create_task(work("during", quick))
        await asyncio.sleep(0.01)
        slow.set()
        await before
        await behind
        order.append("the look is over")
    await during
    assert order == [
        "before begins",
        "before ends",
        "before begins",
        "before ends",
        "the look is over",
        "during begins",
        "during ends",
    ]
    assert not fence.is_busy("before")
    async with fence.resyncing() as busy:
        assert busy == set()


async def test_the_gate_opens_though_the_look_fails() -> None:
    """A Podman that does not answer must not keep everything waiting."""
    fence = Fence(nobody)
    with pytest.raises(RuntimeError):
        async with fence.resyncing():
            raise RuntimeError("podman does not answer")
    async with asyncio.timeout(1), fence.admit(ticket(1), Phase.START):
        assert fence.is_busy("web")


async def test_who_is_refused_or_cancelled_is_not_under_way() -> None:
    """Else it would be left out of every later look."""
    fence = Fence(nobody)
    async with fence.admit(ticket(2), Phase.START):
        waiting = asyncio.create_task(_refused(fence))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
    with pytest.raises(EngineFault):
        await _refused(fence)
    assert not fence.is_busy("web")


async def _refused(fence: Fence) -> None:
    async with fence.admit(ticket(1), Phase.START):
        raise AssertionError("it was let in")
