# SPDX-License-Identifier: Apache-2.0
"""The plain course of a workload's life."""

from __future__ import annotations

from perdure.model.faults import FaultKind
from perdure.model.messages import Outcome
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.workflow.fleet import Fleet, spec


async def test_an_applied_workload_runs(fleet: Fleet, engine: FakeEngine) -> None:
    """Start first, pull only since the image is missing, then start again."""
    outcome = await fleet.apply("web", spec("reg/app:1"))
    assert outcome.outcome is Outcome.RUNNING
    assert engine.pulls == ["reg/app:1"]
    status = await fleet.until("web", "Running/Ok")
    assert status.generation == 1
    assert status.live is not None
    assert [f"{step.substate}" for step in status.history] == ["Starting", "Pulling", "Starting", "Ok"]


async def test_a_removed_workload_leaves_nothing(fleet: Fleet, engine: FakeEngine) -> None:
    """Removal stops the container and ends the workflow."""
    await fleet.apply("web", spec())
    await fleet.signal("web", names.REMOVE)
    assert await fleet.handle("web").result() == "removed at generation 1"
    assert not engine.containers


async def test_apply_returns_after_the_first_failed_attempt(fleet: Fleet, engine: FakeEngine) -> None:
    """The retries go on without it."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    outcome = await fleet.apply("web", spec())
    assert outcome.outcome is Outcome.RETRYING
    assert outcome.error is not None
    assert outcome.error.kind is FaultKind.REGISTRY_UNREACHABLE
    status = await fleet.until("web", "Pending/PullBackoff")
    assert status.next_attempt_at is not None
    engine.pull_faults.clear()
    await fleet.until("web", "Running/Ok")
