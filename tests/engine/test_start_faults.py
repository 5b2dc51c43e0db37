# SPDX-License-Identifier: Apache-2.0
"""Everything that a spec can ask for in vain, provoked for real: kind, class, root cause, and a hint that says what to do."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.engine import EngineFault
from perdure.model.faults import FaultClass, FaultKind, Phase
from perdure.model.observation import ContainerState
from perdure.model.workload import (
    BindMount,
    File,
    Healthcheck,
    PortMapping,
    Resources,
    SecretMount,
    StopOptions,
    TmpfsMount,
    Ulimit,
    VolumeMount,
)
from tests.engine.workload import Workload
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.ports import free_port
from tests.support.waiting import eventually_async

HAS_INIT = Path("/usr/libexec/podman/catatonit").exists()
TRANSIENT, PERMANENT = FaultClass.TRANSIENT, FaultClass.PERMANENT


@pytest.mark.parametrize(
    ("options", "kind", "cause", "hint"),
    [
        ({"command": ("/no/such",)}, FaultKind.COMMAND_NOT_FOUND, "stat /no/such: no such file", "/no/such"),
        ({"command": ("nope",)}, FaultKind.COMMAND_NOT_FOUND, "executable file not found in $PATH", "nope"),
        ({"entrypoint": ("/nope",)}, FaultKind.COMMAND_NOT_FOUND, "no such file", "/nope"),
        ({"command": ("/etc/passwd",)}, FaultKind.COMMAND_NOT_EXECUTABLE, "permission denied", "/etc/passwd"),
        ({"command": ("/etc",)}, FaultKind.COMMAND_NOT_EXECUTABLE, "permission denied", "/etc"),
        ({"user": "nobody-here"}, FaultKind.USER_NOT_FOUND, "unable to find user", "nobody-here"),
        ({"user": "0:nogroup-here"}, FaultKind.USER_NOT_FOUND, "unable to find group", "nogroup-here"),
        ({"working_dir": "/no/dir"}, FaultKind.WORKING_DIR_NOT_FOUND, "does not exist", "/no/dir"),
        ({"resources": Resources(memory=4096)}, FaultKind.INVALID_OPTION, "unable to set memory limit", ""),
        ({"resources": Resources(memory=-5)}, FaultKind.INVALID_OPTION, "memory.limit_in_bytes", ""),
        ({"resources": Resources(cpus=0.001)}, FaultKind.INVALID_OPTION, "quota cannot be less than 1ms", ""),
        ({"environment": {"A": "geheim\0x"}}, FaultKind.INVALID_OPTION, "can't contain null", ""),
        ({"cap_add": ("NOT_A_CAP",)}, FaultKind.INVALID_OPTION, "unknown capability", ""),
        ({"sysctls": {"net.ipv4.nothing_here": "1"}}, FaultKind.INVALID_OPTION, "/proc/sys/net/ipv4/nothing_here", ""),
        ({"sysctls": {"kernel.panic": "1"}}, FaultKind.INVALID_OPTION, "not in a separate kernel namespace", ""),
        ({"hostname": "x" * 70}, FaultKind.INVALID_OPTION, "sethostname", ""),
        ({"dns": ("not-an-address",)}, FaultKind.INVALID_OPTION, "invalid IP address", ""),
        ({"stop": StopOptions(signal="SIGNOTHING")}, FaultKind.INVALID_OPTION, "SIGNOTHING", ""),
        ({"ulimits": {"bogus": Ulimit(soft=1, hard=1)}}, FaultKind.INVALID_OPTION, "wrong rlimit value", ""),
        (
            {"mounts": (TmpfsMount(target="/a"), TmpfsMount(target="/a"))},
            FaultKind.INVALID_OPTION,
            "duplicate mount destination",
            "",
        ),
        (
            {"mounts": (BindMount(source="/tmp", target="relative"),)},
            FaultKind.INVALID_OPTION,
            "must be an absolute path",
            "",
        ),
        (
            {"mounts": (BindMount(source="/etc/hostname", target="/etc"),)},
            FaultKind.INVALID_OPTION,
            "not a directory",
            "",
        ),
        ({"mounts": (VolumeMount(source="bad name", target="/a"),)}, FaultKind.INVALID_OPTION, "names must match", ""),
        (
            {"ports": (PortMapping(container=80, host=70_000),), "networks": ()},
            FaultKind.INVALID_OPTION,
            "70000",
            "",
        ),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
async def test_what_only_a_new_manifest_can_cure(
    workload: Workload, options: dict[str, Any], kind: FaultKind, cause: str, hint: str
) -> None:
    """Permanent, the root cause in the text, the culprit in the hint; nothing of it is left after removal."""
    fault = await workload.ensure_fails(workload.spec(**options))
    assert (fault.kind, fault.fault_class, fault.phase) == (kind, PERMANENT, Phase.START)
    assert cause in fault.message
    assert hint in fault.hint
    assert "geheim" not in fault.message
    assert not await workload.running()
    await workload.remove()
    assert await workload.containers() == []


@pytest.mark.parametrize(
    ("options", "kind", "cause"),
    [
        (
            {"mounts": (BindMount(source="/no/such/folder", target="/a"),)},
            FaultKind.MOUNT_SOURCE_MISSING,
            "/no/such/folder",
        ),
        ({"devices": ("/dev/no-such",)}, FaultKind.DEVICE_MISSING, "/dev/no-such"),
        ({"networks": ("no-such-network",)}, FaultKind.NETWORK_MISSING, "no-such-network"),
        ({"secrets": (SecretMount(name="no-such-secret"),)}, FaultKind.SECRET_MISSING, "no-such-secret"),
        ({"secrets": (SecretMount(name="no-such", env="A"),)}, FaultKind.SECRET_MISSING, "no-such"),
        (
            {"ports": (PortMapping(container=80, host=18_765, ip="203.0.113.9"),), "networks": ()},
            FaultKind.ADDRESS_NOT_AVAILABLE,
            "203.0.113.9",
        ),
        ({"ulimits": {"nofile": Ulimit(soft=1 << 30, hard=1 << 30)}}, FaultKind.ULIMIT_TOO_HIGH, "nofile"),
        ({"image": "localhost/never-made:1"}, FaultKind.IMAGE_MISSING, "localhost/never-made:1"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
async def test_what_may_come_to_be_on_the_host(
    workload: Workload, options: dict[str, Any], kind: FaultKind, cause: str
) -> None:
    """Transient, and the hint names what is missing."""
    fault = await workload.ensure_fails(workload.spec(**options))
    assert (fault.kind, fault.fault_class, fault.phase) == (kind, TRANSIENT, Phase.START)
    assert cause in fault.message + fault.hint
    assert cause in fault.hint
    assert not await workload.running()


async def test_a_port_that_another_process_holds(workload: Workload) -> None:
    """C2: PortInUse naming the port; heals when it is free."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        spec = workload.spec(networks=(), ports=(PortMapping(container=80, host=port, ip="127.0.0.1"),))
        fault = await workload.ensure_fails(spec)
        assert (fault.kind, fault.fault_class) == (FaultKind.PORT_IN_USE, TRANSIENT)
        assert str(port) in fault.message
        assert f"port {port} " in fault.hint
    await workload.ensure(spec)
    assert len(await workload.containers()) == 1


