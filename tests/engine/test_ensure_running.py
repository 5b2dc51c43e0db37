# SPDX-License-Identifier: Apache-2.0
"""One live container per workload: made, adopted, replaced, started again, and nothing twice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from activities.podman_engine import PodmanEngine
from perdure.model.faults import FaultClass, FaultKind
from perdure.model.observation import ContainerState
from perdure.model.workload import BindMount, File, PortMapping, StopOptions
from tests.engine.workload import HOST, Workload
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.ports import free_ports, is_listening
from tests.support.waiting import eventually, eventually_async


def contents(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.rglob("*") if path.is_file()]


def is_private(folder: Path) -> bool:
    return folder.stat().st_mode & 0o077 == 0


async def test_a_container_is_made_with_our_name_and_labels(workload: Workload, podman: IsolatedPodman) -> None:
    """Name and labels are how it is found again, so they are a contract."""
    live = await workload.ensure(workload.spec(labels={"team": "shop", "dev.perdure.fleet": "forged"}))
    shown = podman.inspect(live.container_id)
    assert shown is not None
    assert shown["Name"] == f"web-g1-{workload.incarnation[:8]}"
    labels = shown["Config"]["Labels"]
    assert labels["team"] == "shop"
    assert {name.removeprefix("dev.perdure."): value for name, value in labels.items() if "perdure" in name} == {
        "fleet": workload.fleet,
        "host": HOST,
        "workload": "web",
        "incarnation": workload.incarnation,
        "generation": "1",
        "spec": labels["dev.perdure.spec"],
        "restart": '{"restart":"always"}',
        "manifest": "shop",
        "fleet-id": "the-server",
    }
    assert live.generation == 1
    assert live.started_at is not None
    assert live.image_digest.startswith("sha256:")
    assert shown["HostConfig"]["RestartPolicy"]["Name"] in ("", "no")


async def test_a_second_call_adopts_what_runs(workload: Workload) -> None:
    """Nothing is made, started or stopped again."""
    first = await workload.ensure()
    second = await workload.ensure()
    assert second == first
    assert len(await workload.containers()) == 1


async def test_another_worker_adopts_what_runs(workload: Workload, new_engine: Callable[..., PodmanEngine]) -> None:
    """What one worker made, the next one finds by its labels alone."""
    first = await workload.ensure()
    other = new_engine()
    try:
        second = await other.ensure_running("web", workload.spec(), workload.owner(workload.spec()))
    finally:
        await other.close()
    assert second == first


async def test_a_generation_with_the_same_spec_keeps_the_container(workload: Workload) -> None:
    """Only settings changed: id and start time stay, the answer is of the new generation."""
    first = await workload.ensure(generation=1)
    second = await workload.ensure(generation=5)
    assert second.container_id == first.container_id
    assert second.started_at == first.started_at
    assert second.generation == 5


async def test_eight_calls_at_once_make_one_container(workload: Workload) -> None:
    """Duplicated attempts of one worker."""
    lives = await asyncio.gather(*(workload.ensure() for _ in range(8)))
    assert len({live.container_id for live in lives}) == 1
    assert len(await workload.containers()) == 1


async def test_calls_of_two_workers_at_once_make_one_container(
    workload: Workload, new_engine: Callable[..., PodmanEngine]
) -> None:
    """An old worker that is not quite dead yet: no lock is shared, only Podman."""
    other = new_engine()
    spec = workload.spec()
    try:
        lives = await asyncio.gather(
            *(engine.ensure_running("web", spec, workload.owner(spec)) for engine in (workload.engine, other) * 3),
            return_exceptions=True,
        )
    finally:
        await other.close()
    assert any(not isinstance(live, BaseException) for live in lives)
    await workload.ensure()
    assert len(await workload.containers()) == 1


async def test_a_newer_generation_replaces_the_older_one(workload: Workload) -> None:
    """One container, of the new generation; the old process is gone."""
    first = await workload.ensure(generation=1)
    pid = (await workload.containers())[0].pid
    second = await workload.ensure(workload.spec(environment={"V": "2"}), generation=2)
    found = await workload.containers()
    assert [managed.container_id for managed in found] == [second.container_id]
    assert found[0].owner.generation == 2
    assert second.container_id != first.container_id
    assert not process_is_alive(pid)


async def test_another_incarnation_is_replaced(workload: Workload) -> None:
    """A leftover of a workload that was removed while its host was away."""
    await workload.ensure(generation=7)
    workload.incarnation = "feedfacefeedface"
    live = await workload.ensure(generation=1)
    assert [managed.container_id for managed in await workload.containers()] == [live.container_id]


async def test_a_late_attempt_of_an_older_generation_does_nothing(workload: Workload) -> None:
    """New is never followed by old."""
    await workload.ensure(workload.spec(environment={"V": "2"}), generation=2)
    before = await workload.containers()
    fault = await workload.ensure_fails(workload.spec(), generation=1)
    assert fault.kind is FaultKind.SUPERSEDED
    assert await workload.containers() == before


async def test_the_old_container_runs_on_while_the_new_one_cannot_be_made(workload: Workload) -> None:
    """An error at create costs no outage."""
    first = await workload.ensure(generation=1)
    broken = workload.spec(mounts=(BindMount(source="/no/such/folder", target="/data"),))
    fault = await workload.ensure_fails(broken, generation=2)
    assert fault.kind is FaultKind.MOUNT_SOURCE_MISSING
    assert [managed.container_id for managed in await workload.running()] == [first.container_id]


async def test_a_missing_image_changes_nothing(workload: Workload) -> None:
    """It is told before anything is touched, so that it can be pulled while the old container runs."""
    first = await workload.ensure(generation=1)
    fault = await workload.ensure_fails(workload.spec(image="localhost/never-made:1"), generation=2)
    assert fault.kind is FaultKind.IMAGE_MISSING
    assert "localhost/never-made:1" in fault.message
    assert [managed.container_id for managed in await workload.containers()] == [first.container_id]


async def test_a_new_port_takes_the_place_of_the_old_one(workload: Workload) -> None:
    """S10: the new port answers, the old one does not, one container."""
    old, new = free_ports(2)
    serving = ("sh", "-c", "trap 'exit 0' TERM; httpd -f -p 8080 & wait")

    def spec(port: int) -> dict[str, object]:
        return {"networks": (), "command": serving, "ports": (PortMapping(container=8080, host=port, ip="127.0.0.1"),)}

    await workload.ensure(workload.spec(**spec(old)), generation=1)
    eventually(lambda: is_listening(old), within=5)
    await workload.ensure(workload.spec(**spec(new)), generation=2)
    eventually(lambda: is_listening(new), within=5)
    assert not is_listening(old)
    assert len(await workload.containers()) == 1


async def test_the_same_port_passes_from_the_old_container_to_the_new_one(workload: Workload) -> None:
    """The old one is gone before the new one starts."""
    (port,) = free_ports(1)
    ports = (PortMapping(container=8080, host=port, ip="127.0.0.1"),)
    await workload.ensure(workload.spec(networks=(), ports=ports), generation=1)
    await workload.ensure(workload.spec(networks=(), ports=ports, environment={"V": "2"}), generation=2)
    assert len(await workload.running()) == 1


async def test_an_ended_container_is_started_again(workload: Workload) -> None:
    """The same one: its id stays."""
    first = await workload.ensure()
    pid = (await workload.containers())[0].pid
    os.kill(pid, signal.SIGKILL)
    second = await workload.ensure()
    assert second.container_id == first.container_id
    assert second.started_at != first.started_at
    assert len(await workload.running()) == 1


async def test_a_container_that_ends_at_once_is_no_fault(workload: Workload) -> None:
    """That it ended is news for whoever watches, not an error of the start."""
    live = await workload.ensure(workload.spec(command=("sh", "-c", "exit 42")))

    async def ended() -> bool:
        (managed,) = await workload.containers()
        return managed.state is ContainerState.EXITED

    await eventually_async(ended, within=5)
    (managed,) = await workload.containers()
    assert managed.container_id == live.container_id
    assert managed.exit is not None
    assert managed.exit.code == 42


async def test_a_container_paused_by_hand_goes_on(workload: Workload, podman: IsolatedPodman) -> None:
    """Pausing a workload is not done by pausing its container."""
    live = await workload.ensure()
    podman.cli("pause", live.container_id)
    assert [managed.state for managed in await workload.containers()] == [ContainerState.PAUSED]
    assert (await workload.ensure()).container_id == live.container_id
    assert len(await workload.running()) == 1


async def test_a_container_that_is_half_started_is_started(workload: Workload, podman: IsolatedPodman) -> None:
    """Podman calls it `initialized`: the runtime waits in its place. Its id stays."""
    live = await workload.ensure()
    podman.cli("kill", live.container_id)
    podman.cli("init", live.container_id)
    assert [managed.state for managed in await workload.containers()] == [ContainerState.CREATED]
    assert (await workload.ensure()).container_id == live.container_id
    assert len(await workload.running()) == 1


async def test_a_renamed_container_is_kept_until_its_generation_is_over(
    workload: Workload, podman: IsolatedPodman
) -> None:
    """The labels say whose it is, not the name; the next one is called as usual."""
    live = await workload.ensure()
    podman.cli("rename", live.container_id, f"renamed-{workload.fleet}")
    assert (await workload.ensure()).container_id == live.container_id
    podman.cli("kill", live.container_id)
    assert (await workload.ensure()).container_id == live.container_id
    await workload.ensure(workload.spec(environment={"V": "2"}), generation=2)
    assert [managed.name for managed in await workload.containers()] == [workload.container_name(2)]


async def test_of_two_equal_containers_the_one_with_our_name_stays(
    workload: Workload, podman: IsolatedPodman, obedient: str
) -> None:
    """Somebody made the other one with our labels; it may be anything inside."""
    first = await workload.ensure()
    shown = podman.inspect(first.container_id)
    assert shown is not None
    labels = tuple(f"--label={name}={value}" for name, value in shown["Config"]["Labels"].items())
    for name in ("aaa", "zzz"):
        podman.run(obedient, name=f"{name}-{workload.fleet}", options=labels)
    assert (await workload.ensure()).container_id == first.container_id
    assert len(await workload.containers()) == 1


async def test_a_container_removed_by_hand_comes_back(workload: Workload, podman: IsolatedPodman) -> None:
    """As another one, of the same name."""
    first = await workload.ensure()
    podman.cli("rm", "-f", "-t", "0", first.container_id)
    second = await workload.ensure()
    assert second.container_id != first.container_id
    assert len(await workload.containers()) == 1


async def test_more_than_one_container_of_a_workload_becomes_one(
    workload: Workload, podman: IsolatedPodman, obedient: str
) -> None:
    """However they came to be, for example by hand with our labels."""
    live = await workload.ensure()
    shown = podman.inspect(live.container_id)
    assert shown is not None
    labels = tuple(f"--label={name}={value}" for name, value in shown["Config"]["Labels"].items())
    podman.run(obedient, name=f"twin-{workload.fleet}", options=labels)
    assert len(await workload.running()) == 2
    await workload.ensure()
    assert len(await workload.containers()) == 1


async def test_a_foreign_container_with_our_name_is_never_touched(
    workload: Workload, podman: IsolatedPodman, obedient: str
) -> None:
    """C1: NameConflict with a hint, and it heals when the foreign one goes."""
    foreign = podman.run(obedient, name=workload.container_name())
    fault = await workload.ensure_fails()
    assert fault.kind is FaultKind.NAME_CONFLICT
    assert fault.fault_class is FaultClass.TRANSIENT
    assert workload.container_name() in fault.message
    assert workload.container_name() in fault.hint
    assert podman.is_alive(foreign)
    podman.cli("rm", "-f", "-t", "0", foreign)
    await workload.ensure()
    assert len(await workload.running()) == 1


async def test_the_same_workload_of_another_server_is_never_touched(workload: Workload) -> None:
    """Two Temporal servers may each have a fleet, a host and a workload of these names, on one Podman."""
    other = replace(workload, fleet_id="another-server", incarnation="feedfacefeedface")
    theirs = await other.ensure()
    ours = await workload.ensure()
    again = await workload.ensure(workload.spec(environment={"V": "2"}), generation=2)
    assert again.container_id != ours.container_id
    assert {managed.container_id for managed in await workload.running()} == {theirs.container_id, again.container_id}
    assert await workload.remove() == 1
    assert [managed.container_id for managed in await workload.running()] == [theirs.container_id]
    assert await other.remove() == 1


async def test_a_name_that_another_server_took_is_somebody_elses(workload: Workload) -> None:
    """It can only be the same by a copy of a server's data."""
    other = replace(workload, fleet_id="another-server")
    await other.ensure()
    assert (await workload.ensure_fails()).kind is FaultKind.NAME_CONFLICT
    assert await other.remove() == 1


