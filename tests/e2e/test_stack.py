# SPDX-License-Identifier: Apache-2.0
"""The embedded stack: started, killed in parts and as a whole, adopted, several side by side, and removed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial

import pytest
from temporalio.client import Client

from perdure.runtime.processes import Process
from tests.e2e.command import ROOT, Perdure
from tests.support.podman import IsolatedPodman
from tests.support.ports import free_port
from tests.support.waiting import eventually, eventually_async

NewHome = Callable[[], Perdure]


def up(perdure: Perdure, host: str = "edge-1") -> None:
    perdure("up", "--detach", "--temporal-port", "0", "--host", host)


def kill(perdure: Perdure, *parts: str) -> None:
    """Kill parts as a power cut would."""
    processes = [process for part in parts if (process := perdure.process(part)) is not None]
    assert len(processes) == len(parts)
    for process in processes:
        process.send(signal.SIGKILL)
    eventually(lambda: not any(process.running for process in processes), within=30)


def pids(perdure: Perdure) -> dict[str, int | None]:
    """The processes of the stack."""
    parts = ("supervisor", "temporal", "control", "host")
    return {part: process.pid if (process := perdure.process(part)) else None for part in parts}


def is_new(perdure: Perdure, part: str, before: int | None) -> bool:
    """Whether another process has taken the place of a part."""
    process = perdure.process(part)
    return process is not None and process.pid != before


def test_up_can_be_repeated_and_down_stops_all(new_home: NewHome) -> None:
    """The second up changes nothing; after down nothing runs, and a second down says so."""
    perdure = new_home()
    up(perdure)
    first = pids(perdure)
    assert None not in first.values()
    up(perdure)
    assert pids(perdure) == first
    assert perdure("down").out == "stopped: temporal, control, host\n"
    assert set(pids(perdure).values()) == {None}
    assert perdure("down").out == f"nothing was running in {perdure.home}\n"
    perdure("get", "workloads", code=5)


def test_an_apply_that_the_server_survives_only_in_part_says_which(new_home: NewHome, image: str) -> None:
    """The server dies in the middle of 150 sends: what is said to be accepted is there, what is said to be not sent is not."""
    perdure = new_home()
    up(perdure)
    kill(perdure, "supervisor")
    kill(perdure, "control", "host")
    file = perdure.manifest({f"web-{number}": {"image": image} for number in range(150)}, host="nowhere")
    applying = perdure.start("apply", "-f", file, "--wait", "none")
    asyncio.run(some_are_there(perdure.address))
    kill(perdure, "temporal")
    out, err = applying.communicate(timeout=120)
    rows = [line.split()[:2] for line in out.splitlines()[1:]]
    said = {
        progress: {label for label, word in rows if word == progress}
        for progress in ("accepted", "uncertain", "notSent")
    }
    assert sum(map(len, said.values())) == 150
    assert said["accepted"]
    assert said["notSent"]
    assert applying.returncode == 5
    assert err.startswith(
        f"error: the server failed in the middle: {len(said['accepted'])} of 150 workloads were accepted\n"
    )
    up(perdure)
    there = set(perdure("get", "workloads", "-o", "name").out.split())
    assert said["accepted"] <= there
    assert said["notSent"].isdisjoint(there)


async def some_are_there(address: str) -> None:
    """Wait until the first workloads have reached the server."""
    client = await Client.connect(address)

    async def count() -> int:
        return (await client.count_workflows('WorkflowType="Workload"')).count

    await eventually_async(count, within=60)


def test_the_web_ui_answers_at_the_address_that_is_shown(new_home: NewHome) -> None:
    perdure = new_home()
    port = free_port()
    out = perdure("up", "-d", "--temporal-port", "0", "--ui-port", str(port), "--host", "edge-1").out
    assert f"Web UI    http://127.0.0.1:{port}\n" in out
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert answer.status == 200


def test_an_accepted_apply_survives_the_death_of_everything(new_home: NewHome, image: str) -> None:
    """Workers away, the apply accepted, then all is killed at once: the next up brings the workload to life."""
    perdure = new_home()
    up(perdure)
    kill(perdure, "supervisor")
    kill(perdure, "control", "host")
    file = perdure.manifest({f"web-{number}": {"image": image} for number in range(5)})
    done = perdure("apply", "-f", file, "--wait", "none")
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["accepted"] * 5
    kill(perdure, "temporal")
    assert set(pids(perdure).values()) == {None}
    up(perdure)
    for number in range(5):
        perdure("wait", f"web-{number}", "--timeout", "60s")


def test_without_a_control_worker_an_apply_is_accepted_and_says_so(new_home: NewHome, image: str) -> None:
    """Code 5 in ten seconds and a few; what was accepted is shown and takes effect later."""
    perdure = new_home()
    up(perdure)
    kill(perdure, "supervisor")
    control = perdure.process("control")
    assert control is not None
    control.send(signal.SIGTERM)
    eventually(lambda: perdure.process("control") is None, within=30)
    begun = time.monotonic()
    done = perdure("apply", "-f", perdure.manifest({"web": {"image": image}}), code=5)
    assert time.monotonic() - begun < 30
    assert "noControlWorker" in done.out
    assert "no control worker, last seen" in done.out
    assert perdure.status("edge-1/web")["state"] == "Pending"
    assert "no control worker" in perdure("wait", "edge-1/web", code=5).err
    up(perdure)
    perdure("wait", "web")


def test_a_dead_part_is_started_again(new_home: NewHome, image: str) -> None:
    """Whichever it is; the container lives through all of it."""
    perdure = new_home()
    up(perdure)
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    container = perdure.status("web")["live"]["containerId"]
    for part in ("temporal", "control", "host"):
        before = pids(perdure)
        kill(perdure, part)
        eventually(partial(is_new, perdure, part, before[part]), within=60)
    eventually(lambda: perdure("get", "workloads", code=None).code == 0, within=60)
    status = perdure.status("web")
    assert (status["state"], status["live"]["containerId"]) == ("Running", container)


def test_a_new_supervisor_adopts_what_runs(new_home: NewHome) -> None:
    """Its death ends nothing, and the next up replaces only it."""
    perdure = new_home()
    up(perdure)
    before = pids(perdure)
    kill(perdure, "supervisor")
    up(perdure)
    after = pids(perdure)
    assert after["supervisor"] not in (None, before["supervisor"])
    assert {**after, "supervisor": None} == {**before, "supervisor": None}


def test_workers_follow_a_server_that_moved(new_home: NewHome, image: str) -> None:
    """Those that a killed supervisor left would look for the server where it was."""
    perdure = new_home()
    up(perdure)
    before = pids(perdure)
    kill(perdure, "supervisor", "temporal")
    up(perdure)
    after = pids(perdure)
    assert {before["control"], before["host"]}.isdisjoint({after["control"], after["host"]})
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))


def test_a_podman_that_does_not_answer_is_told_at_once(new_home: NewHome) -> None:
    perdure = new_home()
    perdure.environment["PERDURE_PODMAN"] = "/nowhere/podman.sock"
    done = perdure("up", "--detach", "--temporal-port", "0", code=1)
    assert done.err.startswith(
        "error: no Podman answers at unix:///nowhere/podman.sock, which PERDURE_PODMAN names\nhint: "
    )


def test_down_works_without_a_supervisor(new_home: NewHome) -> None:
    perdure = new_home()
    up(perdure)
    kill(perdure, "supervisor")
    assert perdure("down").out == "stopped: temporal, control, host\n"
    assert set(pids(perdure).values()) == {None}


def test_lost_pid_files_are_no_loss(new_home: NewHome) -> None:
    """What runs is found again by what it is: up keeps it, down stops it, and another stack is none of its business."""
    perdure, other = new_home(), new_home()
    up(other, "edge-2")
    up(perdure)
    before, others = pids(perdure), pids(other)
    lose_pid_files(perdure)
    assert set(pids(perdure).values()) == {None}
    up(perdure)
    assert pids(perdure) == before
    lose_pid_files(perdure)
    processes = [process for pid in before.values() if pid is not None and (process := Process.of(pid)) is not None]
    assert perdure("down").out == "stopped: temporal, control, host\n"
    assert not any(process.running for process in processes)
    assert pids(other) == others


def lose_pid_files(perdure: Perdure) -> None:
    for file in (perdure.home / "run").glob("*.pid"):
        file.unlink()


def test_the_home_of_another_user_is_told_as_such(new_home: NewHome) -> None:
    """Its ports would be told as taken else, and its stack as not running."""
    perdure = new_home()
    run = perdure.home / "run"
    run.mkdir(parents=True)
    os.chown(run, 1, 1)
    done = perdure("up", "--detach", "--temporal-port", "0", code=1)
    assert done.err.startswith(f"error: the stack in {perdure.home} is that of daemon\nhint: Act as daemon, or ")
    assert set(pids(perdure).values()) == {None}


def test_up_tells_why_the_worker_of_its_host_is_not_ready(new_home: NewHome) -> None:
    """The host has a worker already, on the same Podman, of a stack of the same names."""
    one, other = new_home(), new_home()
    up(one)
    holder = pids(one)["host"]
    done = other("up", "--detach", "--temporal-port", "0", "--host", "edge-1", code=1)
    assert done.err.startswith("error: the host worker cannot start; the stack goes on trying: host edge-1 of fleet ")
    assert (
        f"already has a worker on the Podman at {one.environment['PERDURE_PODMAN'].removeprefix('unix://')}" in done.err
    )
    assert f"process {holder}" in done.err


def test_two_stacks_run_side_by_side(new_home: NewHome, image: str, clean_podman: IsolatedPodman) -> None:
    """Each has its own workloads, and the end of one is none of the other's business."""
    one, other = new_home(), new_home()
    up(one, "edge-1")
    up(other, "edge-2")
    one("apply", "-f", one.manifest({"web": {"image": image}}, host="edge-1"))
    other("apply", "-f", other.manifest({"web": {"image": image}}, host="edge-2"))
    assert one("get", "workloads", "-o", "name").out == "edge-1/web\n"
    assert other("get", "workloads", "-o", "name").out == "edge-2/web\n"
    one("down")
    assert other.status("web")["state"] == "Running"
    assert len([shown for shown in clean_podman.containers() if shown["State"] == "running"]) == 2