async def test_a_port_that_another_container_holds(workload: Workload, obedient: str) -> None:
    """The same for UDP and a container."""
    mapping = PortMapping(container=53, host=free_port(), protocol="udp", ip="127.0.0.1")
    other = Workload(workload.engine, obedient, fleet=workload.fleet, name="other")
    await other.ensure(other.spec(networks=(), ports=(mapping,)))
    fault = await workload.ensure_fails(workload.spec(networks=(), ports=(mapping,)))
    assert fault.kind is FaultKind.PORT_IN_USE
    assert str(mapping.host) in fault.hint
    await other.remove()


async def test_a_mount_source_that_is_missing_is_never_made(workload: Workload, tmp_path: Path) -> None:
    """C3: it heals by mkdir, and not by us."""
    source = tmp_path / "with blank and ümlaut"
    spec = workload.spec(mounts=(BindMount(source=str(source), target="/data"),))
    fault = await workload.ensure_fails(spec)
    assert fault.kind is FaultKind.MOUNT_SOURCE_MISSING
    assert str(source) in fault.hint
    assert not source.exists()
    source.mkdir()
    await workload.ensure(spec)
    assert len(await workload.running()) == 1


async def test_a_mount_source_that_vanished_before_a_restart(workload: Workload, tmp_path: Path) -> None:
    """The container is there already, so it is the runtime that complains, in other words."""
    source = tmp_path / "stick"
    source.mkdir()
    spec = workload.spec(command=("true",), mounts=(BindMount(source=str(source), target="/data"),))
    await workload.ensure(spec)

    async def has_ended() -> bool:
        return [managed.state for managed in await workload.containers()] == [ContainerState.EXITED]

    await eventually_async(has_ended, within=5)
    source.rmdir()
    fault = await workload.ensure_fails(spec)
    assert (fault.kind, fault.fault_class) == (FaultKind.MOUNT_SOURCE_MISSING, TRANSIENT)
    assert str(source) in fault.hint


