# SPDX-License-Identifier: Apache-2.0
"""Every state that a container can get into behind our back, on a real Podman: each row of the table in docs/concepts/drift.md.

The table says what is expected, so it cannot be wrong without a test that fails. A row does its damage, is looked at by the
host's own code (``activities.beliefs``), told to the workload's policy, and healed by the engine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from activities.beliefs import Belief, contradiction
from activities.engine import Managed
from perdure.model.faults import Phase
from perdure.model.messages import ApplyRequest
from perdure.model.observation import ContainerState, Live
from perdure.model.record import Course, Record
from perdure.model.workload import ContainerSpec, RestartPolicy, StopOptions, WorkloadSpec
from perdure.policy import attempts, sightings, wishes
from tests.architecture.repository import ROOT
from tests.engine.reboot import pull_the_plug
from tests.engine.workload import HOST, Workload
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.waiting import eventually_async

BREAK_OFF_SECONDS = 0.7
TABLE = ROOT / "docs/concepts/drift.md"


@dataclass
class Scene:
    """One workload whose container runs, and a Podman to do things by."""

    workload: Workload
    podman: IsolatedPodman
    container: Managed
    live: Live

    async def cli(self, *arguments: str) -> None:
        await asyncio.to_thread(self.podman.cli, *arguments)

    async def once(self, state: ContainerState) -> None:
        """Wait until the list shows the container like this."""

        async def is_there() -> bool:
            return state in [managed.state for managed in await self.workload.containers()]

        await eventually_async(is_there, within=5, what=state)

    async def podman_says(self, wanted: str) -> None:
        """Wait for Podman's own word. For a moment it says `stopped` of what has just ended."""

        async def is_said() -> bool:
            shown = await asyncio.to_thread(self.podman.inspect, self.container.container_id)
            assert wanted == (f"`{shown['State']['Status']}`" if shown else "nothing")
            return True

        await eventually_async(is_said, within=5)

    def monitor(self) -> int:
        shown = self.podman.inspect(self.container.container_id)
        assert shown is not None
        return int(shown["State"]["ConmonPid"])


async def nothing(scene: Scene) -> None: ...


async def remove(scene: Scene) -> None:
    await scene.cli("rm", "--force", "--time=0", scene.container.container_id)


async def kill(scene: Scene) -> None:
    await scene.cli("kill", scene.container.container_id)
    await scene.once(ContainerState.EXITED)


async def stop(scene: Scene) -> None:
    await scene.cli("stop", scene.container.container_id)


async def die(scene: Scene) -> None:
    os.kill(scene.container.pid, signal.SIGKILL)
    await scene.once(ContainerState.EXITED)


async def pause(scene: Scene) -> None:
    await scene.cli("pause", scene.container.container_id)


async def restart(scene: Scene) -> None:
    # The list knows whole seconds only.
    await asyncio.sleep(1)
    await scene.cli("restart", scene.container.container_id)


async def start(scene: Scene) -> None:
    await scene.cli("start", scene.container.container_id)


async def rename(scene: Scene) -> None:
    await scene.cli("rename", scene.container.container_id, f"renamed-{scene.workload.fleet}")


async def double(scene: Scene) -> None:
    shown = scene.podman.inspect(scene.container.container_id)
    assert shown is not None
    labels = tuple(f"--label={name}={value}" for name, value in shown["Config"]["Labels"].items())
    await asyncio.to_thread(scene.podman.run, scene.workload.image, options=labels)


async def reboot(scene: Scene) -> None:
    await asyncio.to_thread(pull_the_plug, scene.podman, scene.container.container_id)
    await asyncio.to_thread(scene.podman.start)


async def kill_monitor(scene: Scene) -> None:
    os.kill(scene.monitor(), signal.SIGKILL)
    await scene.once(ContainerState.UNMONITORED)


async def kill_monitor_and_process(scene: Scene) -> None:
    os.kill(scene.monitor(), signal.SIGKILL)
    os.kill(scene.container.pid, signal.SIGKILL)
    await scene.once(ContainerState.DEAD)


async def break_off_stop(scene: Scene) -> None:
    """The container does not hear the signal, and who stops it is killed in the middle."""
    os.kill(scene.container.pid, signal.SIGSTOP)
    with suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(
            scene.podman.cli, "stop", "--time=30", scene.container.container_id, timeout=BREAK_OFF_SECONDS
        )


