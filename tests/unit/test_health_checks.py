# SPDX-License-Identifier: Apache-2.0
"""Who runs healthchecks, how often, and what is told of them; on an engine in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from activities import health
from activities.engine import Managed, Ownership, Probe
from activities.health import HealthChecks, engine_runs_checks
from activities.telling import Told
from perdure.model.faults import FaultKind, Phase
from perdure.model.observation import ContainerState, Health, LastExit, Observation
from perdure.model.workload import ContainerSpec, Healthcheck
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async

FLEET, HOST = "default", "edge-1"
CHECK = Healthcheck(test=("CMD", "true"), interval=timedelta(milliseconds=20), retries=2)
SICK = Probe(healthy=False, detail="exit code 1: no")


class Desk:
    """Takes what workloads are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Health, str]] = []
        self.seen: list[Observation] = []
        self.answer = Told.DELIVERED

    async def observe(self, workload: str, seen: Observation) -> Told:
        """Keep it."""
        self.told.append((workload, seen.health, seen.reason))
        self.seen.append(seen)
        return self.answer

    async def has(self, *told: tuple[str, Health, str]) -> None:
        """Wait until exactly this was told."""

        async def look() -> bool:
            assert self.told == list(told)
            return True

        await eventually_async(look, within=5, what=f"{told} were told")


@pytest.fixture
def engine() -> FakeEngine:
    """With every image."""
    return FakeEngine(images={"reg/app:1"})


@asynccontextmanager
async def checks(engine: FakeEngine, desk: Desk, *, by_engine: bool = False) -> AsyncIterator[HealthChecks]:
    """Health checks under way."""
    found = HealthChecks(engine, FLEET, HOST, desk.observe, by_engine=by_engine)
    async with found.running():
        yield found


async def start(engine: FakeEngine, name: str = "web", check: Healthcheck | None = CHECK) -> Managed:
    """A container that runs, with a healthcheck."""
    if check is not None:
        engine.healthchecks[name] = check
    owner = Ownership(FLEET, HOST, name, "incarnation-1", 1, f"spec-of-{name}", "", "shop")
    live = await engine.ensure_running(name, ContainerSpec(image="reg/app:1"), owner)
    return engine.containers[live.container_id]


def up(found: HealthChecks, container: Managed) -> None:
    """Supervision tells that it is up."""
    found.up(container.owner.workload, container.container_id, container.owner.generation)


async def test_changes_are_told_and_nothing_else(engine: FakeEngine) -> None:
    """Healthy, unhealthy after two failures with the reason, healthy again; each run's check goes on and on."""
    desk = Desk()
    web = await start(engine)
    async with checks(engine, desk) as found:
        up(found, web)
        await desk.has(("web", Health.HEALTHY, ""))
        engine.probes["web"] = SICK
        await desk.has(("web", Health.HEALTHY, ""), ("web", Health.UNHEALTHY, "exit code 1: no"))
        runs = len(engine.checks)
        await that(lambda: len(engine.checks) > runs + 3)
        assert len(desk.told) == 2, "once for each change"
        engine.probes["web"] = Probe(healthy=True)
        await that(lambda: len(desk.told) == 3)
    last = desk.seen[-1]
    assert (last.container_id, last.generation, last.health) == (web.container_id, 1, Health.HEALTHY)
    assert (last.state, last.started_at) == (ContainerState.RUNNING, web.started_at)


async def test_what_is_down_or_has_no_check_is_not_checked(engine: FakeEngine) -> None:
    """Not for ever, at least: a run under way may end."""
    desk = Desk()
    web, plain = await start(engine), await start(engine, "plain", None)
    async with checks(engine, desk) as found:
        up(found, plain)
        up(found, web)
        await desk.has(("web", Health.HEALTHY, ""))
        found.down("web", "another container")
        runs = len(engine.checks)
        await that(lambda: len(engine.checks) > runs)
        found.down("web", web.container_id)
        await asyncio.sleep(0)
        runs = len(engine.checks)
        await asyncio.sleep(5 * CHECK.interval.total_seconds())
        assert len(engine.checks) == runs
    assert "plain" not in engine.checks


async def test_another_run_of_a_container_is_judged_anew(engine: FakeEngine) -> None:
    """Whether its end was noticed or not: what the first one was says nothing about the second one."""
    desk = Desk()
    web = await start(engine, check=CHECK.model_copy(update={"interval": timedelta(milliseconds=300), "retries": 1}))
    engine.probes["web"] = SICK
    sick = ("web", Health.UNHEALTHY, SICK.detail)
    async with checks(engine, desk) as found:
        up(found, web)
        await desk.has(sick)
        again = replace(web, started_at=datetime.now(UTC))
        engine.containers[web.container_id] = again
        up(found, again)
        await desk.has(sick, sick)
    assert [seen.started_at for seen in desk.seen] == [web.started_at, again.started_at]


