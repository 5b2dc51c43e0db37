# SPDX-License-Identifier: Apache-2.0
"""Podman as a container engine: the parts put together, one workload at a time.

What each part knows: ``podman_connection`` how to call without blocking, ``podman_pull`` pulls, ``podman_convergence`` how to get
from what is there to what is wanted, ``podman_runs`` how to start or end one run, ``podman_removal`` how to end a container in
any state, ``podman_events`` what happens behind our back, ``podman_health`` how to run a healthcheck, ``podman_spec`` and
``podman_facts`` Podman's JSON in both directions, ``translate`` what its errors mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from activities import podman_events
from activities.engine import EngineInfo, Event, Managed, Ownership, Probe, Pulled, PullProgress
from activities.podman_api import PodmanApi
from activities.podman_connection import LIBPOD, PodmanConnection, Refused
from activities.podman_convergence import Convergence
from activities.podman_facts import inspected_exit, owner_of
from activities.podman_files import HostFiles
from activities.podman_health import Healthchecks
from activities.podman_listing import Listing
from activities.podman_logs import LINE_LIMIT, Output
from activities.podman_processes import Processes
from activities.podman_pull import Puller
from activities.podman_removal import Remover
from activities.podman_runs import Runs
from activities.translate import refusal_fault
from perdure.model.faults import Phase
from perdure.model.observation import LastExit, Live, Run
from perdure.model.workload import ContainerSpec, Healthcheck
from perdure.policy.identity import container_name
from perdure.policy.progress import Patience

CALL_TIMEOUT: Final = timedelta(seconds=60)
"""Of a short call. A create on a slow disk took 12 s; a service that says nothing for a minute hangs."""


class PodmanEngine:
    """The Podman behind a socket, see ``activities.engine.Engine``.

    Args:
        url: the socket, ``unix:///run/podman/podman.sock``.
        files_dir: where the files of manifests are written; it must outlive a reboot as the containers do.
        start_slots: how many containers are made or started at once. On two cores four is the fastest: more only make each of
            them slower.
        patience: how long a pull may go without progress.
        call_timeout: of each short call.
    """

    def __init__(
        self,
        url: str,
        *,
        files_dir: Path,
        start_slots: int = 4,
        patience: Patience | None = None,
        call_timeout: timedelta = CALL_TIMEOUT,
    ) -> None:
        self._connection = PodmanConnection(url, call_timeout)
        self._api = PodmanApi(self._connection, start_slots)
        self._puller = Puller(self._connection, self._api, patience or Patience())
        self._health = Healthchecks(self._api)
        processes = Processes(self._connection.socket)
        self._listing = Listing(self._api, processes)
        remover = Remover(self._api, processes)
        self._runs = Runs(self._api, processes, remover)
        self._convergence = Convergence(
            self._api,
            listing=self._listing,
            processes=processes,
            files=HostFiles(files_dir),
            remover=remover,
            healthchecks=self._health,
        )
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def info(self) -> EngineInfo:
        """Answer at once, or raise EngineUnreachable."""
        return EngineInfo(name="Podman", version=await self._api.version(Phase.START))

    async def has_image(self, image: str) -> bool:
        """Whether the image is local."""
        return await self._api.image(image, Phase.PULL) is not None

    async def pull(self, image: str, on_progress: Callable[[PullProgress], None]) -> Pulled:
        """Fetch the image from its registry, even if it is local."""
        return await self._puller.pull(image, on_progress)

    async def ensure_running(self, name: str, spec: ContainerSpec, owner: Ownership) -> Live:
        """Make this container the only one of its workload that lives, and let it run."""
        async with self._workload(owner.fleet, owner.host, owner.workload):
            container = container_name(name, owner.generation, owner.incarnation)
            return await self._convergence.ensure_running(container, spec, owner)

    async def ensure_absent(self, fleet: str, host: str, workload: str, grace: timedelta, *, fleet_id: str = "") -> int:
        """Stop and remove every container of the workload, and the files written for it."""
        async with self._workload(fleet, host, workload):
            return await self._convergence.ensure_absent(fleet, host, workload, grace, fleet_id)

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """Our containers, running or not, by one call."""
        return await self._listing.containers(fleet, host, workload, Phase.START)

    async def exit_of(self, container_id: str) -> LastExit | None:
        """How a container ended; None while it runs or when it is gone."""
        container = await self._api.container(container_id, Phase.START)
        return None if container is None else inspected_exit(container)

    async def events(self, fleet: str, host: str) -> AsyncIterator[Event]:
        """What happens to containers of ours from the moment of the first ``anext`` on; ends by EngineFault alone."""
        async with aclosing(podman_events.follow(self._connection, fleet, host)) as stream:
            async for event in stream:
                yield event

    async def start_again(self, container_id: str) -> Live | None:
        """Start a container that ended or was never started, as it is; None where it cannot be."""
        async with self._workload_of(container_id) as is_ours:
            return await self._runs.start_again(container_id) if is_ours else None

    async def end_run(self, run: Run, grace: timedelta) -> bool:
        """End one run of a container, and leave the container there; False where that run is over already."""
        async with self._workload_of(run.container_id) as is_ours:
            return await self._runs.end_run(run, grace) if is_ours else False

    async def healthcheck_of(self, container_id: str) -> Healthcheck | None:
        """The healthcheck in force, of the manifest or the image; None where there is none, or no such container."""
        return await self._health.of(container_id)

    async def check_health(self, container_id: str) -> Probe:
        """Run the container's healthcheck once. Raises EngineFault where it could not be run."""
        return await self._health.run(container_id)

    async def logs(
        self, container_id: str, *, follow: bool, tail: int | None, since: datetime | None
    ) -> AsyncIterator[bytes]:
        """The lines of a container's output. A line longer than 64 KiB is cut with a mark."""
        container = await self._api.container(container_id, Phase.START)
        is_over = container is None or not container["State"].get("Running")
        parameters = {"stdout": "true", "stderr": "true", "follow": str(follow and not is_over).lower()}
        if tail is not None:
            parameters["tail"] = str(tail)
        if since is not None:
            parameters["since"] = str(int(since.timestamp()))
        output = Output()
        async for line in self._read_logs(container_id, parameters, output):
            yield line
        if follow and not is_over and tail is None:
            # Podman stops following a moment after the container ended, whether its reader has seen all or not.
            output.rewind()
            async for line in self._read_logs(container_id, {**parameters, "follow": "false"}, output):
                yield line
        for line in output.finish():
            yield line

    async def _read_logs(self, container_id: str, parameters: dict[str, str], output: Output) -> AsyncIterator[bytes]:
        doing = f"read the logs of container {container_id}"
        try:
            url = f"{LIBPOD}/containers/{container_id}/logs"
            async with self._connection.stream("get", url, parameters, phase=Phase.START, doing=doing) as answer:
                async for chunk in answer.aiter_raw(LINE_LIMIT):
                    for line in output.feed(chunk):
                        yield line
        except Refused as refused:
            if refused.status != 404 or not output.has_begun:
                raise refusal_fault(Phase.START, doing, refused.text) from refused

    async def close(self) -> None:
        """Let go of connections."""
        await self._health.close()
        await self._connection.close()

    @asynccontextmanager
    async def _workload_of(self, container_id: str) -> AsyncIterator[bool]:
        """One change at a time of the workload that a container belongs to; answers whether it is one of ours."""
        container = await self._api.container(container_id, Phase.START)
        owner = None if container is None else owner_of(container["Config"].get("Labels"))
        if owner is None:
            yield False
            return
        async with self._workload(owner.fleet, owner.host, owner.workload):
            yield True

    @asynccontextmanager
    async def _workload(self, fleet: str, host: str, workload: str) -> AsyncIterator[None]:
        """One change of a workload at a time. A lock lives as long as somebody holds it or waits for it."""
        key = (fleet, host, workload)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            yield
