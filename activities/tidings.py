# SPDX-License-Identifier: Apache-2.0
"""Brings the workloads of a host the news that it was lost, or is back. Runs on a control worker: the host itself may be dead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from perdure.model.host import HostChange
from perdure.wire import names
from perdure.wire.contract import TellRequest, TellResult

logger = logging.getLogger(__name__)

AT_ONCE = 16
"""Signals under way; each takes a server some milliseconds."""
TELL_TIMEOUT = timedelta(seconds=5)


class Tidings:
    """Tells workloads by signals. One that cannot be told keeps no other from being told, and is tried again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=names.TELL_WORKLOADS)
    async def tell_workloads(self, request: TellRequest) -> TellResult:
        """Signal every open workload of the host. Those that an earlier try has told are left out, as far as that is known.

        Raises:
            ApplicationError: some could not be told.
            RPCError: the server does not answer.
        """
        told: set[str] = set(*activity.info().heartbeat_details[:1])
        ids = [workload for workload in await self._open_workloads(request.host) if workload not in told]
        failed = 0
        for some in _batches(ids):
            answers = await asyncio.gather(*(self._tell(workload, request.change) for workload in some))
            told.update(workload for workload, is_told in zip(some, answers, strict=True) if is_told)
            failed += answers.count(False)
            activity.heartbeat(sorted(told))
        if failed:
            raise ApplicationError(
                f"{failed} of {len(ids)} workloads of host {request.host} could not be told yet",
                category=ApplicationErrorCategory.BENIGN,
            )
        return TellResult(told=len(told))

    async def _open_workloads(self, host: str) -> list[str]:
        query = (
            f'WorkflowType="{names.WORKLOAD_WORKFLOW}" AND ExecutionStatus="Running" AND {names.SA_HOST.name}="{host}"'
        )
        return [row.id async for row in self._client.list_workflows(query, page_size=500)]

    async def _tell(self, workload: str, change: HostChange) -> bool:
        """Answers whether it knows now, or is not there to know."""
        handle = self._client.get_workflow_handle(workload)
        try:
            await handle.signal(names.HOST_CHANGED, change, rpc_timeout=TELL_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return True
            logger.warning("a workload could not be told of its host", extra={"id": workload, "cause": str(error)})
            return False
        return True


def _batches(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
