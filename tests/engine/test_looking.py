# SPDX-License-Identifier: Apache-2.0
"""What the engine tells of containers: the list, their ends, their output, itself; and what it says when Podman is away."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.engine import EngineFault
from activities.podman_engine import PodmanEngine
from activities.podman_logs import CUT_MARK, LINE_LIMIT
from perdure.model.faults import FaultClass, FaultKind
from perdure.model.observation import ContainerState, Health, LastExit, Run
from perdure.model.workload import ContainerSpec, Healthcheck, Resources
from tests.engine.workload import HOST, Workload, pull_fault
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually_async


async def ended(workload: Workload) -> LastExit:
    """How the one container ended, once it has."""

    async def look() -> LastExit | None:
        (managed,) = await workload.containers()
        return managed.exit

    seen = await eventually_async(look, within=10)
    assert seen is not None
    return seen


async def test_the_list_holds_ours_only(workload: Workload, podman: IsolatedPodman, obedient: str) -> None:
    """Not those of other fleets, hosts or workloads, nor those without labels; running or not."""
    other = Workload(workload.engine, obedient, fleet=workload.fleet, name="other")
    stranger = Workload(workload.engine, obedient)
    await asyncio.gather(workload.ensure(), other.ensure(other.spec(command=("true",))), stranger.ensure())
    podman.run(obedient, name=f"foreign-{workload.fleet}")
    everything = await workload.engine.list_managed(workload.fleet, HOST)
    assert {managed.owner.workload for managed in everything} == {"web", "other"}
    assert [managed.owner.workload for managed in await workload.containers()] == ["web"]
    assert await workload.engine.list_managed(workload.fleet, "edge-2") == []
    (managed,) = await workload.containers()
    assert managed.owner == workload.owner(workload.spec())
    assert managed.name == workload.container_name()
    assert managed.state is ContainerState.RUNNING
    assert managed.pid > 1
    assert managed.exit is None
    assert managed.started_at is not None
    assert abs(managed.started_at - datetime.now(UTC)) < timedelta(seconds=60)
    await other.remove()
    await stranger.remove()


@pytest.mark.parametrize(
    ("command", "code", "signal_name"),
    [("exit 0", 0, None), ("exit 42", 42, None), ("kill -9 $$", 137, "SIGKILL"), ("kill -SEGV $$", 139, "SIGSEGV")],
)
async def test_how_a_container_ended(workload: Workload, command: str, code: int, signal_name: str | None) -> None:
    """R4: by the list and by inspection, also after it was started again."""
    script = f"trap - TERM; sh -c '{command}'; exit $?"
    live = await workload.ensure(workload.spec(command=("sh", "-c", script)))
    for _ in range(2):
        seen = await ended(workload)
        assert (seen.code, seen.signal) == (code, signal_name)
        assert seen.at is not None
        exact = await workload.engine.exit_of(live.container_id)
        assert exact is not None
        assert (exact.code, exact.signal) == (code, signal_name)
        await workload.ensure(workload.spec(command=("sh", "-c", script)))


async def test_a_container_that_needs_too_much_memory_ends_by_sigkill(workload: Workload) -> None:
    """R4: Podman 4.3 seldom knows that it was for want of memory, but the signal tells enough."""
    hungry = workload.spec(command=("sh", "-c", "x=a; while :; do x=$x$x; done"), resources=Resources(memory=16 << 20))
    await workload.ensure(hungry)
    seen = await ended(workload)
    assert (seen.code, seen.signal) == (137, "SIGKILL")


async def test_a_running_or_absent_container_has_no_end(workload: Workload) -> None:
    """None for both."""
    live = await workload.ensure()
    assert await workload.engine.exit_of(live.container_id) is None
    assert await workload.engine.exit_of("0" * 64) is None


async def test_health_is_in_the_list(workload: Workload, podman: IsolatedPodman) -> None:
    """Where no systemd runs the checks, somebody else does; the list shows the last verdict."""
    check = Healthcheck(test=("CMD", "test", "-e", "/tmp/ok"), retries=1)
    live = await workload.ensure(workload.spec(healthcheck=check))
    assert live.health is Health.STARTING
    podman.cli("healthcheck", "run", live.container_id, check=False)
    assert [managed.health for managed in await workload.containers()] == [Health.UNHEALTHY]
    podman.cli("exec", live.container_id, "touch", "/tmp/ok")
    podman.cli("healthcheck", "run", live.container_id)
    assert [managed.health for managed in await workload.containers()] == [Health.HEALTHY]


async def lines(workload: Workload, container_id: str, tail: int | None = None, *, follow: bool = False) -> list[bytes]:
    """The output of a container."""
    return [line async for line in workload.engine.logs(container_id, follow=follow, tail=tail, since=None)]


async def test_output_comes_in_lines(workload: Workload) -> None:
    """Both streams, the last line without an end too, also after the container has ended; tail gives the last ones."""
    script = "echo one; echo two >&2; echo; printf four"
    live = await workload.ensure(workload.spec(command=("sh", "-c", script)))
    await ended(workload)
    assert sorted(await lines(workload, live.container_id)) == [b"", b"four", b"one", b"two"]
    assert len(await lines(workload, live.container_id, tail=1)) == 1


async def test_following_ends_with_the_container(workload: Workload) -> None:
    """U8: and brings what comes later."""
    live = await workload.ensure(workload.spec(command=("sh", "-c", "echo first; sleep 1; echo last")))
    assert await asyncio.wait_for(lines(workload, live.container_id, follow=True), 10) == [b"first", b"last"]


async def test_following_can_be_called_off(workload: Workload) -> None:
    """The reader goes away while the container is silent."""
    live = await workload.ensure()
    follower = asyncio.create_task(lines(workload, live.container_id, follow=True))
    await asyncio.sleep(0.5)
    follower.cancel()
    await asyncio.wait([follower], timeout=2)
    assert follower.cancelled()


async def test_a_huge_line_is_cut_in_flat_memory(workload: Workload) -> None:
    """U8: 100 MB without an end of line."""
    script = "dd if=/dev/zero bs=1M count=100 2>/dev/null | tr '\\0' x; echo; echo after"
    live = await workload.ensure(workload.spec(command=("sh", "-c", script)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = await asyncio.wait_for(lines(workload, live.container_id, follow=True), 90)
    assert seen == [b"x" * LINE_LIMIT + CUT_MARK, b"after"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


async def test_logs_of_an_absent_container(workload: Workload) -> None:
    """A fault, not an empty output."""
    with pytest.raises(EngineFault, match="no such container"):
        await lines(workload, "0" * 64)


async def test_the_engine_names_itself(engine: PodmanEngine) -> None:
    """For `doctor` and the status of hosts."""
    info = await engine.info()
    assert info.name == "Podman"
    assert info.version[0].isdigit()


@pytest.mark.parametrize("url", ["tcp://localhost:8080", "podman.sock", ""])
def test_an_address_that_is_no_socket_is_refused(url: str, tmp_path: Path) -> None:
    """With the form that it should have."""
    with pytest.raises(ValueError, match=re.escape("unix:///run/podman/podman.sock")):
        PodmanEngine(url, files_dir=tmp_path)


async def every_call(engine: PodmanEngine) -> list[EngineFault]:
    """What each method says."""
    spec = ContainerSpec(image="localhost/app:1")
    owner = Workload(engine, spec.image).owner(spec)
    calls: list[Callable[[], object]] = [
        engine.info,
        lambda: engine.has_image("localhost/app:1"),
        lambda: engine.ensure_running("web", spec, owner),
        lambda: engine.ensure_absent("fleet", HOST, "web", timedelta(0)),
        lambda: engine.list_managed("fleet", HOST),
        lambda: engine.exit_of("0" * 64),
        lambda: anext(engine.events("fleet", HOST)),
        lambda: engine.start_again("0" * 64),
        lambda: engine.end_run(Run(container_id="0" * 64), timedelta(0)),
        lambda: engine.healthcheck_of("0" * 64),
        lambda: engine.check_health("0" * 64),
    ]
    faults = []
    for call in calls:
        with pytest.raises(EngineFault) as raised:
            await call()  # type: ignore[misc]
        faults.append(raised.value)
    return [*faults, await pull_fault(engine, "localhost:1/app:1")]


async def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    """R7: EngineUnreachable from every method, transient, with the socket in the hint and the errno in the text.

    Nothing is left open either, or pytest would say so: this is tried for ever.
    """
    socket_path = tmp_path / "none.sock"
    engine = PodmanEngine(f"unix://{socket_path}", files_dir=tmp_path / "files")
    try:
        for raised in await every_call(engine):
            assert raised.fault.kind is FaultKind.ENGINE_UNREACHABLE
            assert raised.fault.fault_class is FaultClass.TRANSIENT
            assert str(socket_path) in raised.fault.hint
            assert "No such file or directory" in raised.fault.message
    finally:
        await engine.close()


async def test_a_service_that_hangs(tmp_path: Path) -> None:
    """R7: it accepts and never answers: every call ends after its time limit, without blocking the loop."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "hung.sock"))
        listener.listen(50)
        engine = PodmanEngine(
            f"unix://{tmp_path / 'hung.sock'}", files_dir=tmp_path / "files", call_timeout=timedelta(seconds=0.3)
        )
        try:
            started = asyncio.get_running_loop().time()
            calls = [engine.info(), engine.has_image("localhost/a:1"), engine.list_managed("fleet", HOST)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert asyncio.get_running_loop().time() - started < 3
        finally:
            await engine.close()
    for answer in answers:
        assert isinstance(answer, EngineFault)
        assert answer.fault.kind is FaultKind.ENGINE_UNREACHABLE
        assert "timed out" in answer.fault.message.lower()


async def test_a_service_that_was_started_again_is_used_again(workload: Workload, podman: IsolatedPodman) -> None:
    """Kept connections of the old one cost no failed call."""
    await asyncio.gather(*(workload.engine.info() for _ in range(8)))
    await workload.ensure()
    podman.restart()
    await asyncio.gather(*(workload.engine.info() for _ in range(8)))
    assert len(await workload.running()) == 1
