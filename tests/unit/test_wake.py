# SPDX-License-Identifier: Apache-2.0
"""Who is woken when a registry is back, and what an outage costs, in time that leaps."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median

import pytest

from activities.causes import Cause, CauseKind, cause_of
from activities.outages import FORGOTTEN_AFTER
from activities.recovery import Known
from activities.telling import Told
from perdure.model.faults import FaultKind, LastError, Phase
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.model.workload import Retry
from tests.fakes.engine import fault
from tests.fakes.waiting_host import REGISTRY, WaitingHost, now
from tests.support.leaping_loop import leaping

TEN = [f"web-{number}" for number in range(10)]
CROWD = [f"web-{number}" for number in range(500)]
CAP = 300.0
HOUR = 3600.0


async def outage(host: WaitingHost, seconds: float, workloads: list[str]) -> float:
    """The registry is away from before the apply on, for so long; returns when it is back."""
    host.registry.go()
    host.apply(*workloads)
    await asyncio.sleep(seconds)
    host.registry.come()
    return now()


def test_an_outage_of_a_minute() -> None:
    """Ten workloads run within three seconds in the middle, and none makes more than eight tries, most of them without a pull."""
    middles = []

    async def story(seconds: float) -> None:
        async with WaitingHost() as host:
            back = await outage(host, seconds, TEN)
            tries = [host.attempts(workload) for workload in TEN]
            assert max(tries) <= 8, tries
            real = [one for one in host.tries if one.is_real]
            assert len(real) <= len(TEN) + 3, "each one's first, and one in half a minute"
            await host.all_run(*TEN)
            took = sorted(since - back for since in host.running_since.values())
            middles.append(median(took))
            assert took[-1] <= 6
            assert all(0.5 <= one.wait <= CAP for one in host.tries if one.fault is not None)

    for tenth in range(20):  # whenever in the time between two looks it is back
        leaping(story(60 + tenth / 10))
    assert median(middles) <= 2.5
    assert max(middles) <= 3.5


def test_an_outage_of_two_hours() -> None:
    """All run within ten seconds, though they wait at the cap by then; looks stay a few seconds apart."""

    async def story() -> None:
        async with WaitingHost() as host:
            back = await outage(host, 2 * HOUR, TEN)
            await host.all_run(*TEN)
            assert max(host.running_since.values()) - back <= 10
            gaps = [later - sooner for sooner, later in pairwise(host.registry.looks)]
            assert max(gaps) <= 6.1
            assert min(gaps) >= 1
            assert len(host.registry.looks) <= 2 * HOUR / 3

    leaping(story())


def test_l8_five_hundred_at_the_cap() -> None:
    """All run within 330 s, and no ten seconds have more than three times the mean: they are woken evenly."""

    async def story() -> None:
        async with WaitingHost() as host:
            back = await outage(host, HOUR / 2, CROWD)
            await host.all_run(*CROWD)
            since = [moment - back for moment in host.running_since.values()]
            assert max(since) <= 330
            windows = Counter(int(moment // 10) for moment in since)
            mean = len(CROWD) / (max(windows) + 1)
            assert max(windows.values()) <= 3 * mean
            seconds = Counter(int(moment) for moment, _, _ in host.woken)
            assert max(seconds.values()) <= 3 * len(host.woken) / len(seconds)
            assert [count for _, count in Counter(name for _, name, _ in host.woken).items()] == [1] * len(host.woken)

    leaping(story())


def test_without_looking_all_converge_within_the_cap() -> None:
    """The curve is the floor."""

    async def story() -> None:
        async with WaitingHost(wakes=False) as host:
            back = await outage(host, HOUR / 2, CROWD[:200])
            await host.all_run(*CROWD[:200])
            assert max(host.running_since.values()) - back <= CAP + 5

    leaping(story())


def test_a_wake_goes_on_with_the_curve() -> None:
    """It carries the number of the try and the generation, and says why."""

    async def story() -> None:
        async with WaitingHost() as host:
            await outage(host, 60, ["web"])
            tries = host.attempts("web")
            await host.all_run("web")
            ((_, _, request),) = host.woken
            assert (request.attempt, request.generation) == (tries, 1)
            assert request.reason == f"registry {REGISTRY} answers again"

    leaping(story())


def test_what_was_never_seen_to_be_away_wakes_nobody() -> None:
    """The registry answers, and an image cannot be had: the curve alone holds."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.broken.add("web")
            host.apply("web")
            await asyncio.sleep(HOUR)
            assert host.woken == []
            assert all(one.is_real for one in host.tries)

    leaping(story())