async def test_a_missing_init_program(workload: Workload) -> None:
    """The host lacks it, not the manifest."""
    if HAS_INIT:
        await workload.ensure(workload.spec(init=True))
        return
    fault = await workload.ensure_fails(workload.spec(init=True))
    assert (fault.kind, fault.fault_class) == (FaultKind.INIT_MISSING, TRANSIENT)
    assert "catatonit" in fault.hint


async def test_a_limit_of_its_own_does_not_undo_the_hosts_defaults(workload: Workload, podman: IsolatedPodman) -> None:
    """Podman drops default_ulimits as soon as a container sets one limit, and then cannot set its own high ones."""
    live = await workload.ensure(workload.spec(ulimits={"nofile": Ulimit(soft=100, hard=200)}))
    limits = podman.cli("exec", live.container_id, "cat", "/proc/1/limits")
    assert re.search(r"Max open files +100 +200 ", limits)
    assert len(await workload.containers()) == 1


async def test_an_image_of_another_architecture_is_not_started(workload: Workload, images: Images) -> None:
    """C4: also where it is local already, instead of `exec format error` in an endless loop."""
    workload.image = images.foreign()
    fault = await workload.ensure_fails()
    assert (fault.kind, fault.fault_class) == (FaultKind.WRONG_ARCHITECTURE, PERMANENT)
    assert "arm64" in fault.message
    assert "amd64" in fault.message
    assert await workload.containers() == []


@pytest.fixture
def full_disk(files_dir: Path) -> Iterator[Path]:
    """A disk of 64 KiB where the files of manifests are written, full but for a little; removing the ballast makes room."""
    files_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", files_dir], check=True)
    ballast = files_dir / "ballast"
    ballast.write_bytes(b"x" * 55_000)
    yield ballast
    subprocess.run(["umount", "-l", files_dir], check=True)


def make_room(ballast: Path) -> None:
    ballast.unlink()


async def test_a_full_disk(full_disk: Path, workload: Workload) -> None:
    """L5: DiskFull, and it heals when there is room."""
    spec = workload.spec(files=(File(path="/big", content="y" * 20_000),))
    fault = await workload.ensure_fails(spec)
    assert (fault.kind, fault.fault_class) == (FaultKind.DISK_FULL, TRANSIENT)
    assert "No space left on device" in fault.message
    make_room(full_disk)
    await workload.ensure(spec)
    await workload.remove()


async def test_nothing_of_ours_is_left_of_a_spec_that_never_ran(workload: Workload, podman: IsolatedPodman) -> None:
    """C8: the named volume was made before the spec failed."""
    volume = f"{workload.fleet}-cache"
    spec = workload.spec(command=("nope",), mounts=(VolumeMount(source=volume, target="/cache"),))
    fault = await workload.ensure_fails(spec)
    assert fault.kind is FaultKind.COMMAND_NOT_FOUND
    assert volume in podman.cli("volume", "ls", "--quiet")
    await workload.remove()
    assert volume not in podman.cli("volume", "ls", "--quiet")


async def test_a_volume_with_data_outlives_its_workload(workload: Workload, podman: IsolatedPodman) -> None:
    """It is the user's, and the next workload finds it again."""
    volume = f"{workload.fleet}-data"
    write = workload.spec(
        command=("sh", "-c", "echo kept > /data/file; sleep 100"),
        mounts=(VolumeMount(source=volume, target="/data"),),
        stop=StopOptions(timeout=timedelta(0)),
    )
    live = await workload.ensure(write)
    podman.cli("exec", live.container_id, "sh", "-c", "until [ -s /data/file ]; do sleep 0.1; done")
    await workload.remove()
    assert volume in podman.cli("volume", "ls", "--quiet")
    read = workload.spec(mounts=(VolumeMount(source=volume, target="/data", read_only=True),))
    live = await workload.ensure(read)
    assert podman.cli("exec", live.container_id, "cat", "/data/file") == "kept"
    await workload.remove()
    podman.cli("volume", "rm", volume)


async def test_healthchecks_that_cannot_be(workload: Workload) -> None:
    """Whatever Podman makes of a strange one, it is no crash of ours."""
    live = await workload.ensure(workload.spec(healthcheck=Healthcheck(test=("NONE",))))
    assert live.container_id


async def test_no_exception_of_a_chain_holds_a_secret(workload: Workload) -> None:
    """U7: a failure travels with its causes into logs and histories."""
    with pytest.raises(EngineFault) as raised:
        await workload.ensure(workload.spec(environment={"DB_PASSWORD": "geheim\0x"}))
    error: BaseException | None = raised.value
    while error is not None:
        assert "geheim" not in str(error)
        error = error.__cause__ or error.__context__
