# SPDX-License-Identifier: Apache-2.0
"""A host's worker as its workflow sees it: it supervises, falls silent, and answers again, without an engine."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy

from perdure.model.host import HostSign, ResyncReport, WorkerInfo
from perdure.wire import names
from perdure.wire.contract import ResyncRequest, SuperviseNote, SuperviseRequest, SuperviseResult

BEAT = timedelta(milliseconds=500)


class Attendance:
    """What a worker tells its host's workflow. Several may take part, one after the other."""

    def __init__(self, client: Client, host: str) -> None:
        self._client = client
        self._host = host
        self.worker = self.worker_number(1)
        self.silent = False
        """It takes up what it is given, and does not answer: what a stopped process looks like."""
        self.resync_takes = timedelta(0)
        self.orders: list[str] = []
        """The supervisions that were taken up."""
        self.given_up: list[str] = []

    @staticmethod
    def worker_number(number: int) -> WorkerInfo:
        """One worker process."""
        return WorkerInfo(
            identity=f"host/edge-1@{number}",
            version="1.0",
            engine="Podman",
            engine_version="4.3.1",
            started_at=datetime.now(UTC),
        )

    async def start(self, number: int = 1) -> None:
        """A worker begins to serve, and tells."""
        self.worker = self.worker_number(number)
        await self._client.start_workflow(
            names.HOST_WORKFLOW,
            args=[None],
            id=names.host_id(self._host),
            task_queue=names.CONTROL_QUEUE,
            start_signal=names.WORKER_STARTED,
            start_signal_args=[self.worker],
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=timedelta(seconds=2),
        )

    @activity.defn(name=names.SUPERVISE)
    async def supervise(self, request: SuperviseRequest) -> SuperviseResult:
        """Heartbeat and give a sign, unless silent."""
        order = activity.info().activity_id
        self.orders.append(order)
        signed = False
        try:
            while order == self.orders[-1]:
                if not self.silent:
                    activity.heartbeat(SuperviseNote(detail="a test", at=datetime.now(UTC)))
                    if not signed:
                        await self.sign()
                        signed = True
                await asyncio.sleep(BEAT.total_seconds())
        except asyncio.CancelledError:
            self.given_up.append(order)
            raise
        return SuperviseResult(reason="a newer order took its place")

    async def sign(self) -> None:
        """A sign of life."""
        handle = self._client.get_workflow_handle(names.host_id(self._host))
        await handle.signal(names.SUPERVISING, HostSign(worker=self.worker))

    @activity.defn(name=names.RESYNC)
    async def resync(self, request: ResyncRequest) -> ResyncReport:
        """Find nothing."""
        await asyncio.sleep(self.resync_takes.total_seconds())
        return ResyncReport(
            at=datetime.now(UTC), reason=request.reason, took=self.resync_takes, containers=0, workloads=0
        )
