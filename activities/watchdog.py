# SPDX-License-Identifier: Apache-2.0
"""Finds workloads and hosts whose workflow cannot go on, and gives them a new run.

A workflow whose history no code can replay is running as far as Temporal knows, and does nothing for ever. A query that is
answered between a worker's death and the next workflow task can cause that; so can a faulty upgrade. The remedy is a reset to
the run's first workflow task: the record that was carried into the run and every signal since are kept, so the new run ends
where the old one would have. The containers go on meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, ResetReapplyType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.background import beside, outliving_own_faults
from perdure.wire import names

logger = logging.getLogger(__name__)

LOOK_EVERY = timedelta(minutes=1)
"""One list query; what it finds has failed several times in a row already."""
FAILURES = 5
"""Workflow tasks that failed in a row. A worker that is being replaced fails one or two."""


class Watchdog:
    """Looks after all workloads and hosts of a fleet."""

    def __init__(self, client: Client, *, look_every: timedelta = LOOK_EVERY, failures: int = FAILURES) -> None:
        self._client = client
        self._look_every = look_every
        self._failures = failures

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look in the background."""
        async with beside(self._run()):
            yield

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_every.total_seconds())
            with outliving_own_faults("stuck workflows are looked for again"):
                try:
                    await self.look()
                except RPCError as error:
                    logger.warning("stuck workflows could not be looked for", extra={"cause": str(error)})

    async def look(self) -> int:
        """Give every stuck workload and host a new run. Returns how many there were."""
        query = (
            f'WorkflowType IN ("{names.WORKLOAD_WORKFLOW}", "{names.HOST_WORKFLOW}") AND ExecutionStatus="Running"'
            " AND TemporalReportedProblems IS NOT NULL"
        )
        return sum([await self._help(row.id, row.run_id) async for row in self._client.list_workflows(query)])

    async def _help(self, workflow_id: str, run_id: str) -> bool:
        """One that cannot be helped does not keep the others from being helped."""
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            description = await handle.describe()
            if description.raw_description.pending_workflow_task.attempt < self._failures:
                return False
            logger.error("a workflow cannot go on and gets a new run", extra={"workflow": workflow_id, "run": run_id})
            async for event in handle.fetch_history_events():
                if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                    await self._reset(workflow_id, run_id, event.event_id)
                    return True
        except RPCError as error:
            logger.warning("a stuck workflow could not be helped", extra={"workflow": workflow_id, "cause": str(error)})
        return False

    async def _reset(self, workflow_id: str, run_id: str, first_task: int) -> None:
        request = ResetWorkflowExecutionRequest(
            namespace=self._client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            reason="perdure: its history cannot be replayed",
            workflow_task_finish_event_id=first_task,
            request_id=str(uuid.uuid4()),
            reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_ALL_ELIGIBLE,
            identity=self._client.identity,
        )
        await self._client.workflow_service.reset_workflow_execution(request, timeout=timedelta(seconds=10))
