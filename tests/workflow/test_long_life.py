# SPDX-License-Identifier: Apache-2.0
"""A life over many runs: nothing is lost when a workflow continues as new, in peace, in a storm or in an outage."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

from temporalio.client import WorkflowHandle

from perdure.model.faults import FaultKind
from perdure.model.host import HostState
from perdure.model.messages import Outcome
from perdure.model.workload import Retry
from perdure.wire import names
from perdure.wire.converter import data_converter
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.fleet import HOST, Fleet, spec

GENERATIONS = 300


async def test_a_storm_of_applies_ends_with_the_last_one(short_runs: Fleet, engine: FakeEngine) -> None:
    """Three hundred generations over many runs: none is lost, none comes twice, and nothing goes back."""
    fleet = short_runs
    first = (await fleet.apply("web", spec("reg/app:1"))).live
    assert first is not None
    run = (await fleet.handle("web").describe()).run_id
    last = ""
    for generation in range(2, GENERATIONS + 1):
        last = await fleet.send("web", spec(f"reg/app:{generation}"))
    assert (await fleet.first_attempt("web", last)).outcome is Outcome.RUNNING
    status = await fleet.until("web", "Running/Ok")
    assert (status.generation, status.image) == (GENERATIONS, f"reg/app:{GENERATIONS}")
    made = [mutation.generation for mutation in engine.mutations if mutation.what == "create"]
    assert made == sorted(made), "new is never followed by old"
    assert made[-1] == GENERATIONS
    assert engine.most_alive == 1
    assert (await fleet.handle("web").describe()).run_id != run
    assert await fleet.runs("web") >= 3


async def test_a_new_run_shows_what_the_old_one_showed(short_runs: Fleet, engine: FakeEngine) -> None:
    """From its first moment: where no control worker takes it up, nobody else would put the first memo right."""
    fleet = short_runs
    engine.images.add("reg/app:1")
    await fleet.attendance.start()
    await fleet.until_host(HostState.READY)
    await fleet.apply("web", spec("reg/app:1"))

    async def has_gone_on(handle: WorkflowHandle[Any, Any], stir: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
        """What the second run begins with."""
        first = (await handle.describe()).run_id
        while (await handle.describe()).run_id == first:
            await stir()
        ended = [
            event async for event in fleet.client.get_workflow_handle(handle.id, run_id=first).fetch_history_events()
        ]
        memo = ended[-1].workflow_execution_continued_as_new_event_attributes.memo
        (status,) = await data_converter().decode([memo.fields[names.MEMO_STATUS]], [dict[str, Any]])
        return cast("dict[str, Any]", status)

    async def pause_and_resume() -> None:
        await fleet.signal("web", names.PAUSE)
        await fleet.signal("web", names.RESUME)

    async def tell_of_the_worker() -> None:
        await fleet.host_handle(HOST).signal(names.WORKER_STARTED, fleet.attendance.worker)

    web = await has_gone_on(fleet.handle("web"), pause_and_resume)
    assert (web["state"], web["generation"]) in (("Running", 1), ("Paused", 1))
    host = await has_gone_on(fleet.host_handle(HOST), tell_of_the_worker)
    assert (host["state"], host["worker"]["identity"]) == ("Ready", fleet.attendance.worker.identity)


async def test_a_storm_of_mixed_wishes_on_three_workloads(short_runs: Fleet, engine: FakeEngine) -> None:
    """Applies, retries, pauses and resumes at once; whatever comes, each ends as its last apply says."""
    fleet = short_runs
    engine.pull_faults["reg/app:bad"] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    chance = random.Random(20261129)

    async def storm(name: str) -> None:
        await fleet.send(name, spec("reg/app:0"))
        for number in range(1, 40):
            image = "reg/app:bad" if chance.random() < 0.3 else f"reg/app:{number}"
            await fleet.send(name, spec(image))
            match chance.randrange(6):
                case 0:
                    await fleet.signal(name, names.PAUSE)
                    await fleet.signal(name, names.RESUME)
                case 1:
                    await fleet.retry(name)
        await fleet.send(name, spec("reg/app:last"))

    workloads = [f"w{number}" for number in range(3)]
    await asyncio.gather(*map(storm, workloads))
    for name in workloads:
        status = await fleet.until(name, "Running/Ok", within=30)
        assert status.image == "reg/app:last"
        assert status.generation >= 25
    assert engine.most_alive == 1


async def test_waiting_for_a_first_attempt_goes_on_over_runs(short_runs: Fleet, engine: FakeEngine) -> None:
    """Whoever waits is told MOVED when the run changes, asks again, and gets the answer."""
    fleet = short_runs
    engine.hanging_pulls.add("reg/app:slow")
    for number in range(30):
        await fleet.send("web", spec(f"reg/app:{number}"))
    waiting = asyncio.create_task(fleet.first_attempt("web", await fleet.send("web", spec("reg/app:slow"))))
    await fleet.that(lambda: "reg/app:slow" in engine.pulls, "the slow one is being pulled")
    assert (await fleet.apply("web", spec("reg/app:quick"))).outcome is Outcome.RUNNING
    assert (await waiting).outcome is Outcome.SUPERSEDED


async def test_an_outage_goes_over_into_the_next_run_without_an_extra_try(
    short_runs: Fleet, engine: FakeEngine
) -> None:
    """The error flaps, so the history grows; the new run waits for the rest of the wait and keeps the number of the try."""
    fleet = short_runs
    texts = ["connection refused", "no such host", "unauthorized", "bad gateway"]
    tries: list[float] = []

    def flap(image: str) -> None:
        tries.append(asyncio.get_running_loop().time())
        engine.pull_faults[""] = fault(FaultKind.REGISTRY_ERROR, texts[len(tries) % 4])

    engine.on_pull = flap
    retry = Retry(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=1))
    await fleet.apply("flapping", spec(retry=retry))

    async def second_run() -> bool:
        return await fleet.runs("flapping") >= 3

    await eventually_async(second_run, within=120, what="the outage goes over two runs")
    status = await fleet.until("flapping", "Pending/PullBackoff")
    assert status.attempt in (len(tries), len(tries) - 1)
    assert status.last_error is not None
    assert status.last_error.generation == 1
    gaps = [later - sooner for sooner, later in pairwise(tries)]
    assert min(gaps) > 0.2, "no try came at once"
    engine.on_pull = None
    engine.pull_faults.clear()
    await fleet.until("flapping", "Running/Ok")


async def test_an_error_days_old_is_still_told_over_runs(short_runs: Fleet, engine: FakeEngine) -> None:
    """First and last time and the count go with it (case U1)."""
    fleet = short_runs
    engine.pull_faults[""] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    await fleet.apply("old", spec())
    before = (await fleet.status("old")).last_error
    assert before is not None
    for number in range(40):
        await fleet.send("old", spec(tags={"number": str(number)}))
    await fleet.that_run_is_at_least("old", 2)
    after = (await fleet.status("old")).last_error
    assert after is not None
    assert (after.kind, after.message) == (before.kind, before.message)
    assert after.first_at <= after.last_at


async def test_removal_and_rebirth_over_runs(short_runs: Fleet, engine: FakeEngine) -> None:
    """Fifty lives of one name: each begins at generation 1 and the last one runs."""
    fleet = short_runs
    for number in range(25):
        await fleet.send("old", spec(f"reg/app:{number}"))
        await fleet.signal("old", names.REMOVE)
    outcome = await fleet.apply("old", spec("reg/app:end"))
    assert outcome.outcome is Outcome.RUNNING
    assert outcome.generation == 1
    assert len(engine.running("old")) == 1
