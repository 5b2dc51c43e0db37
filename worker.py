# SPDX-License-Identifier: Apache-2.0
"""The worker process, put together: ``perdure-worker --control``, ``perdure-worker --host edge-1``, or both in one."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from activities.attendance import Attendance
from activities.autonomy import Autonomy
from activities.causes import Looks
from activities.containers import ContainerActivities, current_incarnation
from activities.control import ControlActivities
from activities.curves import place_on_curve
from activities.dependencies import DependencyActivities
from activities.engine import Engine, EngineFault, EngineInfo, Managed
from activities.fence import Fence
from activities.health import HealthChecks, engine_runs_checks
from activities.ledger import Ledger
from activities.podman_engine import PodmanEngine
from activities.pull_slots import Slots
from activities.recovery import resting_workloads
from activities.sight import Sight
from activities.supervision import Supervision
from activities.telling import Contact, Teller
from activities.tidings import Tidings
from activities.wake import Wake
from activities.watchdog import Watchdog
from perdure import __version__
from perdure.model.host import WorkerInfo
from perdure.model.observation import Live
from perdure.runtime import logs
from perdure.runtime.connect import connect, fleet_of, id_of_namespace
from perdure.runtime.host_lock import host_lock, podman_lock
from perdure.runtime.podman_service import default_sockets, find_socket
from perdure.runtime.presence import last_heartbeats
from perdure.runtime.problems import Problem, SettingsProblem, Unreachable
from perdure.runtime.settings import Settings
from perdure.wire import names
from workflows.host import HostWorkflow
from workflows.workload import WorkloadWorkflow

logger = logging.getLogger("perdure.worker")

GRACE = timedelta(seconds=10)
"""What is under way at a shutdown may end in this time; a pull gives itself back at once."""
STICKY = timedelta(seconds=2)
"""After the death of a control worker another takes up its workflows this soon."""
HOST_SLOTS = 256
"""Starts and stops under way. The engine makes and starts few at a time; those that wait for that stand in no way."""
PULL_TRIES = 256
"""Pulls under way or waiting for their turn, which is given in the process: the server would not know who is fresh."""
HEARTBEAT_THROTTLE = timedelta(seconds=1)
WORKFLOW_TASKS = 8
"""At once; the interpreter works on one at a time. What waits at the server takes up meanwhile what comes for it: of many applies
at once the question for the first attempt needs no task of its own."""
CACHED_WORKFLOWS = 5000
"""0.12 MB each, filled only with those that are active."""
BUILD = WorkerDeploymentConfig(WorkerDeploymentVersion("perdure", __version__), use_worker_versioning=False)
"""Told to the server. Without it the SDK makes an id from the contents of a thousand modules at each start: seconds of CPU."""
OPEN_FILES = 16_384
RETRY_CONNECT = timedelta(seconds=2)


@asynccontextmanager
async def control_role(client: Client, settings: Settings) -> AsyncIterator[None]:
    """Run the workflows, and answer their questions.

    The sandbox of workflows is for tests (all of them run in it): it costs half of the CPU of this worker, see docs/adr.
    """

    async def last_sign(queue: str) -> tuple[bool, datetime | None]:
        presence = await last_heartbeats(client, queue)
        return presence.alive, presence.seen_at

    answers = ControlActivities(client, last_sign=last_sign, give_up_after=settings.give_up_after)
    worker = Worker(
        client,
        task_queue=names.CONTROL_QUEUE,
        workflows=[WorkloadWorkflow, HostWorkflow],
        activities=[
            answers.host_presence,
            answers.central_defaults,
            DependencyActivities(client).dependencies,
            Tidings(client).tell_workloads,
        ],
        max_cached_workflows=CACHED_WORKFLOWS,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        sticky_queue_schedule_to_start_timeout=STICKY,
        graceful_shutdown_timeout=GRACE,
        identity=names.worker_identity("control", settings.host_name, os.getpid()),
        workflow_runner=UnsandboxedWorkflowRunner(),
        deployment_config=BUILD,
    )
    async with worker, Watchdog(client).running():
        yield


@dataclass(frozen=True, slots=True)
class LoneHost:
    """The parts of a host that work without Temporal."""

    fleet: str
    engine: Engine
    fence: Fence
    autonomy: Autonomy
    client: asyncio.Future[Client]
    """As soon as Temporal was reached."""


@asynccontextmanager
async def lone_host(settings: Settings, host: str) -> AsyncIterator[LoneHost]:
    """Take care of a host's containers from the start on: a host may well be up long before its link."""
    fleet, podman = fleet_of(settings), podman_url(settings)
    client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

    async def incarnation(name: str) -> str | None:
        return await current_incarnation(await client, host, name)

    with host_lock(settings.home, host), podman_lock(podman, fleet, host):
        files = settings.home / "files" / fleet / host
        engine = PodmanEngine(podman, files_dir=files, start_slots=settings.start_slots)
        fence = Fence(incarnation)
        ledger = Ledger(settings.home / f"autonomy-{fleet}-{host}.json")
        autonomy = Autonomy(engine, fence, Contact(is_there=False), ledger, fleet=fleet, host=host)
        try:
            async with autonomy.running():
                yield LoneHost(fleet, engine, fence, autonomy, client)
        finally:
            client.cancel()
            await engine.close()


