# SPDX-License-Identifier: Apache-2.0
"""C: what stands in the way of a container: names, ports, mounts, architectures, commands; and what a removal leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from perdure.model.faults import FaultClass, FaultKind
from perdure.model.messages import Outcome
from perdure.policy.identity import container_name
from tests.cases.case import Case, Workload
from tests.cases.stage import Stage
from tests.support.sabotage import half_a_blob

V2: dict[str, Any] = {"environment": {"VERSION": "2"}}


async def next_name(workload: Workload, sleeper: str) -> str:
    """Let the first generation run, and foretell the name of the second one's container."""
    await workload.apply(sleeper)
    status = await workload.runs()
    return container_name(workload.name, 2, status.incarnation)


async def test_c1_the_name_is_taken_by_a_foreign_container(case: Case, sleeper: str) -> None:
    """NameConflict; the foreign one is never touched, the old generation runs on, and it heals when the foreign one goes."""
    web = case.workload()
    name = await next_name(web, sleeper)
    foreign = await case.podman.cli("run", "--detach", "--network=none", f"--name={name}", sleeper)
    answer = await web.apply(sleeper, **V2)
    assert answer.error is not None
    assert (answer.error.kind, answer.error.fault_class) == (FaultKind.NAME_CONFLICT, FaultClass.TRANSIENT)
    assert name in answer.error.hint
    status = await web.has("was tried again", lambda status: status.attempt >= 3)
    assert status.live is not None
    assert case.podman.is_alive(await case.podman.pid(status)), "the old one runs on"
    assert (await case.podman.inspect(foreign))["State"]["Running"]
    await case.podman.cli("rm", "--force", "--time=0", foreign)
    await web.runs(within=10, generation=2)
    assert len(await web.containers()) == 1


async def test_c1_the_name_is_taken_by_one_of_ours(case: Case, sleeper: str) -> None:
    """What a crash has left of the same generation, made otherwise, is replaced."""
    web = case.workload()
    name = await next_name(web, sleeper)
    (container,) = await web.containers()
    labels = {**container["Labels"], "dev.perdure.generation": "2", "dev.perdure.spec": "of another time"}
    options = [f"--label={key}={value}" for key, value in labels.items()]
    await case.podman.cli("create", "--network=none", f"--name={name}", *options, sleeper)
    assert (await web.apply(sleeper, **V2)).outcome is Outcome.RUNNING
    await web.runs(generation=2)
    assert [one["Names"] for one in await web.containers()] == [[name]]


async def test_c1_the_name_is_taken_by_a_leftover_that_ps_does_not_show(case: Case, sleeper: str) -> None:
    """A create that was killed leaves its name in the storage: it is freed, and the container runs."""
    web = case.workload()
    name = await next_name(web, sleeper)
    await asyncio.to_thread(case.host.podman.forget_a_container, name, sleeper)
    assert name not in await case.podman.cli("ps", "--all")
    assert (await web.apply(sleeper, **V2)).outcome is Outcome.RUNNING
    await web.runs(generation=2)


async def test_c2_a_port_that_another_process_holds(case: Case, sleeper: str) -> None:
    """PortInUse, naming the port; it runs when the port is free."""
    web = case.workload()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        answer = await web.apply(sleeper, ports=[f"127.0.0.1:{port}:80"], networks=[])
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (FaultKind.PORT_IN_USE, FaultClass.TRANSIENT)
        assert f"port {port} " in answer.error.hint
    await web.runs(within=10)


async def test_c3_a_mount_that_is_missing(case: Case, sleeper: str, tmp_path: Path) -> None:
    """MountSourceMissing, naming the path; it is never made by us; it runs within seconds once it is there."""
    web = case.workload()
    source = tmp_path / "a disk"
    answer = await web.apply(sleeper, mounts=[f"{source}:/data"], retry={"maximumInterval": "300s"})
    assert answer.error is not None
    assert (answer.error.kind, answer.error.fault_class) == (FaultKind.MOUNT_SOURCE_MISSING, FaultClass.TRANSIENT)
    assert str(source) in answer.error.hint
    await web.has("was tried again", lambda status: status.attempt >= 2)
    assert not source.exists()
    source.mkdir()
    await web.runs(within=10)


PERMANENT: dict[str, tuple[dict[str, Any], FaultKind, list[str]]] = {
    "foreign": ({}, FaultKind.WRONG_ARCHITECTURE, ["arm64", "amd64"]),
    "not-found": ({"command": ["nope"]}, FaultKind.COMMAND_NOT_FOUND, ["executable file not found"]),
    "no-program": ({"command": ["/etc/passwd"]}, FaultKind.COMMAND_NOT_EXECUTABLE, ["permission denied"]),
    "no-user": ({"user": "nobody-here"}, FaultKind.USER_NOT_FOUND, ["unable to find user"]),
    "no-option": ({"sysctls": {"net.ipv4.nothing_here": "1"}}, FaultKind.INVALID_OPTION, ["nothing_here"]),
}


