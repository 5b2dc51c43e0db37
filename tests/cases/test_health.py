# SPDX-License-Identifier: Apache-2.0
"""R3: healthchecks, where no systemd timers run them: what is told of them, and what is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from client.errors import TimedOut
from client.waiting import Condition
from perdure.model.observation import Health
from perdure.model.status import WorkloadStatus
from tests.cases import secret
from tests.cases.case import Case, Workload
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.support.waiting import eventually_async

ENDS_WITH_SEVEN = "trap 'exit 7' TERM; while :; do sleep 0.1; done"


def check(test: str, **more: Any) -> dict[str, Any]:
    """A healthcheck that is made every half a second, and fails at the third time."""
    return {"test": ["CMD-SHELL", test], "interval": "500ms", "timeout": "5s", "retries": 3, **more}


async def is_healthy(workload: Workload, within: float) -> WorkloadStatus | None:
    """What ``perdure wait --for healthy`` does."""
    limit = timedelta(seconds=patience(within))
    return await workload.case.fleet.wait(workload.case.host.name, workload.name, Condition.HEALTHY, timeout=limit)


@pytest.fixture
async def worker_is_back(stage: Stage) -> AsyncIterator[None]:
    """The host's worker runs again at the end, whatever the test did."""
    yield
    if not stage.host.worker.is_running:
        await asyncio.to_thread(stage.host.worker.start)


async def test_r3_unhealthy_three_times_is_told_with_its_reason(case: Case, sleeper: str, tmp_path: Path) -> None:
    """The state says so; what the check printed is told without its secrets; nothing is restarted where nobody asked for it."""
    (tmp_path / "says").write_text(f"cannot reach https://{secret.USER}:{secret.PASSWORD}@db.example/\n")
    web = case.workload()
    test = "test -e /state/well || { cat /state/says; exit 3; }"
    await web.apply(sleeper, healthcheck=check(test, startPeriod="1h"), mounts=[f"{tmp_path}:/state:ro"])
    before = await web.runs()
    with pytest.raises(TimedOut, match="its healthcheck has not said anything yet"):
        await is_healthy(web, 1.5)
    (tmp_path / "well").touch()
    assert await is_healthy(web, 10) is not None
    (tmp_path / "well").unlink()
    sick = await web.until("Running/Unhealthy", within=10)
    assert sick.history[-1].reason == "unhealthy: cannot reach https://***@db.example/"
    (tmp_path / "well").touch()
    well = await web.runs(within=10)
    assert (well.restarts, well.last_exit) == (0, None)
    assert well.live is not None
    assert before.live is not None
    assert well.live.health is Health.HEALTHY
    assert (well.live.container_id, well.live.started_at) == (before.live.container_id, before.live.started_at)


async def test_r3_unhealthy_is_restarted_where_the_manifest_asks_for_it(
    case: Case, sleeper: str, tmp_path: Path
) -> None:
    """The same container, once, though ``restart: never``; how its run ended and why is told."""
    web = case.workload()
    await web.apply(
        sleeper,
        command=["sh", "-c", f"echo >>/state/runs; {ENDS_WITH_SEVEN}"],
        healthcheck=check('[ "$(wc -l </state/runs)" -ge 2 ] || { echo ill; exit 1; }'),
        mounts=[f"{tmp_path}:/state"],
        restart="never",
        onUnhealthy="restart",
    )
    before = await web.runs()
    after = await web.has("was restarted", lambda status: status.restarts == 1 and status.state == "Running", within=15)
    assert after.last_exit is not None
    assert after.last_exit.code == 7
    assert [step.reason for step in after.history if step.substate in ("Unhealthy", "RestartBackoff")] == [
        "unhealthy: ill",
        "unhealthy: restarted",
    ]
    assert after.live is not None
    assert before.live is not None
    assert after.live.container_id == before.live.container_id
    await web.has("is healthy", lambda status: status.live is not None and status.live.health is Health.HEALTHY)
    await asyncio.sleep(2)
    assert (await web.runs()).restarts == 1
    assert (tmp_path / "runs").read_text() == "\n\n"


async def test_r3_a_check_that_hangs_is_a_failure_and_holds_up_nobody(case: Case, sleeper: str) -> None:
    """It is told so, one of it is there at a time, and the check of the image next to it is made as ever."""
    hung, well = case.several(2)
    image = await asyncio.to_thread(case.host.images.checked, f"checked:{case.mark}", ["CMD", "true"])
    hang = {"test": ["CMD", "sleep", "4321"], "interval": "300ms", "timeout": "1s", "retries": 2}
    await case.apply({hung: {"image": sleeper, "healthcheck": hang}, well: {"image": image}})
    status = await hung.until("Running/Unhealthy", within=20)
    assert "it did not end within 1 s" in status.history[-1].reason or "still not ended" in status.history[-1].reason
    assert await is_healthy(well, 5) is not None
    assert len(await asyncio.to_thread(hanging_checks, case)) == 1


@pytest.mark.usefixtures("worker_is_back")
async def test_r3_health_goes_on_after_a_restart_of_the_worker(case: Case, sleeper: str, tmp_path: Path) -> None:
    """It is not shown as well while nobody looks, and what changed meanwhile is told."""
    stays, heals = case.several(2)
    entry = {"image": sleeper, "healthcheck": check("test -e /state/well"), "mounts": [f"{tmp_path}:/state:ro"]}
    never = {"image": sleeper, "healthcheck": check("exit 1")}
    await case.apply({heals: entry, stays: never})
    for workload in (heals, stays):
        await workload.until("Running/Unhealthy", within=15)
    await asyncio.to_thread(case.host.worker.kill)
    (tmp_path / "well").touch()
    await asyncio.to_thread(case.host.worker.start)
    await heals.runs(within=10)
    await eventually_async(lambda: has_been_checked(case, stays), within=patience(10))
    status = await stays.until("Running/Unhealthy", within=1)
    assert len([step for step in status.history if step.substate == "Unhealthy"]) == 1
    assert status.restarts == 0


def hanging_checks(case: Case) -> list[int]:
    """The processes of the check that hangs."""
    return [pid for pid in case.processes() if b"4321" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def has_been_checked(case: Case, workload: Workload) -> bool:
    """Whether Podman knows of more failures than those that made it unhealthy."""
    (container,) = await workload.containers()
    health = (await case.podman.inspect(container["Id"]))["State"]
    return int((health.get("Health") or health["Healthcheck"])["FailingStreak"]) > 5
