# SPDX-License-Identifier: Apache-2.0
"""Cases that take minutes, hours or hundreds of restarts, in time that leaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from perdure.model.faults import FaultKind, LastError, Phase
from perdure.model.messages import ApplyRequest
from perdure.model.observation import ContainerState, LastExit, Live, Observation
from perdure.model.record import Record
from perdure.model.workload import RestartBackoff
from perdure.policy import attempts, sightings, wishes
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.fleet import Fleet, spec

TRIES_IN_AN_HOUR = 90
"""Of nineteen workloads in twenty; the middle one makes 42."""
CAP = timedelta(seconds=300)


async def test_a_tag_that_is_missing_for_an_hour(fleet: Fleet, engine: FakeEngine) -> None:
    """Few tries, always told as ImageNotFound; after the removal nobody asks any more (case L2)."""
    engine.pull_faults[""] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    workloads = [f"web-{number}" for number in range(10)]
    for name in workloads:
        await fleet.apply(name, spec(f"reg/{name}:1"))
    await fleet.environment.sleep(timedelta(hours=1))
    tries = sorted(engine.pulls.count(f"reg/{name}:1") for name in workloads)
    assert tries[0] > 10
    assert tries[-2] <= TRIES_IN_AN_HOUR
    for name in workloads:
        status = await fleet.until(name, "Pending/PullBackoff")
        assert status.last_error is not None
        assert status.last_error.kind is FaultKind.IMAGE_NOT_FOUND
        await fleet.signal(name, names.REMOVE)
        await fleet.handle(name).result()
    asked = len(engine.pulls)
    await fleet.environment.sleep(timedelta(hours=1))
    assert len(engine.pulls) == asked


@pytest.mark.parametrize("kind", [FaultKind.REGISTRY_NAME_NOT_RESOLVED, FaultKind.REGISTRY_UNREACHABLE])
async def test_dns_that_fails_for_ten_minutes(fleet: Fleet, engine: FakeEngine, kind: FaultKind) -> None:
    """It runs within one interval after it works again, by itself (case L3)."""
    engine.pull_faults[""] = fault(kind, "dial tcp: lookup registry.example: no such host")
    await fleet.apply("web", spec())
    await fleet.environment.sleep(timedelta(minutes=10))
    status = await fleet.until("web", "Pending/PullBackoff")
    assert status.last_error is not None
    assert status.last_error.kind is kind
    engine.pull_faults.clear()
    await fleet.environment.sleep(CAP)
    await fleet.until("web", "Running/Ok")


def crashed(record: Record, now: datetime, ran_for: timedelta) -> Record:
    """Its container is started at a time, and ends after a while."""
    live = Live(generation=1, container_id="c1", started_at=now)
    record = attempts.container_started(attempts.step_begun(record, Phase.START, now), live, now)
    assert (record.state, record.live) == ("Running", live)
    ended_at = now + ran_for
    seen = Observation(
        container_id="c1",
        generation=1,
        state=ContainerState.EXITED,
        exit=LastExit(code=1, at=ended_at),
        started_at=now,
        seen_at=ended_at,
    )
    return sightings.observed(record, seen, ended_at)


def test_two_hundred_crashes_and_a_long_run() -> None:
    """The waits grow to the cap and never beyond; a run longer than resetAfter begins the curve again (case R1)."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    settings = RestartBackoff()
    wanted = spec(restart_backoff=settings)
    record = wishes.born("edge-1", "web", "incarnation-1", now)
    record = wishes.applied(record, ApplyRequest(apply_id="a", spec=wanted), now)
    waits = []
    for _ in range(200):
        record = crashed(record, now, timedelta(milliseconds=50))
        assert record.resume_at is not None
        waits.append(record.resume_at - (now + timedelta(milliseconds=50)))
        now = record.resume_at
    assert all(settings.initial <= wait <= settings.maximum == CAP for wait in waits)
    assert max(waits[:3]) < timedelta(seconds=30)
    assert max(waits) == CAP
    assert sum(waits[100:], timedelta(0)) / 100 > timedelta(seconds=100), "it stays slow"
    assert all(later <= max(3 * sooner, settings.initial) for sooner, later in pairwise(waits))
    record = crashed(record, now, settings.reset_after)
    assert (record.crashes, record.resume_at) == (1, None), "the first end of a settled run is answered at once"
    record = crashed(record, now, timedelta(milliseconds=50))
    assert record.resume_at is not None
    assert record.resume_at - now < timedelta(seconds=15)
    assert (record.restarts, record.last_exit and record.last_exit.code) == (202, 1)


async def test_an_error_keeps_its_first_time_and_its_count(short_runs: Fleet, engine: FakeEngine) -> None:
    """However often its settings change and the workflow goes on in a new run while it fails (case U1)."""
    fleet = short_runs
    engine.pull_faults[""] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    await fleet.apply("web", spec())
    first = error = await told_after(fleet, attempt=0)
    for number in range(60):
        await fleet.send("web", spec(tags={"number": str(number)}))
        if number % 10 == 0:
            known = error
            await fleet.retry("web")
            error = await told_after(fleet, known.attempt)
            assert error.first_at == first.first_at
            assert error.count > known.count
    await fleet.that_run_is_at_least("web", 3)
    assert error.count <= len(engine.pulls) + 1, "a try that a retry called off before it began may be counted"


async def told_after(fleet: Fleet, attempt: int) -> LastError:
    """The error of a later try, once it is told."""

    async def look() -> LastError | None:
        error = (await fleet.status("web")).last_error
        return error if error is not None and error.attempt > attempt else None

    error = await eventually_async(look, within=15)
    assert error is not None
    return error
