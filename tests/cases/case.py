# SPDX-License-Identifier: Apache-2.0
"""One case: what its user does, what can be seen, and at its end the promises that hold in every case."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from activities.podman_facts import parse_time
from client.api import Reconciler
from client.api import Wait as HowLong
from client.errors import NotFound
from client.waiting import Condition
from perdure.model.base import Model
from perdure.model.messages import ApplyRequest, AttemptOutcome, AttemptReport, ReportKind
from perdure.model.status import WorkloadStatus
from perdure.model.workload import Retry
from perdure.wire import names
from perdure.wire.contract import Ticket
from tests.cases import promises, secret
from tests.cases.patience import patience
from tests.cases.promises import Accepted, Mutation, Wait
from tests.cases.stage import Host
from tests.cases.witness import WORKLOAD_LABEL, Witness
from tests.support.fault_registry import FaultRegistry
from tests.support.images import OBEDIENT, Images
from tests.support.podman import process_is_alive
from tests.support.waiting import eventually_async
from tests.support.workloads import manifest, reconciler

T = TypeVar("T")

SOON: Final = 30.0
"""Seconds after which something that no case gives a time for is late."""
STEPS: Final = (names.ENSURE, names.PULL)
LABELS: Final = "dev.perdure."


class _Step(Model):
    """What every step of a host is told."""

    ticket: Ticket


class Case:
    """What a test does, on one host. Every name and repository is its own, so cases do not see each other's."""

    def __init__(
        self, client: Client, host: Host, witness: Witness, front: FaultRegistry, builder: Images, *, mark: str = ""
    ) -> None:
        self.client = client
        self.host = host
        self.witness = witness
        self.front = front
        self.fleet: Reconciler = reconciler(client, host.temporal)
        self.mark = mark or uuid4().hex[:8]
        self.began_at = datetime.now(UTC)
        self.workloads: list[Workload] = []
        self._builder = builder

    @property
    def podman(self) -> Podman:
        """The host's Podman, without blocking the loop."""
        return Podman(self.host)

    def workload(self, name: str = "web") -> Workload:
        """A workload that is not there yet."""
        workload = Workload(self, f"{name}-{self.mark}")
        self.workloads.append(workload)
        return workload

    def several(self, count: int, name: str = "web") -> list[Workload]:
        """Some workloads that are not there yet."""
        return [self.workload(f"{name}{number}") for number in range(count)]

    def repository(self, name: str = "v1") -> str:
        """A repository of this case alone."""
        return f"case-{self.mark}/{name}"

    def image(self, name: str = "v1") -> str:
        """How an image of this case is called behind the front, whether it was pushed or not."""
        return self.front.reference(self.repository(name))

    async def push(
        self, name: str = "v1", *, shell: str = OBEDIENT, mebibytes: int = 0, architecture: str | None = None
    ) -> str:
        """Push an image that no host has a layer of, and return how it is called behind the front."""
        extra = {"ballast": uuid4().bytes * 400 + os.urandom(mebibytes << 20)}

        def push() -> None:
            command = ("sh", "-c", shell)
            local = self._builder.make(f"{self.repository(name)}:1", command, extra=extra, architecture=architecture)
            self._builder.push(local, self.front.upstream.reference(self.repository(name)))
            self._builder.forget(local)

        await asyncio.to_thread(push)
        return self.image(name)

    async def apply(
        self, entries: dict[Workload, dict[str, Any]], *, wait: HowLong = HowLong.FIRST_ATTEMPT, **document: Any
    ) -> dict[Workload, AttemptOutcome | None]:
        """Apply several workloads by one manifest."""
        environment = {"PERDURE_CASE": self.mark}
        wanted = {
            workload.name: {**entry, "environment": {**environment, **entry.get("environment", {})}}
            for workload, entry in entries.items()
        }
        wish = manifest(wanted, host=self.host.name, name=f"case-{self.mark}", **document)
        for target in wish.targets():
            self.witness.attend(target.name, target.spec)
        limit = timedelta(seconds=patience(60))
        results = await self.fleet.apply([wish], wait=wait, timeout=limit)
        answers = {result.name: result.answer for result in results}
        return {workload: answers[workload.name] for workload in entries}

    async def is_asking(self, name: str, *, busy: bool = True) -> None:
        """Wait until a request for an image of this case is under way, or none is any more."""

        async def look() -> bool:
            return (self.front.in_flight(self.repository(name)) > 0) is busy

        what = f"{name} is {'' if busy else 'not '}asked for"
        await eventually_async(look, within=patience(10), what=what)

    async def restart_worker(self) -> None:
        """Kill the host's worker and start it again."""
        await asyncio.to_thread(self.host.worker.restart)

    # ---- its end ----

    async def end(self) -> float:
        """Remove what is left. Returns the time from which on no registry is asked for anything any more."""
        await asyncio.gather(*(workload.remove() for workload in self.workloads))
        removed_at = time.time()
        self.front.recover()
        return removed_at

    async def broken_promises(self) -> list[str]:
        """Everything that was seen to contradict a promise, told once the case is over."""
        await eventually_async(self._is_all_gone, within=patience(SOON), what=f"nothing of case {self.mark} is left")
        mutations = [one for one in await self.podman.mutations(self.began_at) if self._is_ours(one.workload)]
        found = list(self.witness.violations)
        accepted: list[Accepted] = []
        for workload in self.workloads:
            events = [event async for event in workload.events()]
            found += [
                f"the history of {workload.name} shows the password ({form})"
                for event in events
                for form in secret.found_in(event.SerializeToString())
            ]
            accepted += _accepted(workload.name, events)
            found += promises.out_of_bounds(_waits(workload.name, events))
        found += promises.new_was_followed_by_old(mutations, accepted)
        found += [
            f"{log} shows the password ({form})"
            for log in (self.host.worker.log, self.host.podman.service.log)
            for form in secret.found_in(await asyncio.to_thread(log.read_bytes))
        ]
        return found

    async def _is_all_gone(self) -> bool:
        containers = await self.podman.containers()
        left = [
            container["Names"] for container in containers if self._is_ours(container["Labels"].get(WORKLOAD_LABEL))
        ]
        assert not left, f"containers are left: {left}"
        processes = await asyncio.to_thread(self.processes)
        assert not processes, f"processes are left: {processes}"
        files = [path for workload in self.workloads for path in self.host.files_of(workload.name)]
        assert not files, f"files are left: {files}"
        return True

    def processes(self) -> list[int]:
        """The living processes in containers of this case, whatever Podman knows of them."""
        mark = f"PERDURE_CASE={self.mark}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes() and process_is_alive(int(entry.name)):
                        found.append(int(entry.name))
        return found

    def _is_ours(self, workload: str | None) -> bool:
        return workload in {one.name for one in self.workloads}


