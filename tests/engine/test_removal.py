# SPDX-License-Identifier: Apache-2.0
"""Containers end for good, in whatever state they are, and no process outlives them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta

import pytest

from perdure.model.observation import ContainerState, Run
from perdure.model.workload import StopOptions
from tests.engine.workload import Workload
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.waiting import eventually_async


async def main_pid(workload: Workload) -> int:
    """The process id of the one container."""
    (managed,) = await workload.containers()
    return managed.pid


def monitor_pid(podman: IsolatedPodman, container_id: str) -> int:
    """The process id of the container's conmon."""
    shown = podman.inspect(container_id)
    assert shown is not None
    return int(shown["State"]["ConmonPid"])


async def test_removal_leaves_nothing(workload: Workload) -> None:
    """No container, no process; the second time there is nothing to do."""
    await workload.ensure()
    pid = await main_pid(workload)
    assert await workload.remove(timedelta(seconds=10)) == 1
    assert await workload.containers() == []
    assert not process_is_alive(pid)
    assert await workload.remove() == 0


async def test_a_container_is_asked_to_end_first(workload: Workload) -> None:
    """With its own signal, and as soon as it has ended the rest of the grace is not waited for."""
    obeying = workload.spec(
        command=("sh", "-c", "trap 'exit 0' USR1; trap '' TERM; while :; do sleep 0.1; done"),
        stop=StopOptions(signal="SIGUSR1", timeout=timedelta(seconds=30)),
    )
    await workload.ensure(obeying)
    await asyncio.sleep(0.3)
    started = time.monotonic()
    await workload.remove(timedelta(seconds=30))
    assert time.monotonic() - started < 10


async def test_a_container_that_ignores_the_signal_goes_after_its_grace(workload: Workload, stubborn: str) -> None:
    """C6: by force, and meanwhile everybody else is served."""
    workload.image = stubborn
    await workload.ensure()
    await asyncio.sleep(0.3)
    pid = await main_pid(workload)
    started = time.monotonic()
    removal = asyncio.create_task(workload.remove(timedelta(seconds=3)))
    await asyncio.sleep(0.5)
    looked = time.monotonic()
    assert len(await workload.containers()) == 1
    assert time.monotonic() - looked < 1
    assert await removal == 1
    assert 3 <= time.monotonic() - started < 9
    assert not process_is_alive(pid)


async def test_a_workload_added_again_during_a_slow_removal_ends_running(workload: Workload, stubborn: str) -> None:
    """S10: one after the other, in the order of the calls."""
    workload.image = stubborn
    await workload.ensure()
    removal = asyncio.create_task(workload.remove(timedelta(seconds=1)))
    await asyncio.sleep(0.1)
    workload.incarnation = "feedfacefeedface"
    live = await workload.ensure(workload.spec(stop=StopOptions(timeout=timedelta(0))))
    assert await removal == 1
    assert [managed.container_id for managed in await workload.running()] == [live.container_id]


async def test_many_slow_stops_do_not_hold_up_a_start(workload: Workload, stubborn: str, obedient: str) -> None:
    """A stop that waits takes no start's place."""
    slow = [Workload(workload.engine, stubborn, fleet=workload.fleet, name=f"slow-{n}") for n in range(7)]
    await asyncio.gather(*(one.ensure() for one in slow))
    removals = [asyncio.create_task(one.remove(timedelta(seconds=6))) for one in slow]
    await asyncio.sleep(0.5)
    await workload.ensure()
    assert not any(removal.done() for removal in removals)
    await asyncio.gather(*removals)


@pytest.mark.parametrize("state", ["paused", "exited", "created"])
async def test_removal_in_any_state(workload: Workload, podman: IsolatedPodman, state: str) -> None:
    """Whatever somebody did to it by hand."""
    live = await workload.ensure()
    pid = await main_pid(workload)
    match state:
        case "paused":
            podman.cli("pause", live.container_id)
        case "exited":
            podman.cli("kill", live.container_id)
        case "created":
            await workload.remove()
            await workload.ensure_fails(workload.spec(command=("nope",)))
    await workload.remove(timedelta(seconds=2))
    assert await workload.containers() == []
    assert not process_is_alive(pid)


async def test_a_lost_monitor_leaves_no_orphan(workload: Workload, podman: IsolatedPodman, stubborn: str) -> None:
    """C7: Podman would wait for the dead monitor for ever, call it `stopping`, and let the process live on."""
    workload.image = stubborn
    live = await workload.ensure()
    pid = await main_pid(workload)
    os.kill(monitor_pid(podman, live.container_id), signal.SIGKILL)
    started = time.monotonic()
    await workload.remove(timedelta(seconds=1))
    assert time.monotonic() - started < 15
    assert await workload.containers() == []
    assert not process_is_alive(pid)


async def test_what_obeys_without_its_monitor_is_not_waited_for(workload: Workload, podman: IsolatedPodman) -> None:
    """Podman would not notice that it has ended, and wait for all of its grace."""
    live = await workload.ensure()
    pid = await main_pid(workload)
    os.kill(monitor_pid(podman, live.container_id), signal.SIGKILL)
    started = time.monotonic()
    await workload.remove(timedelta(seconds=20))
    assert time.monotonic() - started < 10
    assert await workload.containers() == []
    assert not process_is_alive(pid)


async def test_a_dead_container_that_podman_takes_for_running_is_seen_and_replaced(
    workload: Workload, podman: IsolatedPodman
) -> None:
    """Monitor and process are gone: Podman says `running` for ever."""
    first = await workload.ensure()
    pid = await main_pid(workload)
    os.kill(monitor_pid(podman, first.container_id), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)

    async def is_dead() -> bool:
        return [managed.state for managed in await workload.containers()] == [ContainerState.DEAD]

    await eventually_async(is_dead, within=5)
    await workload.ensure()
    (managed,) = await workload.running()
    assert process_is_alive(managed.pid)
    assert managed.pid != pid


async def test_a_stop_that_was_broken_off_is_finished(
    workload: Workload, podman: IsolatedPodman, stubborn: str
) -> None:
    """The service died in the middle of a stop: the container is `stopping`, and removing it would orphan its process."""
    workload.image = stubborn
    await workload.ensure()
    pid = await main_pid(workload)
    stopping = asyncio.create_task(workload.remove(timedelta(seconds=20)))
    await asyncio.sleep(0.7)
    stopping.cancel()
    podman.restart()
    await asyncio.wait([stopping])
    assert process_is_alive(pid)
    await workload.remove(timedelta(seconds=1))
    assert await workload.containers() == []
    assert not process_is_alive(pid)


async def test_a_run_without_its_monitor_is_ended_too(workload: Workload, podman: IsolatedPodman) -> None:
    """Podman goes on calling it `running`; what counts is that its process is gone. The next start makes another container."""
    live = await workload.ensure()
    pid = await main_pid(workload)
    os.kill(monitor_pid(podman, live.container_id), signal.SIGKILL)
    run = Run(container_id=live.container_id, started_at=live.started_at)
    assert await workload.engine.end_run(run, timedelta(seconds=5))
    assert not process_is_alive(pid)
    assert not await workload.engine.end_run(run, timedelta(seconds=5))
    assert (await workload.ensure()).container_id != live.container_id
    assert len(await workload.running()) == 1
