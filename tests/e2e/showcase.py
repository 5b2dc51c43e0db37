# SPDX-License-Identifier: Apache-2.0
"""Workloads in every state that somebody may have to look at, on a server with its Web UI and an engine in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.testing import WorkflowEnvironment

from activities.engine import EngineFault, PullProgress
from client.api import Reconciler, Wait
from perdure.model.catalogue import make_fault
from perdure.model.faults import FaultKind, Phase
from perdure.runtime.connect import Target
from perdure.runtime.processes import PidFile, Process
from perdure.runtime.stack_record import TEMPORAL_PART, StackRecord, run_folder, write_record
from tests.fakes.engine import FakeEngine
from tests.support.temporal import TemporalServer
from tests.support.workloads import manifest
from tests.workflow.fleet import HOST, Fleet, fleet_of

REGISTRY = "registry.shop.example:5000"
MIB = 1024 * 1024
REFUSED = (
    f'pinging container registry {REGISTRY}: Get "https://{REGISTRY}/v2/": dial tcp 10.20.30.40:5000: connect: '
    "connection refused (1/3), see `journalctl -u podman` -- *it* is [not] <there>"
)
"""With everything in it that Markdown would change."""
SYSCTL = "crun: the sysctl net.core.somaxconn is not namespaced"
UNKNOWN = f"reading manifest 2 in {REGISTRY}/shop: manifest unknown"
FAULTS = {
    "api:1": make_fault(FaultKind.REGISTRY_UNREACHABLE, Phase.PULL, REFUSED, registry=REGISTRY),
    "shop:2": make_fault(FaultKind.IMAGE_NOT_FOUND, Phase.PULL, UNKNOWN, image=f"{REGISTRY}/shop:2"),
    "batch:1": make_fault(FaultKind.INVALID_OPTION, Phase.START, SYSCTL),
}
IDENTITY = f"host/{HOST}@812"
UNHURRIED = {"initialInterval": "200s", "maximumInterval": "300s"}
"""A first wait that is longer than any test, so that what a page shows of it stands still."""


@dataclass(frozen=True)
class Showcase:
    """What is on show."""

    ui_url: str
    fleet: Fleet
    engine: FakeEngine
    reconciler: Reconciler


def image(tag: str) -> str:
    """An image of the registry that is down."""
    return f"{REGISTRY}/{tag}"


@asynccontextmanager
async def a_showcase(home: Path) -> AsyncIterator[Showcase]:
    """Bring every workload into its state. The command line finds the server where ``home`` is its PERDURE_HOME."""
    engine = FakeEngine(progress=PullProgress(34 * MIB, 156 * MIB))
    engine.images |= {image(tag) for tag in ("web:1", "shop:1", "batch:1", "crash:1", "db:1")}
    engine.pull_faults |= {image(tag): EngineFault(fault) for tag, fault in FAULTS.items() if fault.phase is Phase.PULL}
    engine.start_faults[image("batch:1")] = EngineFault(FAULTS["batch:1"])
    engine.hanging_pulls.add(image("slow:1"))
    with TemporalServer(ui=True) as server:
        assert server.ui_url is not None
        client = await server.connect(IDENTITY)
        target = Target(server.address, client.namespace, "the test", server.ui_url)
        _write_down(server, home, target)
        async with fleet_of(WorkflowEnvironment.from_client(client), engine) as fleet:
            fleet.hosts_away.add("edge-9")
            show = Showcase(server.ui_url, fleet, engine, Reconciler(client, target, "alice@laptop"))
            await _set_up(show)
            yield show


def _write_down(server: TemporalServer, home: Path, target: Target) -> None:
    home.mkdir(exist_ok=True)
    process = Process.of(server.pid or 0)
    assert process is not None
    PidFile(run_folder(home) / f"{TEMPORAL_PART}.pid").write(process)
    record = StackRecord(
        temporal_address=server.address, ui_url=server.ui_url or "", fleet=target.fleet, host=HOST, podman_url=""
    )
    write_record(home, record)


async def _set_up(show: Showcase) -> None:
    fleet = show.fleet
    await _apply(show, {"far": {"image": image("far:1")}}, host="edge-9")
    unhurried: dict[str, dict[str, Any]] = {
        "web": {},
        "api": {},
        "batch": {},
        "shop": {},
        "slow": {},
        "db": {},
        "crash": {"restartBackoff": {"initial": "200s", "maximum": "300s"}},
    }
    await _apply(
        show, {name: {"image": image(f"{name}:1"), "retry": UNHURRIED, **more} for name, more in unhurried.items()}
    )
    for name in ("web", "shop", "db", "crash"):
        await fleet.until(name, "Running/Ok", within=60)
    await _apply(show, {"shop": {"image": image("shop:2"), "retry": UNHURRIED}})
    await show.reconciler.pause(HOST, "db")
    await fleet.container_ended("crash", 137)
    for name, state in {
        "api": "Pending/PullBackoff",
        "shop": "Pending/PullBackoff",
        "batch": "Failed/Rejected",
        "slow": "Pending/Pulling",
        "db": "Paused/Ok",
        "crash": "Pending/RestartBackoff",
    }.items():
        await fleet.until(name, state, within=60)


async def _apply(show: Showcase, workloads: dict[str, dict[str, Any]], host: str = HOST) -> None:
    await show.reconciler.apply([manifest(workloads, host=host, name="shop")], wait=Wait.NONE)