async def break_off_stop_without_monitor(scene: Scene) -> None:
    os.kill(scene.monitor(), signal.SIGKILL)
    await break_off_stop(scene)


Damage = Callable[[Scene], Awaitable[None]]
DAMAGES: dict[str, tuple[Damage, ...]] = {
    "does nothing": (nothing,),
    "`podman rm --force`": (remove,),
    "`podman kill`": (kill,),
    "`podman stop`, and it ends with code 0": (stop,),
    "the process kills itself": (die,),
    "`podman pause`": (pause,),
    "`podman restart`": (restart,),
    "`podman kill`, then `podman start` before we do": (kill, start),
    "`podman rename`": (rename,),
    "a second container with our labels": (double,),
    "the host is restarted": (reboot,),
    "the monitor (conmon) is killed": (kill_monitor,),
    "the monitor and the process are killed": (kill_monitor_and_process,),
    "`podman stop` is broken off": (break_off_stop,),
    "the monitor is killed, then `podman stop` is broken off": (break_off_stop_without_monitor,),
}


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    what: str
    podman: str
    seen: str
    always: str
    never: str


def rows() -> list[Row]:
    """The table of the states."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| somebody"))
    table = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        table.append(Row(*(cell.strip() for cell in line.strip("|").split("|"))))
    return table


def test_each_row_of_the_table_is_tried() -> None:
    """And nothing else."""
    assert [row.what for row in rows()] == list(DAMAGES)


@dataclass
class Side:
    """The two who know of a workload: its workflow, and its host."""

    record: Record
    belief: Belief

    async def look(self, workload: Workload) -> None:
        """The host looks, and tells what it did not know."""
        finding = contradiction(self.belief, await workload.containers())
        if finding is not None:
            now = datetime.now(UTC)
            self.record = sightings.observed(self.record, finding.observation(now), now)
            self.belief = self.belief.after(finding)

    def answer(self, healed: str) -> str:
        """What the workflow has made of it, in the words of the table."""
        if self.record.course is Course.UP:
            return "left alone"
        return healed if self.record.course is Course.START else self.record.state.value


def quick(workload: Workload) -> ContainerSpec:
    """A container that is not given much time to end."""
    return workload.spec(stop=StopOptions(timeout=timedelta(seconds=1)))


def up(workload: Workload, live: Live, restart: RestartPolicy) -> Side:
    """A workload whose container runs."""
    now = datetime.now(UTC)
    spec = WorkloadSpec(container=quick(workload), restart=restart)
    record = wishes.born(HOST, workload.name, workload.incarnation, now)
    record = wishes.applied(record, ApplyRequest(apply_id="a", spec=spec), now)
    record = attempts.container_started(attempts.step_begun(record, Phase.START, now), live, now)
    return Side(record, Belief.of_live(live))


async def heal(scene: Scene) -> str:
    """What the next start does, in the words of the table."""
    before = await scene.workload.containers()
    live = await scene.workload.ensure(quick(scene.workload))
    (now,) = await scene.workload.containers()
    assert now.state is ContainerState.RUNNING
    if len(before) > 1:
        return "one is left"
    if live.container_id != scene.container.container_id:
        assert not process_is_alive(scene.container.pid), "an orphan process"
        return "made again"
    return "goes on" if live.started_at == scene.live.started_at else "started again"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
async def test_drift(row: Row, workload: Workload, clean_podman: IsolatedPodman) -> None:
    """Podman shows the state, we see what it really is, policy answers, and the next start brings it about."""
    live = await workload.ensure(quick(workload))
    (container,) = await workload.containers()
    scene = Scene(workload, clean_podman, container, live)
    always, never = (up(workload, live, policy) for policy in (RestartPolicy.ALWAYS, RestartPolicy.NEVER))
    for damage in DAMAGES[row.what]:
        await damage(scene)
        await always.look(workload)
        await never.look(workload)
    await scene.podman_says(row.podman)
    seen = {managed.container_id: managed.state for managed in await workload.containers()}
    assert seen.get(container.container_id, ContainerState.MISSING) == row.seen
    healed = await heal(scene)
    assert (always.answer(healed), never.answer(healed)) == (row.always, row.never)
    assert await workload.remove() == 1
