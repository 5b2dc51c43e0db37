# SPDX-License-Identifier: Apache-2.0
"""The end of a process is noticed at once, and once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.deaths import Deaths
from tests.support.waiting import eventually_async


@asynccontextmanager
async def a_process() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that sleeps, and is gone at the end."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_each_death_is_told_once_with_its_container() -> None:
    """Also of several at the same time, and by whatever signal."""
    told: list[tuple[str, str]] = []
    deaths = Deaths(lambda *what: told.append(what))
    async with a_process() as one, a_process() as other, a_process() as survivor:
        for name, process in {"one": one, "other": other, "survivor": survivor}.items():
            assert deaths.follow(name, f"id-{name}", process.pid)
        one.kill()
        other.send_signal(signal.SIGTERM)
        await eventually_async(lambda: is_true(len(told) == 2), within=5)
        assert sorted(told) == [("one", "id-one"), ("other", "id-other")]
        assert "id-one" not in deaths
        assert "id-survivor" in deaths
        deaths.close()
        assert "id-survivor" not in deaths


async def test_nobody_is_told_of_what_is_no_longer_followed() -> None:
    """The next run of the same container is another process: the end of the first one is no news then."""
    told: list[str] = []
    deaths = Deaths(lambda _, container: told.append(container))
    async with a_process() as first, a_process() as second, a_process() as unwanted:
        deaths.follow("web", "id", first.pid)
        assert deaths.follow("web", "id", first.pid), "twice is once"
        deaths.follow("db", "unwanted", unwanted.pid)
        deaths.follow("web", "id", second.pid)
        deaths.only({"id"})
        for process in (first, unwanted):
            process.kill()
            await process.wait()
        await asyncio.sleep(0.05)
        assert told == []
        second.kill()
        await eventually_async(lambda: is_true(told == ["id"]), within=5)
    deaths.close()


async def test_what_has_ended_already_cannot_be_followed() -> None:
    """The caller has to look then."""
    deaths = Deaths(lambda *_: None)
    async with a_process() as process:
        process.kill()
        await process.wait()
        assert not deaths.follow("web", "id", process.pid)
    assert not deaths.follow("web", "id", 0)
    assert "id" not in deaths


async def is_true(claim: bool) -> bool:
    return claim


async def test_the_death_of_a_monitor_is_noticed_though_its_container_lives() -> None:
    """Podman would call it running for ever, and its end would never be known."""
    told: list[str] = []
    deaths = Deaths(lambda _, container: told.append(container))
    monitor = await asyncio.create_subprocess_exec(
        "sh", "-c", "sleep 60 & echo $!; wait", stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    assert monitor.stdout is not None
    pid = int(await monitor.stdout.readline())
    try:
        assert deaths.follow("web", "id", pid)
        monitor.kill()
        await eventually_async(lambda: is_true(told == ["id"]), within=5)
        assert deaths.follow("web", "id", pid), "it lives on, and goes on being followed"
    finally:
        os.kill(pid, signal.SIGKILL)
        await monitor.wait()
    await eventually_async(lambda: is_true(told == ["id", "id"]), within=5)
