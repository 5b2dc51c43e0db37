# SPDX-License-Identifier: Apache-2.0
"""Workloads that wait for others before their first start."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from activities.dependencies import Pace
from perdure.model.faults import FaultKind
from perdure.model.host import HostChange
from perdure.model.messages import Outcome
from perdure.model.workload import DependencyCondition, PullPolicy, RestartPolicy, Retry, WorkloadSpec
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.workflow.fleet import Fleet, fleet_of, host_workers, spec

WAITING = "Pending/WaitingForDependencies"


def after(depends_on: dict[str, str], image: str = "reg/app:1", **settings: Any) -> WorkloadSpec:
    """A workload that depends on others, by name on the same host or by HOST/NAME."""
    labels = {label if "/" in label else f"edge-1/{label}": DependencyCondition(it) for label, it in depends_on.items()}
    return spec(image, depends_on=labels, **settings)


def once(image: str, **settings: Any) -> WorkloadSpec:
    """A workload that runs to its end, and stays so."""
    return spec(image, restart=RestartPolicy.NEVER, **settings)


async def test_init_then_storage_then_logger(fleet: Fleet, engine: FakeEngine) -> None:
    """Each is pulled and started when the one before is as far as wanted; the notifier never is (case N2)."""
    await fleet.send("logger", after({"storage": "running"}, "reg/logger:1"))
    await fleet.send("notifier", after({"storage": "failed"}, "reg/notifier:1"))
    await fleet.send("storage", after({"init": "succeeded"}, "reg/storage:1"))
    await fleet.send("init", once("reg/init:1"))
    await fleet.until("init", "Running/Ok")
    await fleet.until("storage", WAITING)
    await fleet.that_it_waits_for("storage", "edge-1/init is Running/Ok, wanted: succeeded")
    assert engine.pulls == ["reg/init:1"]
    await fleet.container_ended("init", 0)
    await fleet.until("logger", "Running/Ok")
    assert engine.pulls == ["reg/init:1", "reg/storage:1", "reg/logger:1"]
    await fleet.that_it_waits_for("notifier", "edge-1/storage is Running/Ok, wanted: failed")
    status = await fleet.status("logger")
    assert [f"{step.substate}" for step in status.history] == [
        "WaitingForDependencies",
        "Starting",
        "Pulling",
        "Starting",
        "Ok",
    ]
    assert status.waiting_on == ()


async def test_an_apply_is_answered_while_it_waits(fleet: Fleet, engine: FakeEngine) -> None:
    """Nobody is kept until a timeout; the answer says for what it waits, and a repeated apply is told the same."""
    web = after({"db": "running", "edge-2/cache": "healthy"})
    outcome = await fleet.apply("web", web)
    assert outcome.outcome is Outcome.WAITING
    assert outcome.message == (
        "edge-1/db does not exist yet, wanted: running; edge-2/cache does not exist yet, wanted: healthy"
    )
    assert (await fleet.apply("web", web)).outcome is Outcome.WAITING
    assert not engine.starts


async def test_a_dependency_that_comes_later(fleet: Fleet, engine: FakeEngine) -> None:
    """On another host, too: what is there is looked at, wherever it is."""
    await fleet.send("web", after({"edge-2/db": "running"}))
    await fleet.that_it_waits_for("web", "edge-2/db does not exist yet, wanted: running")
    async with host_workers(fleet, "edge-2"):
        engine.pull_faults["reg/db:1"] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
        await fleet.send("db", spec("reg/db:1"), host="edge-2")
        await fleet.that_it_waits_for("web", "edge-2/db is Pending/PullBackoff, wanted: running")
        engine.pull_faults.clear()
        await fleet.until("web", "Running/Ok")
    assert engine.pulls.index("reg/app:1") == len(engine.pulls) - 1


async def test_a_dependency_that_is_removed_meanwhile(fleet: Fleet, engine: FakeEngine) -> None:
    """It is waited for again, as if it had never been there; what runs already stays."""
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.apply("first", after({"db": "running"}, "reg/first:1"))
    await fleet.send("second", after({"db": "failed"}, "reg/second:1"))
    await fleet.that_it_waits_for("second", "edge-1/db is Running/Ok, wanted: failed")
    await fleet.signal("db", names.REMOVE)
    await fleet.that_it_waits_for("second", "edge-1/db does not exist yet, wanted: failed")
    await fleet.until("first", "Running/Ok")
    await fleet.send("db", spec("reg/db:1", restart=RestartPolicy.NEVER))
    await fleet.until("db", "Running/Ok")
    await fleet.container_ended("db", 1)
    await fleet.until("second", "Running/Ok")


async def test_a_parked_dependency_has_failed(fleet: Fleet, engine: FakeEngine) -> None:
    """Whatever its reason: an image that can never be, a limit that passed, an exit that no policy answers."""
    engine.pull_faults["reg/bad:1"] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await fleet.send("bad", spec("reg/bad:1", retry=Retry(give_up_after=timedelta(seconds=5))))
    await fleet.send("alarm", after({"bad": "failed"}))
    await fleet.until("alarm", "Running/Ok", within=30)


async def test_a_lost_host_is_no_place_to_depend_on(fleet: Fleet) -> None:
    """Nobody knows what its workloads do, so what they were doing last counts for nothing."""
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.signal("db", names.HOST_CHANGED, HostChange(lost=True, reason="a test"))
    await fleet.until("db", "Unknown/HostLost")
    await fleet.send("web", after({"db": "running"}))
    await fleet.that_it_waits_for("web", "edge-1/db is Unknown/HostLost, wanted: running")
    await fleet.signal("db", names.HOST_CHANGED, HostChange(lost=False))
    await fleet.until("web", "Running/Ok")


async def test_what_ran_once_never_waits_again(fleet: Fleet, engine: FakeEngine) -> None:
    """Not after a crash, a pause or a retry; a new generation does."""
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.apply("web", after({"db": "running"}))
    await fleet.signal("db", names.REMOVE)
    await fleet.handle("db").result()
    await fleet.container_ended("web", 1)
    await fleet.that(lambda: len(engine.running("web")) == 1, "it was restarted")
    await fleet.until("web", "Running/Ok")
    await fleet.signal("web", names.PAUSE)
    await fleet.signal("web", names.RESUME)
    await fleet.until("web", "Running/Ok")
    await fleet.send("web", after({"db": "running"}, "reg/app:2"))
    await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    status = await fleet.status("web")
    assert status.live is not None
    assert status.live.generation == 1, "the old one runs on meanwhile"
    assert engine.running("web")


async def test_superseded_paused_and_removed_while_it_waits(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Each takes effect at once."""
    fleet = real_fleet
    await fleet.send("web", after({"db": "running"}))
    await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    await fleet.signal("web", names.PAUSE)
    await fleet.until("web", "Paused/Ok", within=2)
    await fleet.signal("web", names.RESUME)
    await fleet.until("web", WAITING, within=2)
    outcome = await asyncio.wait_for(fleet.apply("web", spec("reg/app:2")), 5)
    assert (outcome.outcome, outcome.generation) == (Outcome.RUNNING, 2)
    await fleet.send("web", after({"db": "running"}, "reg/app:3"))
    await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    await fleet.signal("web", names.REMOVE)
    assert await asyncio.wait_for(fleet.handle("web").result(), 5) == "removed at generation 3"
    assert engine.starts.count("reg/app:1") == engine.starts.count("reg/app:3") == 0