async def test_what_was_not_delivered_is_told_again(engine: FakeEngine) -> None:
    """Until it is, or the workload is gone."""
    desk = Desk()
    desk.answer = Told.AWAY
    async with checks(engine, desk) as found:
        up(found, await start(engine))
        await that(lambda: len(desk.told) > 2)
        desk.answer = Told.GONE
        count = len(desk.told)
        await that(lambda: len(desk.told) == count + 1)
        runs = len(engine.checks)
        await that(lambda: len(engine.checks) > runs + 3)
        assert len(desk.told) == count + 1


async def test_an_engine_that_does_not_answer_says_nothing_of_health(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither well nor ill; it is logged once, and the checks go on."""
    desk = Desk()
    web = await start(engine)
    async with checks(engine, desk) as found:
        up(found, web)
        await desk.has(("web", Health.HEALTHY, ""))
        engine.probes["web"] = fault(FaultKind.ENGINE_UNREACHABLE, "no socket", phase=Phase.START)
        await that(lambda: "health could not be checked" in caplog.text)
        runs = len(engine.checks)
        await that(lambda: len(engine.checks) > runs + 3)
        assert caplog.text.count("health could not be checked") == 1
        engine.probes["web"] = SICK
        await desk.has(("web", Health.HEALTHY, ""), ("web", Health.UNHEALTHY, SICK.detail))


class Hanging(FakeEngine):
    """Its checks hang, but for those of some workloads."""

    async def check_health(self, container_id: str) -> Probe:
        """Hang."""
        workload = self.containers[container_id].owner.workload
        self.checks.append(workload)
        if workload.startswith("hung"):
            await asyncio.Event().wait()
        return Probe(healthy=True)


async def test_checks_that_hang_do_not_overlap_and_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are slots."""
    monkeypatch.setattr(health, "SLOT_LIMIT", timedelta(milliseconds=50))
    engine, desk = Hanging(images={"reg/app:1"}), Desk()
    async with checks(engine, desk) as found:
        for number in range(2 * health.SLOTS):
            up(found, await start(engine, f"hung{number}"))
        await that(lambda: len(engine.checks) == 2 * health.SLOTS)
        up(found, await start(engine, "web"))
        await desk.has(("web", Health.HEALTHY, ""))
    assert sorted(check for check in engine.checks if check != "web") == sorted(
        f"hung{number}" for number in range(2 * health.SLOTS)
    )


async def test_a_fault_of_our_own_ends_no_checks(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An image may say of its check what nobody has thought of."""
    monkeypatch.setattr(health, "TROUBLE_WAIT", timedelta(milliseconds=10))
    asked = engine.healthcheck_of

    async def odd(container_id: str) -> Healthcheck | None:
        monkeypatch.setattr(engine, "healthcheck_of", asked)
        raise LookupError("whatever this may mean")

    monkeypatch.setattr(engine, "healthcheck_of", odd)
    desk = Desk()
    web = await start(engine)
    async with checks(engine, desk) as found:
        up(found, web)
        await desk.has(("web", Health.HEALTHY, ""))
    assert "a fault of Perdure itself" in caplog.text


async def test_those_that_have_run_for_long_are_spread(engine: FakeEngine) -> None:
    """A worker that finds them running at its start does not check all at once, nor waits longer than an interval."""
    check = CHECK.model_copy(update={"interval": timedelta(seconds=2)})
    desk = Desk()
    async with checks(engine, desk) as found:
        for number in range(20):
            web = await start(engine, f"web{number}", check)
            web = replace(web, started_at=datetime.now(UTC) - timedelta(hours=1))
            engine.containers[web.container_id] = web
            up(found, web)
        await that(lambda: len(desk.told) == 20)
    moments = [seen.seen_at for seen in desk.seen]
    assert max(moments) - min(moments) > check.interval / 4


async def test_where_podman_runs_the_checks_only_their_results_are_read(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all containers by one look, and none where no container has a check."""
    monkeypatch.setattr(health, "LOOK_EVERY", timedelta(milliseconds=20))
    desk = Desk()
    web, plain = await start(engine), await start(engine, "plain", None)
    async with checks(engine, desk, by_engine=True) as found:
        up(found, plain)
        up(found, web)
        engine.containers[web.container_id] = replace(web, health=Health.STARTING)
        for number, now in enumerate((Health.HEALTHY, Health.UNHEALTHY), start=1):
            engine.containers[web.container_id] = replace(web, health=now)
            await that(partial(told, desk, number))
        ended = replace(web, state=ContainerState.EXITED, exit=LastExit(code=0), health=Health.HEALTHY)
        engine.containers[web.container_id] = ended
        await asyncio.sleep(0.1)
    assert desk.told == [("web", Health.HEALTHY, ""), ("web", Health.UNHEALTHY, "")]
    assert engine.checks == []


def test_who_runs_the_checks_is_seen_by_how_the_machine_was_booted(tmp_path: Path) -> None:
    """As systemd itself documents it."""
    assert engine_runs_checks(tmp_path)
    assert not engine_runs_checks(tmp_path / "system")


async def that(claim: Callable[[], bool]) -> None:
    """Wait until a claim holds."""

    async def look() -> bool:
        return claim()

    await eventually_async(look, within=5)


def told(desk: Desk, number: int) -> bool:
    """Whether so much was told."""
    return len(desk.told) == number
