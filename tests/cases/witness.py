# SPDX-License-Identifier: Apache-2.0
"""Watches from outside while a case runs, and keeps what contradicts a promise. It trusts nothing that Perdure says of itself.

It has a thread and an event loop of its own, so that a test that waits or blocks does not stop it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import httpx
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from client.statuses import from_description
from perdure.model.faults import FaultKind
from perdure.model.states import Substate
from perdure.model.status import WorkloadStatus
from perdure.model.workload import WorkloadSpec
from perdure.wire import names
from perdure.wire.converter import data_converter
from tests.cases import promises, secret
from tests.cases.patience import patience
from tests.cases.promises import Alive, Wait
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.temporal import quiet_runtime

CONTAINERS_SECONDS: Final = 0.1
PROCESSES_SECONDS: Final = 0.4
STATUSES_SECONDS: Final = 0.5
MOST_STATUSES: Final = 12
"""Asked for one by one: the server must not be busy with the test alone."""
LIE_SECONDS: Final = 15
"""A death that nobody sees happen is found by a list that is made every ten seconds."""
WORKLOAD_LABEL: Final = "dev.perdure.workload"
NO_BACKOFF: Final = (FaultKind.WORKER_SHUTDOWN.value, FaultKind.WORKER_LOST.value)
"""Tries that the workload did not fail: they are made again at once."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the witness looks at."""

    podman: IsolatedPodman
    temporal: str
    host: str
    is_served: Callable[[], bool]
    """Whether the host has a worker now: a status cannot follow without one."""


class Witness:
    """One case's witness; a context manager."""

    def __init__(self, service: Service) -> None:
        self.violations: list[str] = []
        self.looks = 0
        self._service = service
        self._specs: dict[str, WorkloadSpec] = {}
        self._alive: list[Alive] = []
        self._false_since: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), name="witness")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def attend(self, workload: str, spec: WorkloadSpec) -> None:
        """Look at the status of a workload from now on."""
        self._specs[workload] = spec

    def dismiss(self, workload: str) -> None:
        """It is gone."""
        self._specs.pop(workload, None)

    # ---- its loop ----

    async def _watch(self) -> None:
        transport = httpx.AsyncHTTPTransport(uds=str(self._service.podman.socket))
        async with httpx.AsyncClient(transport=transport, timeout=5) as podman:
            client = await Client.connect(
                self._service.temporal, data_converter=data_converter(), identity="witness", runtime=quiet_runtime()
            )
            await asyncio.gather(
                self._again_and_again(lambda: self._look_at_containers(podman), CONTAINERS_SECONDS),
                self._again_and_again(self._look_at_processes, PROCESSES_SECONDS),
                self._again_and_again(lambda: self._look_at_statuses(client), STATUSES_SECONDS),
            )

    async def _again_and_again(self, look: Callable[[], Awaitable[None]], every: float) -> None:
        while not self._over.is_set():
            # Parts are killed in some cases: what does not answer now is looked at again.
            with suppress(httpx.HTTPError, RPCError):
                await look()
            await asyncio.sleep(every)

    async def _look_at_containers(self, podman: httpx.AsyncClient) -> None:
        filters = json.dumps({"label": [WORKLOAD_LABEL]})
        answer = await podman.get("http://podman/v4.0.0/libpod/containers/json", params={"filters": filters})
        listed: list[dict[str, Any]] = answer.raise_for_status().json()
        self._alive = [
            Alive(container["Labels"][WORKLOAD_LABEL], container["Id"])
            for container in listed
            if process_is_alive(int(container["Pid"]))
        ]
        self.looks += 1
        self._note(promises.more_than_one_alive(self._alive))

    async def _look_at_processes(self) -> None:
        for pid, argv in arguments_of_all():
            self._note([f"process {pid} shows the password ({form})" for form in secret.found_in(argv)])

    async def _look_at_statuses(self, client: Client) -> None:
        for workload, spec in list(self._specs.items())[-MOST_STATUSES:]:
            handle = client.get_workflow_handle(names.workload_id(self._service.host, workload))
            description = await handle.describe(rpc_timeout=timedelta(seconds=5))
            if description.status is WorkflowExecutionStatus.RUNNING:
                self._judge(await from_description(description), description, spec)

    def _judge(self, status: WorkloadStatus, description: WorkflowExecutionDescription, spec: WorkloadSpec) -> None:
        self._note(promises.incomplete(status))
        pending = description.raw_description.pending_activities
        waits = [wait for activity in pending if (wait := _backoff(status.name, activity, spec)) is not None]
        if status.substate is Substate.RESTART_BACKOFF and status.next_attempt_at is not None and not pending:
            backoff = spec.restart_backoff
            lasts = status.next_attempt_at - status.since
            waits.append(Wait(status.name, lasts, backoff.initial, backoff.maximum, "the status"))
        self._note(promises.out_of_bounds(waits))
        self._note(self._lies(status))

    def _lies(self, status: WorkloadStatus) -> list[str]:
        """A status may be false for as long as nobody can know."""
        if not self._service.is_served() or not promises.claims_a_dead_container(status, self._alive):
            self._false_since.pop(status.name, None)
            return []
        since = self._false_since.setdefault(status.name, time.monotonic())
        if time.monotonic() - since < patience(LIE_SECONDS):
            return []
        return [f"shown as running for {LIE_SECONDS} s while its container is dead: {status.model_dump_json()}"]

    def _note(self, found: list[str]) -> None:
        self.violations += [violation for violation in found if violation not in self.violations]


def _backoff(workload: str, activity: PendingActivityInfo, spec: WorkloadSpec) -> Wait | None:
    """The wait that the server keeps before the next try, where a try of the workload's own has failed."""
    failed = activity.HasField("last_failure") and activity.last_failure.HasField("application_failure_info")
    waits = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    kind = activity.last_failure.application_failure_info.type
    if not failed or not waits or kind in NO_BACKOFF or not activity.HasField("current_retry_interval"):
        return None
    lasts = activity.current_retry_interval.ToTimedelta()
    return Wait(workload, lasts, spec.retry.initial_interval, spec.retry.maximum_interval, "the server")


def arguments_of_all() -> Iterator[tuple[int, bytes]]:
    """The arguments of every process of this machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ")