async def test_other_dependencies_of_the_same_container(real_fleet: Fleet, engine: FakeEngine) -> None:
    """What waits, or fails before its first start, waits for the new ones; what runs is not touched."""
    fleet = real_fleet
    engine.images.add("reg/app:1")
    await fleet.send("web", after({"one": "running"}))
    await fleet.that_it_waits_for("web", "edge-1/one does not exist yet, wanted: running")
    await fleet.send("web", after({"two": "running"}))
    await fleet.that_it_waits_for("web", "edge-1/two does not exist yet, wanted: running")
    outcome = await fleet.apply("web", after({}))
    assert (outcome.outcome, outcome.generation) == (Outcome.RUNNING, 3)
    outcome = await fleet.apply("web", after({"three": "running"}))
    assert (outcome.outcome, outcome.generation) == (Outcome.UPDATED, 4)
    assert len([one for one in engine.mutations if one.workload == "web"]) == 1

    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await fleet.apply("late", spec("reg/late:1"))
    await fleet.send("late", after({"one": "running"}, "reg/late:1"))
    await fleet.that_it_waits_for("late", "edge-1/one does not exist yet, wanted: running")
    engine.pull_faults.clear()
    await fleet.apply("one", spec("reg/one:1"))
    await fleet.until("late", "Running/Ok")