@asynccontextmanager
async def host_role(
    client: Client, settings: Settings, host: str, alone: LoneHost, stopped: asyncio.Event
) -> AsyncIterator[None]:
    """Do the work of one host, and watch over its containers."""
    if client.namespace != alone.fleet:
        raise SettingsProblem(
            f"the fleet was {alone.fleet!r} when this worker started, and is {client.namespace!r} now",
            "Start the worker again.",
        )
    engine, fence, autonomy = alone.engine, alone.fence, alone.autonomy
    autonomy.contact.note(True)
    containers = await _containers(engine, client.namespace, host, stopped)
    fleet_id = await _id_of_fleet(client, stopped)
    if containers is None or fleet_id is None:
        yield
        return
    fence.learn(containers)
    alone.client.set_result(client)
    autonomy.serve(fleet_id, partial(resting_workloads, client, host))
    health = _health_checks(client, settings, engine, host)
    sight = Sight(engine, client.namespace, host, fleet_id)
    wake = _wake(client, engine, host) if settings.wake_on_recovery else None
    supervision = Supervision(
        client,
        engine,
        sight,
        fence,
        autonomy=autonomy,
        companions=[health],
        resync_every=settings.resync_interval,
        on_known=wake.learn if wake else None,
    )
    attendance = Attendance(client, host, await _worker_info(client, engine), supervision)
    work = ContainerActivities(
        client,
        engine,
        fence=fence,
        on_running=partial(_started, supervision, autonomy),
        on_removed=supervision.removed,
        fleet_id=fleet_id,
        wake=wake,
        slots=Slots.of(pulls=settings.pull_slots, starts=settings.start_slots),
    )
    worker = partial(
        Worker,
        client,
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACE,
        deployment_config=BUILD,
    )
    async with (
        worker(
            task_queue=names.host_queue(host),
            activities=[work.ensure, work.stop, attendance.supervise, attendance.resync],
            max_concurrent_activities=HOST_SLOTS,
        ),
        worker(task_queue=names.pull_queue(host), activities=[work.pull], max_concurrent_activities=PULL_TRIES),
        wake.running() if wake else nullcontext(),
        health.running(),
        supervision.running(),
        attendance.running(),
    ):
        yield


def _started(supervision: Supervision, autonomy: Autonomy, workload: str, live: Live) -> None:
    supervision.started(workload, live)
    autonomy.started(workload)


def _health_checks(client: Client, settings: Settings, engine: Engine, host: str) -> HealthChecks:
    by_engine = engine_runs_checks() if settings.healthchecks == "auto" else settings.healthchecks == "podman"
    return HealthChecks(engine, client.namespace, host, Teller(client, host).observe, by_engine=by_engine)


def _wake(client: Client, engine: Engine, host: str) -> Wake:
    return Wake(Looks(engine).why_away, Teller(client, host).retry_now, partial(place_on_curve, client, host))


async def _worker_info(client: Client, engine: Engine) -> WorkerInfo:
    """What this worker is. The engine's version is for people, and worth no wait."""
    try:
        found = await engine.info()
    except EngineFault as error:
        logger.warning("podman does not tell its version", extra={"cause": str(error)})
        found = EngineInfo(name="", version="")
    return WorkerInfo(
        identity=client.identity,
        version=__version__,
        engine=found.name,
        engine_version=found.version,
        started_at=datetime.now(UTC),
    )


