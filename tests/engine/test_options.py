# SPDX-License-Identifier: Apache-2.0
"""Every option of a spec really takes effect in the container: Podman ignores much that it does not like without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from perdure.model.workload import (
    BindMount,
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
from tests.support.ports import free_ports, is_listening
from tests.support.waiting import eventually


@pytest.fixture
def network(podman: IsolatedPodman) -> Iterator[str]:
    """A network of our own; names are shared with the whole machine."""
    name = f"perdure-{uuid4().hex[:8]}"
    podman.cli("network", "create", name)
    yield name
    podman.cli("network", "rm", "-f", name)


async def test_what_the_process_sees(workload: Workload, podman: IsolatedPodman, tmp_path: Path) -> None:
    """One container with everything that can be looked at from inside."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "seen").write_text("bound")
    podman.cli("secret", "create", f"{workload.fleet}-s", "-", stdin=b"hidden")
    volume = f"{workload.fleet}-v"
    spec = workload.spec(
        environment={"PORT": "8080", "EMPTY": "", "UNICODE": "größe 😀"},
        user="1000:1000",
        working_dir="/tmp",
        hostname="shop",
        read_only=True,
        cap_drop=("ALL",),
        sysctls={"net.ipv4.ip_unprivileged_port_start": "80"},
        extra_hosts={"db": "10.1.2.3"},
        devices=("/dev/null:/dev/nothing:rw",),
        ulimits={"core": Ulimit(soft=0, hard=0), "nofile": Ulimit(soft=512, hard=1024)},
        labels={"größe": "😀"},
        annotations={"note": "größe"},
        secrets=(SecretMount(name=f"{workload.fleet}-s"), SecretMount(name=f"{workload.fleet}-s", env="SECRET")),
        mounts=(
            BindMount(source=str(tmp_path / "host"), target="/bound", read_only=True),
            TmpfsMount(target="/scratch", size=1 << 20, mode=0o1777),
            VolumeMount(source=volume, target="/v1"),
            VolumeMount(source=volume, target="/v2", read_only=True),
        ),
        resources=Resources(memory=64 << 20, cpus=0.5, pids=50),
        stop=StopOptions(signal="SIGUSR1", timeout=timedelta(seconds=3)),
        healthcheck=Healthcheck(test=("CMD", "true"), interval=timedelta(seconds=7), start_period=timedelta(seconds=2)),
    )
    live = await workload.ensure(spec)

    def sees(command: str) -> str:
        return podman.cli("exec", live.container_id, "sh", "-c", command)

    assert sees('echo "$PORT|$EMPTY|$UNICODE|$SECRET"') == "8080||größe 😀|hidden"
    assert sees("id -u; id -g; pwd; hostname") == "1000\n1000\n/tmp\nshop"
    assert sees("echo x 2>/dev/null > /etc/new || echo refused") == "refused"
    assert sees("grep CapEff /proc/self/status").endswith("0000000000000000")
    assert sees("cat /proc/sys/net/ipv4/ip_unprivileged_port_start") == "80"
    assert "10.1.2.3" in sees("cat /etc/hosts")
    assert sees("test -c /dev/nothing && echo device") == "device"
    limits = sees("cat /proc/1/limits")
    assert re.search(r"Max core file size +0 +0 ", limits)
    assert re.search(r"Max open files +512 +1024 ", limits)
    assert sees(f"cat /run/secrets/{workload.fleet}-s") == "hidden"
    assert sees("cat /bound/seen") == "bound"
    assert sees("echo x 2>/dev/null > /bound/new || echo refused") == "refused"
    assert sees("df -k /scratch | tail -1 | awk '{print $2}'; stat -c %a /scratch") == "1024\n1777"
    assert sees("mount | grep -c ' /v[12] '") == "2"

    shown = podman.inspect(live.container_id)
    assert shown is not None
    host = shown["HostConfig"]
    assert (host["Memory"], host["CpuQuota"], host["CpuPeriod"], host["PidsLimit"]) == (64 << 20, 50_000, 100_000, 50)
    assert shown["Config"]["StopSignal"] == 10
    assert shown["Config"]["StopTimeout"] == 3
    assert shown["Config"]["Labels"]["größe"] == "😀"
    assert shown["Config"]["Annotations"]["note"] == "größe"
    assert shown["Config"]["Healthcheck"] == {
        "Test": ["CMD", "true"],
        "StartPeriod": 2_000_000_000,
        "Interval": 7_000_000_000,
        "Timeout": 30_000_000_000,
        "Retries": 3,
    }
    await workload.remove()
    podman.cli("secret", "rm", f"{workload.fleet}-s")


