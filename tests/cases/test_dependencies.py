# SPDX-License-Identifier: Apache-2.0
"""N: what users of Eclipse Ankaios rely on: restart policies, and which workload starts before which."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from activities.podman_facts import parse_time
from client.errors import Circular, NotFound
from perdure.model.messages import Outcome
from tests.cases.case import Case, Workload

RUN_ON = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


async def test_n1_what_ends_is_run_again_as_its_policy_says(case: Case, sleeper: str) -> None:
    """`always` after an exit code of 0, in the same container; `onFailure` after 1, until it is 0; `never` not at all."""
    always, failing, done, never, broken = (case.workload(name) for name in ("a", "f", "d", "n", "b"))

    def entry(restart: str, script: str) -> dict[str, Any]:
        return {"image": sleeper, "command": ["sh", "-c", script], "restart": restart}

    await case.apply(
        {
            always: entry("always", "sleep 0.2; exit 0"),
            failing: entry("onFailure", f"mkdir /once && exit 1; {RUN_ON}"),
            done: entry("onFailure", "exit 0"),
            never: entry("never", "exit 0"),
            broken: entry("never", "exit 3"),
        }
    )
    (first,) = await always.containers()
    await always.has("was restarted three times", lambda status: status.restarts >= 3)
    assert [one["Id"] for one in await always.containers()] == [first["Id"]]
    status = await failing.runs()
    assert status.restarts == 1, "it found what it had left behind: it is the same container"
    assert status.last_exit is not None
    assert status.last_exit.code == 1
    for workload, wanted in {done: "Succeeded/Ok", never: "Succeeded/Ok", broken: "Failed/Exited"}.items():
        status = await workload.until(wanted)
        assert status.restarts == 0
        assert [one["State"] for one in await workload.containers()] == ["exited"]


async def test_n2_each_starts_when_what_it_depends_on_is_as_far(case: Case, sleeper: str, tmp_path: Path) -> None:
    """First init to its end, then the storage, then the logger; the notifier only when the storage has failed."""
    init, storage, logger, notifier = (case.workload(name) for name in ("init", "storage", "logger", "notifier"))
    mounts = [f"{tmp_path}:/cause:ro"]
    fails_when_told = "while [ ! -e /cause/broken ]; do sleep 0.1; done; exit 1"
    ends_when_told = "while [ ! -e /cause/ready ]; do sleep 0.1; done"
    answers = await case.apply(
        {
            notifier: {"image": sleeper, "dependsOn": {storage.name: "failed"}},
            logger: {"image": sleeper, "dependsOn": {storage.name: "running"}},
            storage: {
                "image": sleeper,
                "command": ["sh", "-c", fails_when_told],
                "mounts": mounts,
                "restart": "never",
                "dependsOn": {init.name: "succeeded"},
            },
            init: {"image": sleeper, "command": ["sh", "-c", ends_when_told], "mounts": mounts, "restart": "never"},
        }
    )
    begun = answers[init]
    assert begun is not None
    assert begun.outcome is Outcome.RUNNING
    for workload, other, wanted in ((storage, init, "succeeded"), (logger, storage, "running")):
        answer = answers[workload]
        assert answer is not None
        assert answer.outcome is Outcome.WAITING
        await waits_for(workload, f"edge-1/{other.name} is ", f", wanted: {wanted}")
        assert await workload.containers() == []
    (tmp_path / "ready").touch()
    await logger.runs()
    await waits_for(notifier, f"edge-1/{storage.name} is Running/Ok, wanted: failed")
    assert await notifier.containers() == []
    (tmp_path / "broken").touch()
    await notifier.runs()
    await storage.until("Failed/Exited")
    await logger.runs()
    assert await ended_at(init) <= await made_at(storage)
    assert await made_at(storage) <= await made_at(logger)
    assert await ended_at(storage) <= await made_at(notifier)


async def test_n2_healthy_is_what_the_healthcheck_says(case: Case, sleeper: str, tmp_path: Path) -> None:
    """Not before it has passed; and where there is none, who waits says so."""
    db, bare, web, late = (case.workload(name) for name in ("db", "bare", "web", "late"))
    check = {"test": ["CMD", "test", "-e", "/cause/ready"], "interval": "1s"}
    await case.apply(
        {
            db: {"image": sleeper, "mounts": [f"{tmp_path}:/cause:ro"], "healthcheck": check},
            bare: {"image": sleeper},
            web: {"image": sleeper, "dependsOn": {db.name: "healthy"}},
            late: {"image": sleeper, "dependsOn": {bare.name: "healthy"}},
        }
    )
    await waits_for(web, f"edge-1/{db.name} is Running/", ", wanted: healthy")
    await waits_for(late, f"edge-1/{bare.name} is Running/Ok and has no healthcheck, wanted: healthy")
    (tmp_path / "ready").touch()
    await web.runs()
    assert await late.containers() == []


async def test_n2_a_cycle_is_refused_before_anything_is_sent(case: Case, sleeper: str) -> None:
    """Also one that goes through what was applied before."""
    web, db, other = case.workload("web"), case.workload("db"), case.workload("other")
    entries: dict[Workload, dict[str, Any]] = {
        other: {"image": sleeper},
        web: {"image": sleeper, "dependsOn": {db.name: "running"}},
        db: {"image": sleeper, "dependsOn": {web.name: "running"}},
    }
    with pytest.raises(Circular, match=f"edge-1/{web.name} -> edge-1/{db.name} -> edge-1/{web.name}"):
        await case.apply(entries)
    for workload in entries:
        with pytest.raises(NotFound):
            await workload.status()
    await case.apply({db: {"image": sleeper, "dependsOn": {f"edge-1/{web.name}": "running"}}})
    await waits_for(db, f"edge-1/{web.name} does not exist yet, wanted: running")
    with pytest.raises(Circular, match=rf"edge-1/{db.name} \(applied before\)"):
        await case.apply({web: {"image": sleeper, "dependsOn": {f"edge-1/{db.name}": "running"}}})


async def waits_for(workload: Workload, begins: str, ends: str = "") -> None:
    """Wait until a workload says that it waits for this alone."""

    def says_so(waiting_on: tuple[str, ...]) -> bool:
        return len(waiting_on) == 1 and waiting_on[0].startswith(begins) and waiting_on[0].endswith(ends)

    await workload.has(f"waits for {begins}", lambda status: says_so(status.waiting_on))


async def made_at(workload: Workload) -> datetime:
    """When the container of a workload was made."""
    return await _time(workload, "Created")


async def ended_at(workload: Workload) -> datetime:
    """When the container of a workload ended."""
    return await _time(workload, "State", "FinishedAt")


async def _time(workload: Workload, *way: str) -> datetime:
    (container,) = await workload.containers()
    found: Any = await workload.case.podman.inspect(container["Id"])
    for key in way:
        found = found[key]
    at = parse_time(found)
    assert at is not None
    return at