async def test_files_are_mounted_read_only_and_follow_the_generation(
    workload: Workload, podman: IsolatedPodman, files_dir: Path
) -> None:
    """Written before the start, gone when nobody uses them; what they hold is seen by root only."""
    one = workload.spec(
        files=(File(path="/etc/web.conf", content="one\n"), File(path="/run.sh", content="", mode=0o755))
    )
    live = await workload.ensure(one, generation=1)
    assert podman.cli("exec", live.container_id, "cat", "/etc/web.conf") == "one"
    assert podman.cli("exec", live.container_id, "sh", "-c", "echo x > /etc/web.conf || echo refused") == "refused"
    assert podman.cli("exec", live.container_id, "stat", "-c", "%a", "/run.sh") == "755"
    two = workload.spec(files=(File(path="/etc/web.conf", content="two\n"),))
    live = await workload.ensure(two, generation=2)
    assert podman.cli("exec", live.container_id, "cat", "/etc/web.conf") == "two"
    assert contents(files_dir) == ["two\n"]
    assert is_private(files_dir)
    await workload.remove()
    assert contents(files_dir) == []


async def test_a_cancelled_call_leaves_nothing_going_on(workload: Workload) -> None:
    """And the next call comes to the same end, wherever it was cancelled."""
    for wait_ms in (1, 20, 60, 120, 200):
        task = asyncio.create_task(workload.ensure())
        await asyncio.sleep(wait_ms / 1000)
        task.cancel()
        await asyncio.wait([task])
        before = await workload.containers()
        await asyncio.sleep(0.1)
        assert [(m.container_id, m.state) for m in await workload.containers()] == [
            (m.container_id, m.state) for m in before
        ]
        await workload.ensure()
        assert len(await workload.containers()) == 1
        await workload.remove()


async def test_the_old_container_gets_its_own_grace(workload: Workload, podman: IsolatedPodman) -> None:
    """As its own generation said, not as the new one says."""
    farewell = ("sh", "-c", "trap 'sleep 0.5; echo farewell > /log/said; exit 0' TERM; while :; do sleep 1; done")
    log = podman.service.home / "farewell"
    log.mkdir(exist_ok=True)
    first = workload.spec(
        command=farewell,
        mounts=(BindMount(source=str(log), target="/log"),),
        stop=StopOptions(timeout=timedelta(seconds=10)),
    )
    await workload.ensure(first, generation=1)
    await asyncio.sleep(0.3)
    await workload.ensure(workload.spec(stop=StopOptions(timeout=timedelta(0))), generation=2)
    assert (log / "said").read_text() == "farewell\n"
