# SPDX-License-Identifier: Apache-2.0
"""The embedded stack of one machine: a Temporal server, a Podman service where none runs, and two workers.

Control and host are workers of their own: a host worker that is stuck or killed must not stop the workflows, which are the
ones to tell of it. One process for both would save 80 MB of memory (68 instead of 75 + 79 MB, measured).

A stack belongs to a home. Several can run side by side, with homes, ports and host names of their own. One process supervises it:
``perdure up`` itself, or with ``--detach`` a child of it. All parts are found again by their pid files, or without them by what
they are, so that ``up`` and ``down`` also work after the supervisor was killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from perdure.runtime import rediscovery, supervisor
from perdure.runtime.entry_points import command_of
from perdure.runtime.parts import Part, PodmanPart, ProgramPart
from perdure.runtime.podman_service import PodmanService, default_sockets, find_socket, is_answering
from perdure.runtime.ports import claim
from perdure.runtime.problems import StackProblem
from perdure.runtime.processes import Process
from perdure.runtime.purge import remove_containers, remove_state
from perdure.runtime.settings import Settings
from perdure.runtime.stack_record import (
    CONTROL_PART,
    HOST_PART,
    SUPERVISOR,
    SUPERVISOR_LOCK,
    TEMPORAL_PART,
    StackRecord,
    owner_of,
    pid_file_of,
    read_last_record,
    read_record,
    run_folder,
    write_record,
)
from perdure.runtime.temporal_server import TemporalServer, fleet_id_of, without_temporal

DEFAULT_FLEET: Final = "default"
UI_PORT_OFFSET: Final = 1000
TEMPORAL_GRACE: Final = timedelta(seconds=10)
WORKER_GRACE: Final = timedelta(seconds=20)
"""A worker gives what is under way ten seconds to end."""
SUPERVISOR_GRACE: Final = timedelta(seconds=60)
NOT_IN_A_HOME: Final = "?#%"
"""SQLite is given the path as a URI: it would silently take another file, outside of the home."""


class AlreadyUp(StackProblem):
    """Another process supervises this stack."""

    def __init__(self, home: Path, supervisor_pid: int | None) -> None:
        super().__init__(
            f"the stack in {home} is up already, supervised by process {supervisor_pid or 'unknown'}",
            "Stop it by `perdure down`, or use another PERDURE_HOME.",
        )


class Stack:
    """The stack of the home of the settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.home = settings.home
        self._supervisor = pid_file_of(self.home, SUPERVISOR)

    @property
    def supervisor(self) -> Process | None:
        """The process that supervises it."""
        return self._supervisor.running()

    @property
    def record(self) -> StackRecord | None:
        """Its addresses, while it is up."""
        return read_record(self.home)

    def refuse_other_options(self) -> None:
        """Refuse options that differ from those that it is up with. Raises StackProblem."""
        settings, up = self.settings, self.record
        if up is None:
            return
        server = TemporalServer.of(self.home, up)
        facts: tuple[tuple[str, str, int | str], ...] = (
            ("temporal_port", "Temporal's port", server.port),
            ("ui_port", "the Web UI's port", server.ui_port),
            ("host", "host", up.host),
            ("fleet", "fleet", up.fleet),
        )
        differing = [
            f"{what} {is_now}, not {wanted}"
            for field, what, is_now in facts
            if (wanted := getattr(settings, field)) and wanted != is_now and field in settings.model_fields_set
        ]
        if differing:
            raise StackProblem(
                f"the stack in {self.home} is up with {', and '.join(differing)}",
                "Stop it first by `perdure down`, or use another PERDURE_HOME.",
            )

    def find_again(self) -> None:
        """Find what still runs of it, also where its pid files were lost. Raises StackProblem where it is another user's."""
        owner = owner_of(self.home)
        if owner is not None and os.geteuid() != 0:
            raise self._foreign(owner)
        rediscovery.restore_pid_files(self.home)

    def check(self) -> None:
        """Find out what would stand in the way of ``up``, without starting anything. Raises StackProblem."""
        self._make_home()
        self._parts(self._plan())

    def _foreign(self, owner: str) -> StackProblem:
        return StackProblem(
            f"the stack in {self.home} is that of {owner}", f"Act as {owner}, or name another home by PERDURE_HOME."
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StackRecord]:
        """Start what does not run yet, keep all running inside the block, and stop it at the end.

        Raises:
            AlreadyUp: another process supervises it.
            StackProblem: a part cannot be started; what was started is stopped again.
        """
        self._make_home()
        self.find_again()
        with self._lock():
            record = self._plan()
            parts = self._parts(record)
            if record != read_last_record(self.home):
                await supervisor.stop(parts[1:])  # left by a supervisor that was killed, they serve another address
            write_record(self.home, record)
            try:
                await supervisor.start_missing(parts)
                keeping = asyncio.create_task(supervisor.keep(parts, self.log(SUPERVISOR)))
                try:
                    yield record
                finally:
                    keeping.cancel()
                    await asyncio.gather(keeping, return_exceptions=True)
            finally:
                await supervisor.stop(parts)
                self._supervisor.remove()

    async def down(self) -> list[str]:
        """Stop the supervisor, which stops the parts, and whatever part still runs. Containers go on.

        Returns:
            The names of what ran.

        Raises:
            StackProblem: it is another user's.
        """
        self.find_again()
        leftovers: list[Part] = [_Leftover(self.home, name) for name in (TEMPORAL_PART, CONTROL_PART, HOST_PART)]
        parts = [*leftovers, PodmanPart(self._own_podman())]
        ran = [part.name for part in parts if part.running() is not None]
        if (process := self.supervisor) is not None:
            await process.stop(SUPERVISOR_GRACE.total_seconds())
        await supervisor.stop([parts[0], parts[3], *parts[1:3]])
        self._supervisor.remove()
        return ran

    async def purge(self) -> int:
        """After ``down``: remove the containers of this stack's workloads, and its state. Returns how many containers.

        Raises:
            StackProblem: Podman does not answer; nothing of the state was removed.
        """
        removed = 0
        if (last := read_last_record(self.home)) is not None:
            own = PodmanPart(self._own_podman())
            is_own = last.podman_url == own.service.url
            if is_own:
                await own.start()
            try:
                fleet_id = fleet_id_of(self.home, last.fleet)
                removed = await remove_containers(last.podman_url, last.fleet, last.host, fleet_id)
            finally:
                if is_own:
                    await own.stop()
        remove_state(self.home)
        return removed

    def log(self, part: str) -> Path:
        """Where a part writes its log."""
        return self.home / "logs" / f"{part}.log"

    def _plan(self) -> StackRecord:
        """The addresses to use: those of a server that still runs, else those of the settings."""
        adopted = self.record
        if adopted is not None:
            self.refuse_other_options()
            return adopted
        port = claim(self.settings.temporal_port, what="Temporal", option="--temporal-port")
        wanted = self.settings.ui_port
        if wanted is None:
            wanted = self.settings.temporal_port + UI_PORT_OFFSET if self.settings.temporal_port else 0
        ui_port = claim(wanted, what="the Web UI", option="--ui-port")
        fleet = self.settings.fleet or DEFAULT_FLEET
        server = TemporalServer(self.home, port, ui_port, fleet)
        return StackRecord(
            temporal_address=server.address,
            ui_url=server.ui_url,
            fleet=fleet,
            host=self.settings.host_name,
            podman_url=self._podman_url(),
        )

    def _parts(self, record: StackRecord) -> list[Part]:
        """The parts in the order of their start. Raises StackProblem where a program is missing."""
        server = TemporalServer.of(self.home, record)
        environment = without_temporal(os.environ) | self.settings.as_environment()
        parts: list[Part] = [
            ProgramPart(TEMPORAL_PART, server.command(), environment, self.home, TEMPORAL_GRACE, server.serves)
        ]
        own = self._own_podman()
        if record.podman_url == own.url:
            if own.settings.problem:
                raise StackProblem(
                    f"no Podman answers, and none can be started: {own.settings.problem}",
                    "Install Podman 4.3 or later, or name its socket by PERDURE_PODMAN.",
                )
            parts.append(PodmanPart(own))
        environment |= {
            "TEMPORAL_ADDRESS": record.temporal_address,
            "TEMPORAL_NAMESPACE": record.fleet,
            "PERDURE_FLEET": record.fleet,
            "PERDURE_HOST": record.host,
            "PERDURE_PODMAN": record.podman_url,
        }
        worker = command_of("perdure-worker", "worker")
        for name, roles in ((CONTROL_PART, ["--control"]), (HOST_PART, ["--host", record.host])):
            parts.append(ProgramPart(name, [*worker, *roles], environment, self.home, WORKER_GRACE))
        return parts

    def _podman_url(self) -> str:
        """The socket that is named, else one of the usual ones that answers, else that of a service of our own."""
        if named := self.settings.podman:
            if not is_answering(Path(named.removeprefix("unix://"))):
                raise StackProblem(
                    f"no Podman answers at {named}, which PERDURE_PODMAN names",
                    "Start it there, or remove the setting to have one started.",
                )
            return named
        found = find_socket(default_sockets(os.environ, is_root=os.geteuid() == 0))
        return f"unix://{found}" if found is not None else self._own_podman().url

    def _own_podman(self) -> PodmanService:
        return PodmanService(self.home / "podman")

    def _make_home(self) -> None:
        if unfit := sorted(set(str(self.home)) & set(NOT_IN_A_HOME)):
            raise StackProblem(
                f"the path of the home {self.home} has {' and '.join(unfit)} in it, which Temporal's database cannot have",
                "Name another one by PERDURE_HOME.",
            )
        try:
            run_folder(self.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StackProblem(
                f"the home {self.home} cannot be made: {error.strerror}", "Name another one by PERDURE_HOME."
            ) from error
        if (owner := owner_of(self.home)) is not None:
            raise self._foreign(owner)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Be the only supervisor. The kernel frees the lock when the process ends, however it ends."""
        with (run_folder(self.home) / SUPERVISOR_LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                process = self.supervisor
                raise AlreadyUp(self.home, process.pid if process else None) from None
            if (me := Process.of(os.getpid())) is not None:
                self._supervisor.write(me)
            yield


class _Leftover(ProgramPart):
    """A part of which only the pid file matters: it is to be stopped."""

    def __init__(self, home: Path, name: str) -> None:
        grace = TEMPORAL_GRACE if name == TEMPORAL_PART else WORKER_GRACE
        super().__init__(name, (), {}, home, grace)
