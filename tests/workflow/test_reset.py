# SPDX-License-Identifier: Apache-2.0
"""A workflow that somebody has reset in the Temporal Web UI, without the applies that came since."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, ResetReapplyExcludeType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

from perdure.model.messages import Outcome
from tests.fakes.engine import FakeEngine
from tests.workflow.fleet import Fleet, spec


async def reset_to_the_first_task(fleet: Fleet, name: str) -> None:
    """Go back to where only the first apply was known, as the Web UI does where signals are left out."""
    handle = fleet.handle(name)
    first = [event async for event in handle.fetch_history_events()]
    task = next(event for event in first if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    request = ResetWorkflowExecutionRequest(
        namespace=fleet.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=handle.id),
        reason="a test",
        workflow_task_finish_event_id=task.event_id,
        request_id="a-reset",
        reset_reapply_exclude_types=[ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL],
    )
    await fleet.client.workflow_service.reset_workflow_execution(request, timeout=timedelta(seconds=10))


async def test_a_workload_goes_on_after_a_reset_that_forgot_its_applies(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Its host has seen three generations, the workflow remembers one: an apply takes effect, and is never refused as old."""
    engine.images |= {f"reg/app:{number}" for number in range(1, 5)}
    for number in range(1, 4):
        assert (await real_fleet.apply("web", spec(f"reg/app:{number}"))).outcome is Outcome.RUNNING
    await reset_to_the_first_task(real_fleet, "web")
    outcome = await asyncio.wait_for(real_fleet.apply("web", spec("reg/app:4")), 20)
    assert outcome.outcome is Outcome.RUNNING
    assert outcome.generation > 3
    (running,) = engine.running("web")
    assert running.owner.generation == outcome.generation
    status = await real_fleet.until("web", "Running/Ok")
    assert any("was reset in Temporal" in change.reason for change in status.history)