async def test_c4_what_only_a_new_manifest_can_cure(case: Case, stage: Stage, sleeper: str) -> None:
    """Rejected at once, loudly, and tried no more; a new manifest cures each."""
    foreign = await asyncio.to_thread(stage.host.images.foreign)
    workloads = {name: case.workload(name) for name in PERMANENT}
    entries = {
        workloads[name]: {"image": foreign if name == "foreign" else sleeper, **entry}
        for name, (entry, _, _) in PERMANENT.items()
    }
    answers = await case.apply(entries)
    for name, (_, kind, texts) in PERMANENT.items():
        answer = answers[workloads[name]]
        assert answer is not None
        assert answer.outcome is Outcome.REJECTED, answer
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (kind, FaultClass.PERMANENT)
        assert answer.error.attempt <= 2
        assert all(text in answer.error.message for text in texts)
        await workloads[name].until("Failed/Rejected")
    await case.apply({workload: {"image": sleeper} for workload in workloads.values()})
    for workload in workloads.values():
        await workload.runs(generation=2)


async def test_c4_an_image_of_another_architecture_in_a_registry(case: Case, stage: Stage, sleeper: str) -> None:
    """It is refused when it is pulled, and the text names both sides."""
    web = case.workload()
    image = await case.push(architecture="arm64")
    answer = await web.apply(image)
    assert answer.outcome is Outcome.REJECTED
    assert answer.error is not None
    assert answer.error.kind is FaultKind.WRONG_ARCHITECTURE
    assert "arm64" in answer.error.message
    assert "amd64" in answer.error.message
    assert await web.containers() == []


async def test_c5_unicode_arrives_as_it_was_written(case: Case, sleeper: str) -> None:
    """In the environment and in labels."""
    web = case.workload()
    text = "Grüße 👋 日本語\ttab: = \"quoted\" 'too'"
    await web.apply(sleeper, environment={"GREETING": text}, labels={"näme": text})
    status = await web.runs()
    assert status.live is not None
    shown = await case.podman.inspect(status.live.container_id)
    assert f"GREETING={text}" in shown["Config"]["Env"]
    assert shown["Config"]["Labels"]["näme"] == text
    assert await case.podman.cli("exec", status.live.container_id, "sh", "-c", 'echo "$GREETING"') == text


@pytest.mark.parametrize("how", ["delete", "replace"])
async def test_c7_a_lost_monitor_leaves_no_orphan(case: Case, stubborn: str, sleeper: str, how: str) -> None:
    """Podman would wait for the dead monitor for ever, and let the process live on."""
    web = case.workload()
    await web.apply(stubborn)
    status = await web.runs()
    assert status.live is not None
    pid = await case.podman.pid(status)
    monitor = (await case.podman.inspect(status.live.container_id))["State"]["ConmonPid"]
    os.kill(monitor, signal.SIGKILL)
    if how == "delete":
        await web.remove(within=25)
    else:
        assert (await web.apply(sleeper)).outcome is Outcome.RUNNING
        await web.runs(generation=2)
        assert len(await web.containers()) == 1
    assert not case.podman.is_alive(pid)


async def test_c8_a_spec_that_failed_leaves_nothing(case: Case, sleeper: str) -> None:
    """The named volume was made before the command was found to be missing; it goes with the workload."""
    web = case.workload()
    volume = f"cache-{case.mark}"
    answer = await web.apply(
        sleeper, command=["nope"], mounts=[f"{volume}:/cache"], files=[{"path": "/etc/x", "content": "x"}]
    )
    assert answer.outcome is Outcome.REJECTED
    assert volume in await case.podman.cli("volume", "ls", "--quiet")
    assert case.host.files_of(web.name)
    await web.remove()
    assert volume not in await case.podman.cli("volume", "ls", "--quiet")
    assert case.host.files_of(web.name) == []


async def test_c9_the_old_one_runs_until_the_new_image_is_there(case: Case, sleeper: str) -> None:
    """However long the pull takes; then it is replaced at once. The status tells the target, and what is really up."""
    web = case.workload()
    await web.apply(sleeper)
    first = await web.runs()
    pid = await case.podman.pid(first)
    v2 = await case.push("v2")
    case.front.sabotage(case.repository("v2"), half_a_blob())
    await web.send(v2)
    await case.is_asking("v2")
    status = await web.until("Pending/Pulling", generation=2)
    assert status.live == first.live
    assert case.podman.is_alive(pid)
    # The pull breaks off and is tried again, and all the while the old one runs.
    case.front.refuse()
    status = await web.until("Pending/PullBackoff")
    assert status.live == first.live
    assert case.podman.is_alive(pid)
    case.front.recover()
    await web.runs(within=15, generation=2)
    assert not case.podman.is_alive(pid)
    assert len(await web.containers()) == 1