def test_containers_outlive_the_stack_and_purge_removes_them(
    new_home: NewHome, image: str, clean_podman: IsolatedPodman
) -> None:
    """Down leaves them alone; with --purge they go, with the state, but not those of another server with the same names."""
    perdure = new_home()
    up(perdure)
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    mine = perdure.status("web")["live"]["containerId"]
    perdure("down")
    shown = clean_podman.inspect(mine)
    assert shown is not None
    labels = {**shown["Config"]["Labels"], "dev.perdure.fleet-id": "another-server"}
    foreign = clean_podman.run(image, options=tuple(f"--label={name}={value}" for name, value in labels.items()))
    assert clean_podman.is_alive(mine)
    assert perdure("down", "--purge").out.endswith(f"removed: 1 containers, and all state in {perdure.home}\n")
    assert clean_podman.inspect(mine) is None
    assert clean_podman.is_alive(foreign)
    assert not perdure.home.exists()


@pytest.mark.parametrize(
    ("option", "what"), [("--temporal-port", "Temporal"), ("--ui-port", "the Web UI")], ids=["temporal", "ui"]
)
@pytest.mark.parametrize("mode", ["--detach", ""])
def test_a_taken_port_is_named_with_its_option(new_home: NewHome, option: str, what: str, mode: str) -> None:
    """Detached or not, and nothing is left running."""
    perdure = new_home()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--temporal-port", "0"] if option == "--ui-port" else []
        done = perdure("up", *filter(None, [mode]), *options, option, str(port), code=1)
    assert (
        done.err.splitlines()[0]
        == f"error: port {port} for {what} is taken: another program listens on 127.0.0.1:{port}"
    )
    assert option in done.err.splitlines()[1]
    assert set(pids(perdure).values()) == {None}