async def test_a_time_limit_counts_from_when_they_are_met(temporal: WorkflowEnvironment, engine: FakeEngine) -> None:
    """Nobody gives up because others are slow."""
    engine.pull_faults["reg/app:1"] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    async with fleet_of(temporal, engine, pace=Pace(linger=timedelta(0))) as fleet:
        await fleet.send("web", after({"db": "running"}, retry=Retry(give_up_after=timedelta(seconds=30))))
        await temporal.sleep(timedelta(minutes=2))
        status = await fleet.until("web", WAITING)
        assert status.give_up_at is None
        await fleet.apply("db", spec("reg/db:1"))
        await temporal.sleep(timedelta(seconds=45))
        await fleet.until("web", "Failed/GaveUp", within=30)
        assert engine.pulls.count("reg/app:1") > 2


async def test_three_days_of_waiting_cost_little_history(temporal: WorkflowEnvironment, engine: FakeEngine) -> None:
    """It is looked for again and again by the server, which writes nothing down; then it runs at once."""
    async with fleet_of(temporal, engine, pace=Pace(slowest=timedelta(minutes=20))) as fleet:
        await fleet.send("web", after({"db": "running"}))
        await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
        for _ in range(36):
            await temporal.sleep(timedelta(hours=2))
        assert await fleet.events("web") < 100
        await fleet.apply("db", spec("reg/db:1"))
        await temporal.sleep(timedelta(minutes=25))
        await fleet.until("web", "Running/Ok")


async def test_a_wait_goes_on_over_runs(short_runs: Fleet, engine: FakeEngine) -> None:
    """Its dependency comes up in a later run of it."""
    fleet = short_runs
    await fleet.send("web", after({"db": "running"}))
    for number in range(60):
        await fleet.send("web", after({"db": "running"}, tags={"number": str(number)}))
    await fleet.that_run_is_at_least("web", 2)
    waiting = await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    assert waiting.generation == 61
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.until("web", "Running/Ok")
    assert engine.starts.count("reg/app:1") == 2, "once without the image, and once with it"


async def test_a_wait_that_somebody_ends_by_hand_goes_on(real_fleet: Fleet) -> None:
    """In the Web UI an activity can be failed or completed by its id; a failed one is begun again."""
    fleet = real_fleet
    await fleet.send("web", after({"db": "running"}))
    await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    pending = fleet.client.get_async_activity_handle(
        workflow_id=names.workload_id("edge-1", "web"), run_id=None, activity_id="dependencies-g1"
    )
    await pending.fail(ApplicationError("by hand", non_retryable=True))
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.until("web", "Running/Ok")


async def test_a_dependency_with_news_of_its_own_is_not_believed_yet(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Both are applied anew: the dependent one waits for the new generation, and is not fooled by what ran before."""
    fleet = real_fleet
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.apply("web", after({"db": "running"}, "reg/web:1"))
    engine.pull_faults["reg/db:2"] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await fleet.send("db", spec("reg/db:2", pull_policy=PullPolicy.ALWAYS))
    await fleet.send("web", after({"db": "running"}, "reg/web:2"))
    await fleet.that_it_waits_for("web", "edge-1/db is Pending/PullBackoff, wanted: running")
    engine.pull_faults.clear()
    await fleet.until("web", "Running/Ok")
    made = [one.workload for one in engine.mutations if one.what == "create"]
    assert made == ["db", "web", "db", "web"]
