# SPDX-License-Identifier: Apache-2.0
"""The lives whose histories are kept: each goes through one part of the workflow's code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from perdure.model.faults import FaultClass, FaultKind, Phase
from perdure.model.host import HostChange, HostState
from perdure.model.observation import ContainerState, Health, Observation
from perdure.model.workload import DependencyCondition, RestartPolicy, Retry
from perdure.wire import names
from tests.fakes.engine import FakeEngine, fault
from tests.workflow.fleet import HOST, Fleet, spec

Scenario = Callable[[Fleet, FakeEngine], Awaitable[None]]


async def runs_and_is_removed(fleet: Fleet, engine: FakeEngine) -> None:
    """Pull, start, run, remove."""
    await fleet.apply("web", spec())
    await fleet.signal("web", names.REMOVE)
    await fleet.handle("web").result()


async def fails_and_heals(fleet: Fleet, engine: FakeEngine) -> None:
    """Pull backoff, another error, retry, start backoff, running."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await fleet.apply("web", spec())
    engine.pull_faults[""] = fault(FaultKind.UNAUTHORIZED, "unauthorized")
    await fleet.retry("web", attempt=1)
    await fleet.that(lambda: len(engine.pulls) > 2, "it is tried again")
    engine.start_faults[""] = fault(FaultKind.PORT_IN_USE, "address already in use", phase=Phase.START)
    engine.pull_faults.clear()
    await fleet.retry("web")
    await fleet.until("web", "Pending/StartBackoff")
    engine.start_faults.clear()
    await fleet.retry("web")
    await fleet.until("web", "Running/Ok")


async def is_superseded_everywhere(fleet: Fleet, engine: FakeEngine) -> None:
    """In a hanging pull, in backoff, while parked, while running; settings, stale and conflicting applies."""
    engine.hanging_pulls.add("reg/app:1")
    await fleet.send("web", spec("reg/app:1"), revision=1)
    await fleet.that(lambda: bool(engine.pulls), "it is being pulled")
    engine.pull_faults["reg/app:2"] = fault(FaultKind.IMAGE_NOT_FOUND, "manifest unknown")
    await fleet.apply("web", spec("reg/app:2"), revision=2)
    engine.images.add("reg/app:3")
    engine.start_faults["reg/app:3"] = fault(
        FaultKind.INVALID_OPTION, "no", phase=Phase.START, fault_class=FaultClass.PERMANENT
    )
    await fleet.apply("web", spec("reg/app:3"), revision=3)
    await fleet.apply("web", spec("reg/app:4"), revision=4)
    await fleet.apply("web", spec("reg/app:4", tags={"a": "b"}), revision=5)
    await fleet.apply("web", spec("reg/app:1"), revision=1)
    await fleet.apply("web", spec("reg/app:1"), expect_generation=1)
    await fleet.apply("web", spec("reg/app:5"))


async def crashes_and_is_paused(fleet: Fleet, engine: FakeEngine) -> None:
    """Ends, restarts, a restart backoff, pause and resume, success, removal by cancel and rebirth."""
    await fleet.apply("web", spec())
    await fleet.container_ended("web", 1)
    await fleet.that(lambda: bool(engine.running("web")), "it was started again")
    await fleet.until("web", "Running/Ok")
    await fleet.container_vanished("web")
    await fleet.that(lambda: bool(engine.running("web")), "it was made again")
    await fleet.until("web", "Running/Ok")
    await fleet.signal("web", names.PAUSE)
    await fleet.until("web", "Paused/Ok")
    await fleet.signal("web", names.RESUME)
    await fleet.apply("web", spec(restart=RestartPolicy.ON_FAILURE))
    await fleet.container_ended("web", 0)
    await fleet.until("web", "Succeeded/Ok")
    engine.stop_seconds = 0.5
    await fleet.handle("web").cancel()
    await fleet.until("web", "Stopping/Stopping")
    await fleet.apply("web", spec("reg/app:2"))


