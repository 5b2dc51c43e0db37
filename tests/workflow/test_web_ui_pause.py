# SPDX-License-Identifier: Apache-2.0
"""Somebody presses *Pause* of a pending activity in the Temporal Web UI, in the middle of a try."""

from __future__ import annotations

from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest

from client.waiting import look
from perdure.model.faults import FaultKind
from perdure.model.status import WorkloadStatus
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.fleet import HOST, Fleet, spec


async def test_the_error_before_is_shown_and_not_one_of_the_button(real_fleet: Fleet, engine: FakeEngine) -> None:
    """The try that it ended tells nothing of the workload; that it is paused there is said."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await real_fleet.send("web", spec())
    await real_fleet.until("web", "Pending/PullBackoff")
    engine.pull_faults.clear()
    engine.hanging_pulls.add("reg/app:1")
    pulls = len(engine.pulls)
    await real_fleet.retry("web")
    await real_fleet.that(lambda: len(engine.pulls) > pulls, "it is being pulled")
    (pending,) = (await real_fleet.handle("web").describe()).raw_description.pending_activities
    request = PauseActivityRequest(
        namespace=real_fleet.client.namespace,
        execution=WorkflowExecution(workflow_id=names.workload_id(HOST, "web")),
        identity="somebody",
        id=pending.activity_id,
    )
    await real_fleet.client.workflow_service.pause_activity(request, timeout=timedelta(seconds=10))
    await real_fleet.that(lambda: bool(engine.cancelled), "the pull was ended")

    async def paused() -> WorkloadStatus | None:
        description = await real_fleet.handle("web").describe()
        (pending,) = description.raw_description.pending_activities
        status = (await look(real_fleet.client, HOST, "web")).status
        return status if pending.last_failure.application_failure_info.type == "ActivityPause" else None

    status = await eventually_async(paused, within=20)
    assert status is not None
    assert status.warning.startswith("Its tries were paused in the Temporal Web UI at ")
    assert status.last_error is not None
    assert status.last_error.kind is FaultKind.REGISTRY_UNREACHABLE