def test_a_registry_that_answers_and_does_not_serve_makes_no_storm() -> None:
    """Those who go on failing are woken ever more rarely, and some times at most; the others are not held up by that."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.broken.update(TEN[:5])
            back = await outage(host, 60, TEN)
            await host.all_run(*TEN[5:])
            assert max(host.running_since.values()) - back <= 8
            await asyncio.sleep(HOUR)
            for workload in TEN[:5]:
                at = [moment for moment, name, _ in host.woken if name == workload]
                assert 2 <= len(at) <= 6
                assert all(later - sooner >= 4 for sooner, later in pairwise(at))
            host.broken.clear()
            await host.all_run(*TEN)
            assert max(host.running_since.values()) <= back + HOUR + CAP + 20

    leaping(story())


def test_a_registry_that_flaps_makes_no_storm() -> None:
    """Each time it answers it fails the pulls, and is away again: an hour of that costs a wake in some minutes at the end."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.broken.add("web")
            host.registry.go()
            host.apply("web")
            for _ in range(180):
                await asyncio.sleep(10)
                host.registry.come()
                await asyncio.sleep(10)
                host.registry.go()
            assert 6 <= len(host.woken) <= 22
            assert all(later - sooner >= 4 for (sooner, *_), (later, *_) in pairwise(host.woken))

    leaping(story())


def test_what_podman_reaches_by_another_way_is_pulled() -> None:
    """We see it away for ever, Podman has a mirror: a real pull goes out at times, and after its success nobody is held up."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.registry.go()
            host.apply(*TEN)
            await asyncio.sleep(HOUR)
            host.registry.fails = None  # the mirror is back; what we see stays as it is
            await host.all_run(*TEN)
            assert max(host.running_since.values()) <= now()
            assert host.woken == []
            host.apply("late")
            await host.all_run("late")
            assert host.attempts("late") == 1

    leaping(story())


def test_a_try_that_a_person_asks_for_is_made() -> None:
    """Though the registry is known to be away; it does not begin the curve again."""

    async def story() -> None:
        async with WaitingHost() as host:
            await outage(host, 0, [])
            host.registry.go()
            host.apply("web")
            await asyncio.sleep(12)
            before = host.attempts("web")
            host.ask("web")
            await asyncio.sleep(0.1)
            assert host.attempts("web") == before + 1
            assert host.tries[-1].is_real

    leaping(story())


def test_a_fresh_workload_is_told_at_once() -> None:
    """Its first try fails without a pull by what is known for sure, and the text says so."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.registry.go()
            host.apply("old")
            await asyncio.sleep(10)
            looks = len(host.registry.looks)
            host.apply("fresh")
            await asyncio.sleep(0.1)
            made = host.tries[-1]
            assert (made.workload, made.is_real) == ("fresh", False)
            assert made.fault is not None
            assert made.fault.kind is FaultKind.REGISTRY_UNREACHABLE
            assert (
                f"{REGISTRY} does not answer (connection refused); it is asked every few seconds" in made.fault.message
            )
            assert made.fault.hint.endswith("and the pull follows as soon as it answers")
            assert len(host.registry.looks) <= looks + 1

    leaping(story())


def test_the_first_try_after_the_recovery_is_real() -> None:
    """A fresh workload that comes before we had time to look is not refused by what was known."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.registry.go()
            host.apply("old")
            await asyncio.sleep(9.5)
            host.registry.come()
            await asyncio.sleep(1.01)
            host.apply("fresh")
            await host.all_run("fresh")
            assert host.attempts("fresh") == 1

    leaping(story())


def test_an_outage_is_told_in_one_text() -> None:
    """Known failures repeat the real one's text while the cause is the same: each other text would cost a report."""

    async def story() -> None:
        async with WaitingHost() as host:
            await outage(host, 2 * HOUR, ["web"])
            assert len({one.fault.message for one in host.tries if one.fault is not None}) == 1
            assert any(not one.is_real for one in host.tries)

    leaping(story())


def test_a_cause_that_changes_is_told() -> None:
    """First refused, then cut off: the known failure says so without a real pull."""

    async def story() -> None:
        async with WaitingHost(retry=Retry(maximum_interval=timedelta(seconds=2))) as host:
            host.registry.go()
            host.apply("web")
            await asyncio.sleep(10)
            host.registry.go(why="EOF")
            await asyncio.sleep(6)
            told = host.tries[-1].fault
            assert told is not None
            assert "EOF" in told.message

    leaping(story())