@dataclass(eq=False)
class Workload:
    """One workload of a case."""

    case: Case
    name: str
    statuses: list[WorkloadStatus] = field(default_factory=list)
    """Every status that a test has looked at."""

    async def apply(self, image: str, **entry: Any) -> AttemptOutcome:
        """Apply a manifest with this workload, and wait for its first attempt."""
        answers = await self.case.apply({self: {"image": image, **entry}})
        answer = answers[self]
        assert answer is not None, f"no answer in time: {await self.status()}"
        return answer

    async def send(self, image: str, **entry: Any) -> None:
        """Apply a manifest with this workload, and wait for nothing."""
        await self.case.apply({self: {"image": image, **entry}}, wait=HowLong.NONE)

    async def status(self) -> WorkloadStatus:
        """The latest of it."""
        status = await self.case.fleet.status(self.case.host.name, self.name)
        self.statuses.append(status)
        return status

    async def _known(self) -> WorkloadStatus:
        try:
            return await self.status()
        except NotFound as error:
            raise AssertionError(str(error)) from error

    async def until(self, wanted: str, within: float = SOON, generation: int | None = None) -> WorkloadStatus:
        """Wait until it is, for example, "Running/Ok", in a generation where one is given."""

        async def look() -> WorkloadStatus:
            status = await self._known()
            assert f"{status.state}/{status.substate}" == wanted, status.model_dump_json(exclude={"history"})
            assert generation in (None, status.generation), f"generation {status.generation}"
            return status

        return await eventually_async(look, within=patience(within), what=f"{self.name} is {wanted}")

    async def runs(self, within: float = SOON, generation: int | None = None) -> WorkloadStatus:
        """Wait until it runs, and see that its container really does."""
        status = await self.until("Running/Ok", within, generation)
        assert status.live is not None
        (container,) = [one for one in await self.containers() if one["State"] == "running"]
        assert container["Id"] == status.live.container_id
        assert process_is_alive(container["Pid"])
        return status

    async def has(self, what: str, claim: Callable[[WorkloadStatus], bool], within: float = SOON) -> WorkloadStatus:
        """Wait until a claim about its status holds."""

        async def look() -> WorkloadStatus:
            status = await self._known()
            assert claim(status), status.model_dump_json(exclude={"history"})
            return status

        return await eventually_async(look, within=patience(within), what=f"{self.name} {what}")

    async def containers(self) -> list[dict[str, Any]]:
        """Its containers, running or not, as Podman lists them."""
        return await self.case.podman.containers(f"{WORKLOAD_LABEL}={self.name}")

    async def ask_to_go(self) -> None:
        """Ask for its removal, and do not wait."""
        await self.case.fleet.remove(self.case.host.name, self.name)

    async def is_removed(self, within: float = SOON) -> None:
        """Wait until it is gone."""
        limit = timedelta(seconds=patience(within))
        with suppress(NotFound):
            await self.case.fleet.wait(self.case.host.name, self.name, Condition.REMOVED, timeout=limit)
        self.case.witness.dismiss(self.name)

    async def remove(self, within: float = SOON) -> None:
        """Remove it where it is, and wait until it is gone."""
        with suppress(NotFound):
            await self.ask_to_go()
            await self.is_removed(within)
        self.case.witness.dismiss(self.name)

    async def reports(self) -> list[AttemptReport]:
        """The failures that its host has reported, oldest first."""
        return [report for report, _ in _reports([event async for event in self.events()])]

    async def events(self) -> AsyncIterator[HistoryEvent]:
        """The events of all runs of its workflows."""
        rows = self.case.client.list_workflows(f'WorkflowId="{names.workload_id(self.case.host.name, self.name)}"')
        async for row in rows:
            async for event in self.case.client.get_workflow_handle(row.id, run_id=row.run_id).fetch_history_events():
                yield event