def test_without_a_temporal_program_up_says_what_to_install(new_home: NewHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on PATH nor beside our Python."""
    perdure = new_home()
    perdure.environment["PATH"] = "/usr/bin:/bin"
    monkeypatch.setattr("tests.e2e.command.PROGRAM", _program_elsewhere())
    done = perdure("up", "--detach", "--temporal-port", "0", code=1)
    assert done.err.startswith("error: the program `temporal` is not installed\nhint: Install it")


def _program_elsewhere() -> tuple[str, ...]:
    """The program, led to believe that it is installed where nothing else is."""
    lie = "sys.executable = '/nowhere/python'"
    code = f"import sys; sys.path.append({str(ROOT)!r}); {lie}; from client.cli.app import main; main()"
    return (sys.executable, "-P", "-c", code)


def test_a_home_that_cannot_be_made_is_named(new_home: NewHome) -> None:
    perdure = new_home()
    file = perdure.folder / "file"
    file.write_text("")
    perdure.environment["PERDURE_HOME"] = str(file / "home")
    done = perdure("up", "--detach", "--temporal-port", "0", code=1)
    assert done.err.startswith(f"error: the home {file}/home cannot be made: Not a directory\nhint: ")
    perdure.environment["PERDURE_HOME"] = str(perdure.home)


def test_the_foreground_stops_all_at_ctrl_c(new_home: NewHome) -> None:
    perdure = new_home()
    running = perdure.start("up", "--temporal-port", "0", "--host", "edge-1")
    assert running.stdout is not None
    shown = "".join(running.stdout.readline() for _ in range(4))
    assert shown.startswith("Temporal  127.0.0.1:")
    assert None not in pids(perdure).values()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert set(pids(perdure).values()) == {None}


def test_a_stack_keeps_its_own_settings_where_temporals_say_otherwise(new_home: NewHome, image: str) -> None:
    """TEMPORAL_ADDRESS of another server must not lead the workers astray."""
    perdure = new_home()
    perdure.environment["TEMPORAL_ADDRESS"] = "127.0.0.1:1"
    up(perdure)
    del perdure.environment["TEMPORAL_ADDRESS"]
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))


def test_the_state_is_kept_over_a_restart(new_home: NewHome, image: str) -> None:
    """The same container, the same generation, the same history."""
    perdure = new_home()
    up(perdure)
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    before = perdure.status("web")
    perdure("down")
    up(perdure)
    after = perdure.status("web")
    assert json.dumps(after["live"]) == json.dumps(before["live"])
    assert after["history"][: len(before["history"])] == before["history"]


def test_a_home_that_the_database_cannot_have_is_refused(new_home: NewHome) -> None:
    """SQLite would take what follows a question mark for options, and keep the state outside of the home."""
    perdure = new_home()
    perdure.environment["PERDURE_HOME"] = str(perdure.folder / "what?")
    done = perdure("up", "--detach", "--temporal-port", "0", code=1)
    assert "has ? in it" in done.err
    assert list(perdure.folder.iterdir()) == []


def test_a_stack_that_is_down_is_not_mistaken_for_another(new_home: NewHome, image: str) -> None:
    """Neither for one that got its port, nor for one at the default address."""
    perdure = new_home()
    up(perdure)
    perdure("down")
    done = perdure("apply", "-f", perdure.manifest({"web": {"image": image}}), code=5)
    assert "does not run" in done.err


def test_a_new_stack_of_the_same_name_removes_no_container_of_the_old_one(
    new_home: NewHome, image: str, clean_podman: IsolatedPodman
) -> None:
    """Both have the default names; the new server knows nothing of the old one's workloads, so they are none of its business."""
    old, new = new_home(), new_home()
    up(old)
    old("apply", "-f", old.manifest({"web": {"image": image}}))
    container = old.status("web")["live"]["containerId"]
    old("down")
    up(new)
    new("apply", "-f", new.manifest({"other": {"image": image}}))
    log = new.home / "logs" / "host.log"
    eventually(lambda: "left alone" in log.read_text(), within=30)
    assert clean_podman.is_alive(container)
    new("delete", "other")
    new("down")
    up(old)
    assert old.status("web")["live"]["containerId"] == container
