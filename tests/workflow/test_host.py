# SPDX-License-Identifier: Apache-2.0
"""A host that is away, busy, or shut down in the middle of its work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.model.faults import FaultKind
from perdure.model.messages import Outcome
from perdure.model.workload import PullPolicy
from tests.fakes.engine import FakeEngine, fault
from tests.workflow.conftest import terminate_all
from tests.workflow.fleet import Fleet, fleet_of, host_workers, spec


async def test_no_worker_for_the_host_is_told_in_ten_seconds(temporal: WorkflowEnvironment, engine: FakeEngine) -> None:
    """With the time of its last sign of life; and when it comes the work is done at once (case C10)."""
    async with fleet_of(temporal, engine, host=False) as fleet:
        fleet.host_up, fleet.host_seen_at = False, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        apply_id = await fleet.send("web", spec())
        await temporal.sleep(timedelta(seconds=12))
        outcome = await fleet.first_attempt("web", apply_id)
        assert outcome.outcome is Outcome.NO_WORKER
        assert outcome.message == "no worker for host edge-1, last seen 2026-01-02 03:04:05 UTC"
        status = await fleet.until("web", "Pending/WaitingForHost")
        assert status.host_seen_at == fleet.host_seen_at
        events = await fleet.events("web")
        await temporal.sleep(timedelta(seconds=15))
        assert await fleet.events("web") == events, "waiting for a host costs nothing"
        async with host_workers(fleet):
            await fleet.until("web", "Running/Ok")


async def test_a_host_that_is_busy_is_told_apart_from_one_that_is_away(
    temporal: WorkflowEnvironment, engine: FakeEngine
) -> None:
    """Its worker answers, and has not come to the work: Queued."""
    async with fleet_of(temporal, engine, host=False) as fleet:
        await fleet.send("web", spec())
        await temporal.sleep(timedelta(seconds=12))
        await fleet.until("web", "Pending/Queued")
        async with host_workers(fleet):
            await fleet.until("web", "Running/Ok")


async def test_work_that_is_taken_up_late_is_shown_as_under_way(dev_client: Client, engine: FakeEngine) -> None:
    """A host that comes back and begins a long pull is no longer waited for."""
    engine.hanging_pulls.add("reg/app:1")
    async with fleet_of(WorkflowEnvironment.from_client(dev_client), engine, host=False) as fleet:
        fleet.host_up = False
        await fleet.send("web", spec(pull_policy=PullPolicy.ALWAYS))
        await fleet.until("web", "Pending/WaitingForHost")
        async with host_workers(fleet):
            await fleet.until("web", "Pending/Pulling")
    await terminate_all(dev_client)


async def test_a_shutdown_of_the_worker_burns_no_try(dev_client: Client, engine: FakeEngine) -> None:
    """A pull gives itself back at once; under the next worker it is the same try again, and no error is told."""
    engine.hanging_pulls.add("reg/app:1")
    async with fleet_of(WorkflowEnvironment.from_client(dev_client), engine, host=False) as fleet:
        for number in range(3):
            async with host_workers(fleet):
                if number == 0:
                    await fleet.send("web", spec())
                await fleet.that(partial(_has_pulled, engine, number + 1), "it is being pulled")
            assert len(engine.cancelled) == number + 1
        engine.hanging_pulls.clear()
        engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
        async with host_workers(fleet):
            status = await fleet.until("web", "Pending/PullBackoff")
            assert status.attempt <= 2
            assert status.last_error is not None
            assert status.last_error.kind is FaultKind.REGISTRY_UNREACHABLE
            engine.pull_faults.clear()
            await fleet.until("web", "Running/Ok")
    await terminate_all(dev_client)


def _has_pulled(engine: FakeEngine, times: int) -> bool:
    return len(engine.pulls) >= times


async def test_a_late_attempt_of_an_older_life_is_refused(real_fleet: Fleet, engine: FakeEngine) -> None:
    """A workflow that was terminated in the Web UI may have left an attempt behind: it must not replace its successor."""
    engine.images |= {"reg/app:1", "reg/app:2"}
    engine.hanging_starts.add("reg/app:1")
    await real_fleet.send("web", spec("reg/app:1"))
    await real_fleet.that(lambda: bool(engine.starts), "v1 is being started")
    await real_fleet.handle("web").terminate()
    outcome = await asyncio.wait_for(real_fleet.apply("web", spec("reg/app:2")), 20)
    assert outcome.outcome is Outcome.RUNNING
    assert [one.owner.spec_hash for one in engine.running("web")]
    engine.hanging_starts.clear()
    status = await real_fleet.until("web", "Running/Ok")
    assert {one.owner.incarnation for one in engine.running("web")} == {status.incarnation}