async def _containers(engine: Engine, fleet: str, host: str, stopped: asyncio.Event) -> list[Managed] | None:
    """What is on the host, as soon as Podman answers: no work is accepted before that is known. None if stopped before."""
    while not stopped.is_set():
        try:
            return await engine.list_managed(fleet, host)
        except EngineFault as error:
            logger.warning("podman does not answer yet", extra={"cause": str(error)})
            await _wait_a_moment(stopped)
    return None


async def _id_of_fleet(client: Client, stopped: asyncio.Event) -> str | None:
    """The id of the fleet's namespace, which no other server has, as soon as Temporal tells it. None if stopped before."""
    while not stopped.is_set():
        try:
            return await id_of_namespace(client)
        except RPCError as error:
            logger.warning("temporal does not answer yet", extra={"cause": str(error)})
            await _wait_a_moment(stopped)
    return None


async def _wait_a_moment(stopped: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), RETRY_CONNECT.total_seconds())


async def serve(settings: Settings, *, control: bool, host: str | None) -> None:
    """Serve the roles until SIGTERM or SIGINT; then finish or give back what is under way."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    role, name = ("host", host) if host else ("control", settings.host_name)
    async with AsyncExitStack() as roles:
        alone = await roles.enter_async_context(lone_host(settings, host)) if host else None
        client = await _connected(settings, names.worker_identity(role, name, os.getpid()), stopped)
        if client is None:
            return
        if control:
            await roles.enter_async_context(control_role(client, settings))
        if host and alone:
            await roles.enter_async_context(host_role(client, settings, host, alone, stopped))
        logger.info("worker is ready", extra={"control": control, "host": host, "fleet": client.namespace})
        await stopped.wait()
        logger.info("worker is stopping", extra={"control": control, "host": host})


async def _connected(settings: Settings, identity: str, stopped: asyncio.Event) -> Client | None:
    """The client, as soon as Temporal answers: a host may well be up before its link. None if stopped before."""
    while not stopped.is_set():
        try:
            return await connect(settings, identity)
        except Unreachable as problem:
            logger.warning("temporal does not answer yet", extra={"cause": problem.message, "hint": problem.hint})
            await _wait_a_moment(stopped)
    return None


def podman_url(settings: Settings) -> str:
    """The socket of the settings, else the first of the usual ones that answers.

    Raises:
        SettingsProblem: none was named and none is there.
    """
    if settings.podman:
        return settings.podman
    usual = default_sockets(os.environ, is_root=os.geteuid() == 0)
    found = find_socket(usual)
    if found is None:
        places = ", ".join(str(path) for path in usual)
        raise SettingsProblem(
            f"no Podman answers at {places}",
            "Start it (systemctl enable --now podman.socket), or name its socket by PERDURE_PODMAN.",
        )
    return f"unix://{found}"


def _allow_open_files() -> None:
    """The usual limit of 1024 would end at 400 containers: the process of each and its monitor are followed by a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``perdure-worker``."""
    parser = argparse.ArgumentParser("perdure-worker", description="Serve a fleet: its workflows, or one of its hosts.")
    parser.add_argument("--control", action="store_true", help="run the workflows of the fleet")
    parser.add_argument("--host", metavar="NAME", help="do the work of this host, on the Podman of this machine")
    chosen = parser.parse_args(arguments)
    if not chosen.control and not chosen.host:
        parser.error("nothing to serve: give --control, --host NAME, or both")
    code = 0
    try:
        overrides = {"host": chosen.host} if chosen.host else {}
        settings = Settings.load(**overrides)
        logs.configure(settings)
        _allow_open_files()
        asyncio.run(serve(settings, control=chosen.control, host=chosen.host))
    except Problem as problem:
        print(f"error: {problem.message}", file=sys.stderr)  # noqa: T201 - the only word to a person, before any log
        print(f"hint: {problem.hint}", file=sys.stderr)  # noqa: T201
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a known crash of the SDK's native part at interpreter exit (sdk-python#300)


if __name__ == "__main__":
    main()
