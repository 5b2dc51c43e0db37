# SPDX-License-Identifier: Apache-2.0
"""S: what is newer comes at once and stays; what is older never comes back."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from client.api import Wait
from perdure.model.messages import Outcome
from tests.cases.case import Case, took
from tests.cases.patience import patience
from tests.support.ports import free_ports, is_listening
from tests.support.sabotage import half_a_blob
from tests.support.waiting import eventually_async

LONG_WAIT = {"initialInterval": "100s", "maximumInterval": "300s"}
"""A curve that begins near its end."""


async def test_s1_in_a_long_backoff(case: Case) -> None:
    """v2's pull begins within 2 s, it runs within 10 s by its first attempt, and nobody asks for v1 any more."""
    web = case.workload()
    assert (await web.apply(case.image("v1"), retry=LONG_WAIT)).outcome is Outcome.RETRYING
    status = await web.status()
    assert status.next_attempt_at is not None
    assert (status.next_attempt_at - status.since).total_seconds() > 90
    v2 = await case.push("v2")
    case.front.forget_requests()
    applied_at = time.time()
    assert (await web.apply(v2, retry=LONG_WAIT)).outcome is Outcome.RUNNING
    await web.runs(within=10, generation=2)
    (asked,) = case.front.requests(case.repository("v2"), "manifest", "GET")
    assert asked.at - applied_at < patience(2)
    assert case.front.requests(case.repository("v1")) == []


async def test_s2_in_a_hanging_pull(case: Case) -> None:
    """v1's pull is cut off, v2 runs within 15 s, and no v1 container appears when v1's registry goes on after all."""
    web = case.workload()
    v1, v2 = await case.push("v1"), await case.push("v2")
    case.front.sabotage(case.repository("v1"), half_a_blob())
    await web.send(v1)
    await web.until("Pending/Pulling")
    await case.is_asking("v1")
    seconds, answer = await took(web.apply(v2))
    assert answer.outcome is Outcome.RUNNING
    assert seconds < patience(15)
    await case.is_asking("v1", busy=False)
    case.front.recover()
    await web.runs(generation=2)
    assert not await case.podman.has_image(v1)
    assert {container["Image"] for container in await web.containers()} == {v2}


async def test_s3_an_older_revision_is_stale(case: Case, sleeper: str) -> None:
    """Revisions 3, 2, 3, 1 end at 3; 2 and 1 are refused, and the history says so."""
    web = case.workload()
    outcomes = []
    for revision in (3, 2, 3, 1):
        entry = {"image": sleeper, "environment": {"REVISION": str(revision)}}
        answer = (await case.apply({web: entry}, revision=revision))[web]
        assert answer is not None
        outcomes.append(answer.outcome)
    assert outcomes == [Outcome.RUNNING, Outcome.STALE, Outcome.UNCHANGED, Outcome.STALE]
    status = await web.runs(generation=1)
    assert status.revision == 3
    assert [step.reason for step in status.history if "stale" in step.reason] == [
        f"apply by test refused (stale): revision {old} is older than revision 3, which was accepted before"
        for old in (2, 1)
    ]


async def test_s4_nothing_but_a_new_generation_begins_a_new_curve(case: Case) -> None:
    """Neither another worker with its resync, nor a retry, nor the same spec again; a new image does."""
    web = case.workload()
    image = case.image("v1")
    settings: dict[str, Any] = {"retry": {"initialInterval": "500ms", "maximumInterval": "1s"}}
    await web.apply(image, **settings)
    reached = (await web.has("has failed four times", lambda status: status.attempt >= 4)).attempt
    await case.restart_worker()
    reached = (await web.has("goes on counting", lambda status: status.attempt > reached)).attempt
    await case.fleet.retry(case.host.name, web.name)
    reached = (await web.has("goes on counting", lambda status: status.attempt > reached)).attempt
    assert (await web.apply(image, **settings)).outcome is Outcome.RETRYING
    reached = (await web.has("goes on counting", lambda status: status.attempt > reached)).attempt
    numbers = [report.attempt for report in await web.reports()]
    assert numbers[:1] == [1]
    assert numbers == sorted(set(numbers)), "it never went back"
    answer = await web.apply(case.image("v2"), **settings)
    assert answer.error is not None
    assert (answer.outcome, answer.error.attempt, answer.error.generation) == (Outcome.RETRYING, 1, 2)


async def test_s5_deleted_in_a_long_backoff_and_created_again(case: Case, sleeper: str) -> None:
    """Its first try is immediate: nothing of the old curve is left."""
    web = case.workload()
    assert (await web.apply(case.image("v1"), retry=LONG_WAIT)).outcome is Outcome.RETRYING
    await web.remove()
    seconds, answer = await took(web.apply(sleeper, retry=LONG_WAIT))
    assert (answer.outcome, answer.generation) == (Outcome.RUNNING, 1)
    assert seconds < patience(5)


