# SPDX-License-Identifier: Apache-2.0
"""What was away is there again: those who wait for it run at once, though their next try would come much later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from perdure.model.faults import FaultClass, FaultKind
from perdure.model.messages import Outcome
from tests.cases.case import Case, Workload
from tests.cases.patience import patience
from tests.support.sabotage import half_a_blob, hang

PATIENT: Final[dict[str, Any]] = {"retry": {"initialInterval": "90s", "maximumInterval": "300s"}}
"""Who runs within this time was woken."""

HUNG: Final = 6
"""One more than the slots of a host."""


async def runs_by_one_more_try(web: Workload, within: float) -> None:
    """It was woken, and for good."""
    attempt = (await web.status()).attempt
    await web.runs(within=within)
    assert len(await web.reports()) == attempt == 1


async def test_l3_l8_a_registry_that_is_back_wakes_all(case: Case) -> None:
    """Eight that were refused run within seconds, and those that came later were told at once, without a pull."""
    crowd, late = case.several(8), case.workload("late")
    images = {workload: await case.push(workload.name) for workload in (*crowd, late)}
    case.front.refuse()
    answers = await case.apply({workload: {"image": images[workload], **PATIENT} for workload in crowd})
    for answer in answers.values():
        assert answer is not None
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (FaultKind.REGISTRY_UNREACHABLE, FaultClass.TRANSIENT)
        assert "the pull follows as soon as it answers" in answer.error.hint
    answer = await late.apply(images[late], **PATIENT)
    assert answer.error is not None
    assert answer.error.kind is FaultKind.REGISTRY_UNREACHABLE
    assert f"{case.front.address} does not answer (connection refused)" in answer.error.message
    case.front.accept()
    await asyncio.gather(*(runs_by_one_more_try(workload, within=10) for workload in (*crowd, late)))
    for workload in crowd:
        assert len(case.front.requests(case.repository(workload.name), "manifest", "GET")) == 1


async def test_c3_a_mount_that_appears_is_noticed(case: Case, sleeper: str, tmp_path: Path) -> None:
    """A disk that is mounted at last."""
    web = case.workload()
    source = tmp_path / "a disk"
    answer = await web.apply(sleeper, mounts=[f"{source}:/data"], **PATIENT)
    assert answer.error is not None
    assert answer.error.kind is FaultKind.MOUNT_SOURCE_MISSING
    assert f"{source} is looked for every few seconds" in answer.error.hint
    source.mkdir()
    await runs_by_one_more_try(web, within=10)


async def test_r7_podman_is_away_for_a_while(case: Case, sleeper: str) -> None:
    """What runs goes on untouched, what is new waits and is told why, and starts when Podman answers; nothing is made twice."""
    old, new = case.workload("old"), case.workload("new")
    await old.apply(sleeper)
    before = await old.runs()
    pid = await case.podman.pid(before)
    await asyncio.to_thread(case.host.podman.kill)
    try:
        answer = await new.apply(sleeper, **PATIENT)
        assert answer.outcome is Outcome.RETRYING
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (FaultKind.ENGINE_UNREACHABLE, FaultClass.TRANSIENT)
        assert case.podman.is_alive(pid)
    finally:
        await asyncio.to_thread(case.host.podman.start)
    await runs_by_one_more_try(new, within=10)
    after = await old.runs()
    assert (after.live, after.restarts) == (before.live, 0)
    assert await case.podman.pid(after) == pid
    for workload in (old, new):
        assert len(await workload.containers()) == 1


async def test_r5_a_crash_is_healed_while_another_pulls(case: Case, sleeper: str) -> None:
    """However long that takes."""
    up, pulling = case.workload("up"), case.workload("pulling")
    await up.apply(sleeper)
    before = await up.runs()
    assert before.live is not None
    image = await case.push("large")
    case.front.sabotage(case.repository("large"), half_a_blob())
    await pulling.send(image)
    await case.is_asking("large")
    await case.podman.cli("kill", before.live.container_id)
    await up.has("was restarted", lambda status: status.restarts == 1, within=10)
    await up.runs(within=10)
    assert (await pulling.status()).substate == "Pulling"


async def fresh(case: Case, name: str) -> float:
    """How many seconds a workload takes from its apply to its first start, its image to be pulled."""
    image = await case.push(name)
    web = case.workload(name)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await web.apply(image)).outcome is Outcome.RUNNING
    return loop.time() - began


async def test_l7_the_failing_do_not_delay_the_fresh(case: Case, sleeper: str) -> None:
    """More pulls that hang than there are slots, thirty that are tried again and again, a crash loop: they cost no second."""
    alone = [await fresh(case, f"alone{number}") for number in range(3)]
    stuck = case.several(HUNG, "stuck")
    for workload in stuck:
        case.front.sabotage(case.repository(workload.name), hang("manifest"))
        await workload.send(case.image(workload.name))
    for workload in stuck:
        await case.is_asking(workload.name)
    hasty = {"retry": {"maximumInterval": "10s"}}
    failing = {workload: {"image": case.image(workload.name), **hasty} for workload in case.several(30, "failing")}
    loop = case.workload("loop")
    crashing = {"command": ["sh", "-c", "exit 1"], "restartBackoff": {"initial": "100ms", "maximum": "1s"}}
    answers = await case.apply({**failing, loop: {"image": sleeper, **crashing}})
    assert {answer and answer.outcome for web, answer in answers.items() if web is not loop} == {Outcome.RETRYING}
    await loop.has("crashes", lambda status: status.restarts >= 2)
    among = [await fresh(case, f"among{number}") for number in range(3)]
    # The least of each: all these make the machine busy, and it is the waiting for a turn that is looked for.
    assert min(among) - min(alone) < patience(1), (alone, among)
    assert {(await workload.status()).substate for workload in stuck} == {"Pulling"}