async def gives_up(fleet: Fleet, engine: FakeEngine) -> None:
    """The time limit passes, and retry wakes it."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await fleet.apply("web", spec(retry=Retry(give_up_after=timedelta(seconds=6))))
    await fleet.until("web", "Failed/GaveUp")
    engine.pull_faults.clear()
    await fleet.retry("web")
    await fleet.until("web", "Running/Ok")


async def waits_for_another(fleet: Fleet, engine: FakeEngine) -> None:
    """Dependencies that are not met, that change, and that are met."""
    await fleet.send("web", spec(depends_on={"edge-1/db": DependencyCondition.RUNNING}))
    await fleet.that_it_waits_for("web", "edge-1/db does not exist yet, wanted: running")
    await fleet.signal("web", names.PAUSE)
    await fleet.until("web", "Paused/Ok")
    await fleet.signal("web", names.RESUME)
    await fleet.apply("db", spec("reg/db:1"))
    await fleet.until("web", "Running/Ok")


async def is_unhealthy(fleet: Fleet, engine: FakeEngine) -> None:
    """A restart of what runs and does no work."""
    await fleet.apply("web", spec(restart_unhealthy=True))
    status = await fleet.status("web")
    assert status.live is not None
    seen = Observation(
        container_id=status.live.container_id,
        generation=1,
        state=ContainerState.RUNNING,
        health=Health.UNHEALTHY,
        seen_at=datetime.now(UTC),
    )
    await fleet.signal("web", names.OBSERVE, seen)
    await fleet.that(lambda: len(engine.starts) > 1, "it was restarted")
    await fleet.until("web", "Running/Ok")


async def loses_its_host(fleet: Fleet, engine: FakeEngine) -> None:
    """While it runs and while it is applied; back by the host's workflow and by a word of its own; abandoned."""
    engine.images |= {"reg/app:1", "reg/app:2"}
    await fleet.apply("web", spec("reg/app:1"))
    await fleet.signal("web", names.HOST_CHANGED, HostChange(lost=True))
    await fleet.until("web", "Unknown/HostLost")
    await fleet.signal("web", names.HOST_CHANGED, HostChange(lost=False))
    await fleet.until("web", "Running/Ok")
    await fleet.signal("web", names.HOST_CHANGED, HostChange(lost=True))
    await fleet.apply("web", spec("reg/app:2"))
    await fleet.until("web", "Running/Ok")
    engine.hanging_starts.add("reg/app:1")
    await fleet.send("web", spec("reg/app:1"))
    await fleet.that(lambda: len(engine.starts) > 2, "it is being started")
    await fleet.signal("web", names.ABANDON)
    await fleet.handle("web").result()


async def host_is_lost_and_found(fleet: Fleet, engine: FakeEngine) -> None:
    """A worker that is replaced, falls silent and answers again; resyncs with and without an answer."""
    attendance = fleet.attendance
    await attendance.start(1)
    await fleet.until_host(HostState.READY)
    await attendance.start(2)
    await fleet.host_handle().execute_update(names.RESYNC)
    attendance.silent = True
    await fleet.until_host(HostState.LOST, within=40)
    attendance.silent = False
    await fleet.until_host(HostState.READY, within=20)


async def host_is_forgotten(fleet: Fleet, engine: FakeEngine) -> None:
    """Asked for while it answers; done once its worker is silent."""
    await fleet.attendance.start()
    await fleet.until_host(HostState.READY)
    await fleet.host_handle().cancel()
    fleet.attendance.silent = True
    await fleet.host_handle().result()


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        runs_and_is_removed,
        fails_and_heals,
        is_superseded_everywhere,
        crashes_and_is_paused,
        gives_up,
        waits_for_another,
        is_unhealthy,
        loses_its_host,
        host_is_lost_and_found,
        host_is_forgotten,
    )
}


def subject(scenario: str) -> str:
    """The id of the workflow whose history is kept: a host's or that of workload ``web``."""
    return names.host_id(HOST) if scenario.startswith("host_") else names.workload_id(HOST, "web")