async def test_s7_five_versions_in_a_second_for_three_workloads_of_one_image(case: Case) -> None:
    """Only the last one runs, and nothing is made before its own image is there."""
    workloads = case.several(3)
    versions = [await case.push(f"v{number}") for number in range(1, 6)]
    for version in versions:
        await case.apply({workload: {"image": version} for workload in workloads}, wait=Wait.NONE)
    for workload in workloads:
        await workload.runs(generation=5)
        assert [container["Image"] for container in await workload.containers()] == [versions[-1]]
    fetched_at = case.front.requests(case.repository("v5"), "blob", "GET")[0].at
    made = [one for one in await case.podman.mutations(case.began_at) if one.generation == 5 and one.what == "create"]
    assert {one.workload for one in made} == {workload.name for workload in workloads}
    assert all(one.at.timestamp() > fetched_at for one in made)


async def test_s8_settings_leave_the_container_as_it_is(case: Case, sleeper: str) -> None:
    """A tag, the retry and the restart policy: same id, same start."""
    web = case.workload()
    await web.apply(sleeper)
    before = (await web.runs()).live
    assert before is not None
    changes: list[dict[str, Any]] = [
        {"tags": {"team": "shop"}},
        {"tags": {"team": "shop"}, "retry": {"maximumInterval": "5s"}},
        {"tags": {"team": "shop"}, "restart": "onFailure"},
    ]
    for generation, change in enumerate(changes, 2):
        assert (await web.apply(sleeper, **change)).outcome is Outcome.UPDATED
        status = await web.runs(generation=generation)
        assert status.live == before.model_copy(update={"generation": generation})


async def test_s9_a_crash_loop_is_replaced(case: Case, sleeper: str) -> None:
    """Within 20 s, however long v1 waits for its next restart; and a v1 that cannot even start leaves nothing behind."""
    web, bad = case.several(2)
    await web.apply(sleeper, command=["sh", "-c", "exit 3"], restartBackoff={"initial": "100s", "maximum": "300s"})
    await web.until("Pending/RestartBackoff")
    assert (await bad.apply(sleeper, command=["/no/such/program"])).outcome is Outcome.REJECTED
    for workload in (web, bad):
        seconds, answer = await took(workload.apply(sleeper))
        assert answer.outcome is Outcome.RUNNING
        assert seconds < patience(20)
        await workload.runs(generation=2)
        assert len(await workload.containers()) == 1


async def test_s10_a_port_moves(case: Case, sleeper: str) -> None:
    """The new one answers, the old one does not, and there is one container."""
    web = case.workload()
    old, new = free_ports(2)
    serve = "trap 'exit 0' TERM; httpd -f -p 8080 & wait"
    for port in (old, new):
        await web.apply(sleeper, command=["sh", "-c", serve], ports=[f"127.0.0.1:{port}:8080"], networks=[])
        await eventually_async(partial(is_up, port), within=patience(10), what=f"port {port} answers")
    assert not is_listening(old)
    await web.runs(generation=2)
    assert len(await web.containers()) == 1


async def is_up(port: int) -> bool:
    return is_listening(port)


async def test_s10_c6_added_again_while_it_is_slow_to_go(case: Case, stubborn: str) -> None:
    """Its container ignores SIGTERM: gone within 15 s, its status answers within a second, then it lives again."""
    web = case.workload()
    await web.apply(stubborn, stop={"timeout": "10s"})
    first = await web.runs()
    pid = await case.podman.pid(first)
    asked_at = time.monotonic()
    await web.ask_to_go()
    await web.until("Stopping/Stopping", within=2)
    again = asyncio.create_task(web.apply(stubborn, stop={"timeout": "0s"}))
    slowest = 0.0
    while case.podman.is_alive(pid):
        seconds, _ = await took(web.status())
        slowest = max(slowest, seconds)
        assert time.monotonic() - asked_at < patience(15)
        await asyncio.sleep(0.2)
    assert time.monotonic() - asked_at > 9, "the grace was given"
    assert slowest < patience(1)
    answer = await again
    assert (answer.outcome, answer.generation) == (Outcome.RUNNING, 1)
    second = await web.runs()
    assert second.incarnation != first.incarnation
    assert len(await web.containers()) == 1


async def test_s10_deleted_during_a_pull(case: Case) -> None:
    """The pull is cut off, and no container appears."""
    web = case.workload()
    v1 = await case.push("v1")
    case.front.sabotage(case.repository("v1"), half_a_blob())
    await web.send(v1)
    await case.is_asking("v1")
    seconds, _ = await took(web.remove())
    assert seconds < patience(5)
    await case.is_asking("v1", busy=False)
    case.front.recover()
    case.front.forget_requests()
    assert not await case.podman.has_image(v1)
    assert [one for one in await case.podman.mutations(case.began_at) if one.workload == web.name] == []