def test_nobody_looks_when_nobody_waits() -> None:
    """Not once more after the removal of the last one who waited."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.registry.go()
            host.apply("web")
            await asyncio.sleep(30)
            assert host.wake is not None
            host.wake.began(host.ticket("web"), Phase.STOP)
            looks = len(host.registry.looks)
            host._tasks[0].cancel()
            await asyncio.sleep(60)
            assert len(host.registry.looks) == looks

    leaping(story())


def test_one_who_is_not_heard_of_waits_no_more() -> None:
    """Paused, or superseded while it waited: the server called its try off without a word to its host."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.registry.go()
            host.apply("web")
            await asyncio.sleep(30)
            host._tasks[0].cancel()
            await asyncio.sleep(16 + FORGOTTEN_AFTER.total_seconds() + 6)
            looks = len(host.registry.looks)
            await asyncio.sleep(60)
            assert len(host.registry.looks) == looks

    leaping(story())


def test_while_temporal_is_away_nobody_counts_as_woken() -> None:
    """They are woken when it is back."""

    async def story() -> None:
        async with WaitingHost() as host:
            host.temporal = Told.AWAY
            await outage(host, 60, TEN)
            await asyncio.sleep(5)
            host.temporal = Told.DELIVERED
            back = now()
            await host.all_run(*TEN)
            assert max(host.running_since.values()) - back <= 13

    leaping(story())


def status(name: str, kind: FaultKind, message: str = "connection refused", **other: object) -> Known:
    """What the memo of a workload says that fails."""
    at = datetime.now(UTC)
    phase = Phase.PULL if kind is not FaultKind.MOUNT_SOURCE_MISSING else Phase.START
    raised = fault(kind, message, phase=phase).fault
    error = LastError(**dict(raised), attempt=3, generation=1, first_at=at, last_at=at)
    known = {"state": State.PENDING, "substate": Substate.PULL_BACKOFF, "attempt": 3, "generation": 1, **other}
    found = WorkloadStatus(
        host="edge-1",
        name=name,
        image=f"{REGISTRY}/{name}:1",
        since=at,
        last_error=error,
        **known,  # type: ignore[arg-type]
    )
    return Known(f"workload/edge-1/{name}", "run", found)


def test_a_worker_that_starts_learns_who_waits() -> None:
    """By the list of its workloads: they are woken when the registry is back, also where that was while no worker was there."""

    async def story() -> None:
        async with WaitingHost() as host:
            assert host.wake is not None
            host._asked = {name: asyncio.Event() for name in ("web", "lost", "up", "paused", "other")}
            found = [
                status("web", FaultKind.REGISTRY_UNREACHABLE),
                status("lost", FaultKind.PULL_STALLED, state=State.UNKNOWN, substate=Substate.HOST_LOST),
                status("up", FaultKind.REGISTRY_UNREACHABLE, state=State.RUNNING, substate=Substate.OK, attempt=0),
                status("paused", FaultKind.REGISTRY_UNREACHABLE, state=State.PAUSED, substate=Substate.OK),
                status("other", FaultKind.IMAGE_NOT_FOUND),
            ]
            host.wake.learn({known.status.name: known for known in found})
            await asyncio.sleep(2)
            assert [name for _, name, _ in host.woken] == ["web", "lost"]
            host.woken.clear()
            host.registry.go()
            host.wake.learn({known.status.name: known for known in found})
            await asyncio.sleep(20)
            assert host.woken == []

    leaping(story())


@pytest.mark.parametrize(
    ("kind", "message", "cause"),
    [
        (FaultKind.REGISTRY_ERROR, "503", Cause(CauseKind.REGISTRY, REGISTRY)),
        (FaultKind.REGISTRY_NAME_NOT_RESOLVED, "no such host", Cause(CauseKind.REGISTRY, REGISTRY)),
        (FaultKind.PULL_STALLED, "silent", Cause(CauseKind.REGISTRY, REGISTRY)),
        (FaultKind.RATE_LIMITED, "429", None),
        (FaultKind.IMAGE_NOT_FOUND, "404", None),
        (FaultKind.UNAUTHORIZED, "401", None),
        (FaultKind.ENGINE_UNREACHABLE, "no such file", Cause(CauseKind.ENGINE)),
        (
            FaultKind.MOUNT_SOURCE_MISSING,
            "cannot create container web: statfs /srv/a disk: no such file or directory",
            Cause(CauseKind.PATH, "/srv/a disk"),
        ),
        (
            FaultKind.DEVICE_MISSING,
            "cannot create container web: stat /dev/ttyUSB0: no such file or directory",
            Cause(CauseKind.PATH, "/dev/ttyUSB0"),
        ),
        (FaultKind.MOUNT_SOURCE_MISSING, "a text without a path", None),
    ],
)
def test_what_a_fault_is_due_to(kind: FaultKind, message: str, cause: Cause | None) -> None:
    """Only what a host can see for itself to be over."""
    assert cause_of(fault(kind, message).fault, f"{REGISTRY}/web:1") == cause