class Podman:
    """A host's Podman from an event loop."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def cli(self, *arguments: str, check: bool = True) -> str:
        """Run a ``podman`` command."""
        return await asyncio.to_thread(lambda: self._host.podman.cli(*arguments, check=check))

    async def containers(self, *labels: str) -> list[dict[str, Any]]:
        """All containers, or those with labels."""
        return await asyncio.to_thread(self._host.podman.containers, *labels)

    async def inspect(self, container: str) -> dict[str, Any]:
        """Everything about a container that is there."""
        found = await asyncio.to_thread(self._host.podman.inspect, container)
        assert found is not None, f"there is no container {container}"
        return found

    async def has_image(self, image: str) -> bool:
        """Whether an image is local."""
        return bool(await self.cli("images", "--quiet", "--filter", f"reference={image}"))

    async def forget(self, image: str) -> None:
        """Remove an image, so that it must be pulled."""
        await self.cli("image", "rm", "--force", "--ignore", image)

    async def pid(self, status: WorkloadStatus) -> int:
        """The main process of the container that a status names."""
        assert status.live is not None
        return int((await self.inspect(status.live.container_id))["State"]["Pid"])

    def is_alive(self, pid: int) -> bool:
        """Whether a process is there."""
        return process_is_alive(pid)

    async def mutations(self, since: datetime) -> list[Mutation]:
        """Which containers of ours were made and started, by Podman's own log of events."""
        command = ["events", "--stream=false", "--filter=type=container", "--format=json"]
        lines = await self.cli(*command, f"--since={int(since.timestamp())}")
        found = []
        for line in lines.splitlines():
            event = json.loads(line)
            labels = {key.removeprefix(LABELS): value for key, value in (event.get("Attributes") or {}).items()}
            if event["Status"] in ("create", "start") and "workload" in labels:
                at = parse_time(event["Time"])
                assert at is not None
                generation = int(labels["generation"])
                found.append(Mutation(at, event["Status"], labels["workload"], labels["incarnation"], generation))
        return found


def _accepted(workload: str, events: list[HistoryEvent]) -> list[Accepted]:
    """From when on which generation of the container was wanted: when its first step was scheduled."""
    found = []
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name in STEPS:
                ticket = _Step.model_validate_json(scheduled.input.payloads[0].data).ticket
                at = event.event_time.ToDatetime(tzinfo=UTC)
                found.append(Accepted(at, workload, ticket.incarnation, ticket.generation))
    return found


def _reports(events: list[HistoryEvent]) -> list[tuple[AttemptReport, Retry]]:
    """The failures that hosts reported, each with the settings that were in force."""
    found = []
    retry = Retry()
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == names.APPLY:
                retry = ApplyRequest.model_validate_json(signal.input.payloads[0].data).spec.retry
            if signal.signal_name == names.REPORT:
                report = AttemptReport.model_validate_json(signal.input.payloads[0].data)
                if report.kind is ReportKind.FAILED:
                    found.append((report, retry))
    return found


def _waits(workload: str, events: list[HistoryEvent]) -> list[Wait]:
    """The waits that hosts reported."""
    return [
        Wait(workload, report.next_attempt_at - report.at, retry.initial_interval, retry.maximum_interval, "a report")
        for report, retry in _reports(events)
        if report.next_attempt_at is not None
    ]


async def took(what: Awaitable[T]) -> tuple[float, T]:
    """How many seconds something takes, and what comes of it."""
    began = time.monotonic()
    result = await what
    return time.monotonic() - began, result
