# SPDX-License-Identifier: Apache-2.0
"""What the fence of a host lets pass."""

from __future__ import annotations

from datetime import timedelta

import pytest

from activities.engine import EngineFault
from activities.fence import Fence
from perdure.model.faults import FaultKind, Phase
from perdure.model.workload import Retry
from perdure.wire.contract import Ticket


def ticket(generation: int, incarnation: str = "life-1") -> Ticket:
    """A request for a generation."""
    return Ticket(
        host="edge-1",
        name="web",
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