async def test_the_image_speaks_where_the_spec_is_silent(workload: Workload, podman: IsolatedPodman) -> None:
    """No command, no entrypoint: those of the image."""
    live = await workload.ensure()
    shown = podman.inspect(live.container_id)
    assert shown is not None
    assert shown["Config"]["Cmd"][0] == "sh"


@pytest.mark.parametrize(
    ("entrypoint", "command", "path", "arguments"),
    [
        (None, ("sleep", "99"), "sh", ["-c", "sleep 5; :", "sleep", "99"]),
        (("sleep",), ("98",), "sleep", ["98"]),
        ((), ("sleep", "97"), "sleep", ["97"]),
    ],
    ids=["from the image", "replaced", "none"],
)
async def test_entrypoint_and_command(
    workload: Workload,
    images: Images,
    podman: IsolatedPodman,
    entrypoint: tuple[str, ...] | None,
    command: tuple[str, ...],
    path: str,
    arguments: list[str],
) -> None:
    """Also an entrypoint that is taken away, which podman-py cannot say."""
    workload.image = images.make("entry:1", changes=('ENTRYPOINT ["sh", "-c", "sleep 5; :"]',))
    live = await workload.ensure(workload.spec(entrypoint=entrypoint, command=command))
    shown = podman.inspect(live.container_id)
    assert shown is not None
    assert (shown["Path"], shown["Args"]) == (path, arguments)


async def test_published_ports(workload: Workload, podman: IsolatedPodman) -> None:
    """One container port on two host ports, TCP and UDP."""
    first, second, third = free_ports(3)
    serving = ("sh", "-c", "trap 'exit 0' TERM; httpd -f -p 8080 & wait")
    await workload.ensure(
        workload.spec(
            networks=(),
            command=serving,
            ports=(
                PortMapping(container=8080, host=first, ip="127.0.0.1"),
                PortMapping(container=8080, host=second, ip="127.0.0.1"),
                PortMapping(container=53, host=third, protocol="udp", ip="127.0.0.1"),
            ),
        )
    )
    eventually(lambda: is_listening(first) and is_listening(second), within=5)
    (shown,) = podman.containers(f"dev.perdure.fleet={workload.fleet}")
    assert {(port["host_port"], port["protocol"]) for port in shown["Ports"]} == {
        (first, "tcp"),
        (second, "tcp"),
        (third, "udp"),
    }


async def test_networks(workload: Workload, podman: IsolatedPodman, network: str) -> None:
    """A named one, the host's, and none."""
    modes = {}
    for generation, networks in enumerate(((network,), ("host",), ("none",), ()), start=1):
        live = await workload.ensure(workload.spec(networks=networks), generation=generation)
        shown = podman.inspect(live.container_id)
        assert shown is not None
        modes[networks] = (shown["HostConfig"]["NetworkMode"], list(shown["NetworkSettings"].get("Networks") or {}))
    assert modes[(network,)] == ("bridge", [network])
    assert modes[("host",)][0] == "host"
    assert modes[("none",)][0] == "none"
    assert modes[()] == ("bridge", ["podman"])


async def test_privileged(workload: Workload, podman: IsolatedPodman) -> None:
    """All capabilities that the service has."""
    live = await workload.ensure(workload.spec(privileged=True))
    shown = podman.inspect(live.container_id)
    assert shown is not None
    assert shown["HostConfig"]["Privileged"]


async def test_a_spec_is_never_changed_by_its_use(workload: Workload) -> None:
    """The same spec twice gives the same container twice."""
    spec = workload.spec(mounts=(VolumeMount(source=f"{workload.fleet}-m", target="/m", read_only=True),))
    before = spec.model_copy(deep=True)
    await workload.ensure(spec)
    await workload.remove()
    await workload.ensure(spec)
    assert spec == before
