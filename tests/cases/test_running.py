# SPDX-License-Identifier: Apache-2.0
"""R and U: what happens to containers that run, and what is told of it."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perdure.model.faults import MESSAGE_LIMIT_BYTES, FaultKind
from perdure.model.messages import Outcome
from tests.cases.case import Case, took
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.e2e.command import PROGRAM, Perdure
from tests.support.ports import free_port


async def test_a_container_that_is_killed_runs_again(case: Case, sleeper: str) -> None:
    """The same one, and how it ended is told."""
    web = case.workload()
    await web.apply(sleeper)
    before = await web.runs()
    os.kill(await case.podman.pid(before), signal.SIGKILL)
    after = await web.has("was restarted", lambda status: status.restarts == 1 and status.state == "Running", within=5)
    assert after.live is not None
    assert before.live is not None
    assert after.live.container_id == before.live.container_id
    assert after.live.started_at != before.live.started_at
    assert after.last_exit is not None
    assert (after.last_exit.code, after.last_exit.signal) == (137, "SIGKILL")
    await web.runs()


async def test_r2_a_container_that_is_removed_by_hand_is_back(case: Case, sleeper: str) -> None:
    """Within seconds, as another one; the history says that it ended, or that it was missing, whichever was seen first."""
    web = case.workload()
    await web.apply(sleeper)
    before = await web.runs()
    assert before.live is not None
    await case.podman.cli("rm", "--force", "--time=0", before.live.container_id)
    after = await web.has("is another one", lambda status: status.live not in (None, before.live), within=10)
    assert [step.reason for step in after.history if step.substate == "RestartBackoff"] in (
        ["the container is missing"],
        ["the container ended with code 137"],
    )
    await web.runs()
    assert len(await web.containers()) == 1


async def test_r1_r4_crash_loops_tell_how_they_end(case: Case, sleeper: str) -> None:
    """Code 42, and a program that eats more memory than it may: told after three restarts, too."""
    crash, hungry = case.workload("crash"), case.workload("hungry")
    backoff = {"restartBackoff": {"initial": "300ms", "maximum": "2s"}}
    eat = "x=a; while :; do x=$x$x; done"
    entries: dict[Any, dict[str, Any]] = {
        crash: {"image": sleeper, "command": ["sh", "-c", "exit 42"], **backoff},
        hungry: {"image": sleeper, "command": ["sh", "-c", eat], "resources": {"memory": "16Mi"}, **backoff},
    }
    await case.apply(entries)
    for workload, (code, name) in {crash: (42, None), hungry: (137, "SIGKILL")}.items():
        status = await workload.has("was restarted three times", lambda status: status.restarts >= 3)
        assert status.last_exit is not None
        assert (status.last_exit.code, status.last_exit.signal) == (code, name)
        assert status.last_exit.at is not None
        assert len(await workload.containers()) == 1


async def test_r1_a_crash_loop_ends_by_itself_when_its_cause_does(case: Case, sleeper: str, tmp_path: Path) -> None:
    """No human is needed: the next restart runs, and stays."""
    web = case.workload()
    command = ["sh", "-c", "[ -e /cause/gone ] || exit 1; trap 'exit 0' TERM; while :; do sleep 0.2; done"]
    await web.apply(sleeper, command=command, mounts=[f"{tmp_path}:/cause:ro"])
    await web.has("was restarted", lambda status: status.restarts >= 2)
    (tmp_path / "gone").touch()
    status = await web.has("runs", lambda status: status.state == "Running", within=10)
    restarts = status.restarts
    assert (await web.runs()).restarts in (restarts, restarts + 1)


@pytest.fixture
def command(stage: Stage) -> Perdure:
    """The command line, as a user of the fleet."""
    home = stage.host.home / "user" / "home"
    home.mkdir(parents=True, exist_ok=True)
    return Perdure(home, {"TEMPORAL_ADDRESS": stage.temporal.address, "NO_COLOR": "1"})


async def test_u1_an_error_of_four_kibibytes(case: Case, sleeper: str, command: Perdure) -> None:
    """Its end names the culprit: both ends are in JSON, and a table on a terminal cuts its middle."""
    web = case.workload()
    source = "/no/such" + "/very-long-name" * 260 + "/culprit"
    assert len(source) > 3900
    answer = await web.apply(sleeper, mounts=[f"{source}:/data"])
    assert answer.error is not None
    assert answer.error.kind is FaultKind.MOUNT_SOURCE_MISSING
    status = (await asyncio.to_thread(command, "describe", web.name, "-o", "json")).data
    message = status["lastError"]["message"]
    assert len(message.encode()) <= MESSAGE_LIMIT_BYTES
    assert message.startswith(f"cannot create container {web.name}-g1-")
    assert message.endswith("/culprit: no such file or directory")
    assert "bytes cut" in message
    piped = await asyncio.to_thread(command, "get", "workloads", web.name)
    assert message in piped.out, "nothing is cut where no terminal is"
    shown = await asyncio.to_thread(on_a_terminal, command, "get", "workloads", web.name)
    row = next(line for line in shown.splitlines() if web.name in line)
    assert len(row) <= COLUMNS
    assert "MountSourceMissing: cannot" in row
    assert row.rstrip().endswith("directory")


COLUMNS = 130


def on_a_terminal(command: Perdure, *arguments: str) -> str:
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    environment = {**command.environment, "COLUMNS": str(COLUMNS), "LINES": "24", "TERM": "xterm"}
    with subprocess.Popen(
        [*PROGRAM, *arguments], env=environment, cwd=command.folder, stdout=theirs, stderr=theirs, stdin=theirs
    ):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the last one has closed the terminal
            pass
    os.close(ours)
    return shown.decode()


async def test_u3_a_delete_elsewhere_ends_a_wait(case: Case) -> None:
    """Whoever waits for an apply is told within two seconds."""
    web = case.workload()
    image = await case.push()
    case.front.silence()
    waiting = asyncio.create_task(web.apply(image))
    await web.until("Pending/Pulling")
    await web.ask_to_go()
    seconds, answer = await took(waiting)
    assert answer.outcome is Outcome.REMOVED
    assert seconds < patience(2)


U4 = """\
apiVersion: perdure/v1
name: NAME
workloads:
  NAME:
    host: edge-1
    image: IMAGE
    restart: always
    networks: []
    stop: {timeout: 0s}
    ports: [PORT:22]
    environment:
      PERDURE_CASE: MARK
      COUNTRY: NO
      PIN: "0123"
      VER: "1.10"
      on: x
      y: z
"""


async def test_u4_what_yaml_would_change_arrives_or_is_refused(case: Case, sleeper: str, command: Perdure) -> None:
    """Texts as they were written, a port that is no number of base sixty; what is not clear is refused, and nothing sent."""
    web, port = case.workload(), free_port()
    text = (
        U4.replace("NAME", web.name).replace("IMAGE", sleeper).replace("PORT:", f"{port}:").replace("MARK", case.mark)
    )
    for written, refused in {'"0123"': "0123", '"1.10"': "1.10", "restart: always": "restart: no"}.items():
        done = await asyncio.to_thread(command, "apply", "-f", "-", stdin=text.replace(written, refused), code=2)
        assert "<stdin>:" in done.err
    assert web.name not in (await asyncio.to_thread(command, "get", "workloads", "-o", "name")).out
    await asyncio.to_thread(command, "apply", "-f", "-", stdin=text)
    status = await web.runs()
    assert status.live is not None
    shown = await case.podman.inspect(status.live.container_id)
    environment = dict(entry.split("=", 1) for entry in shown["Config"]["Env"])
    wanted = {"COUNTRY": "NO", "PIN": "0123", "VER": "1.10", "on": "x", "y": "z"}
    assert {key: environment.get(key) for key in wanted} == wanted
    assert shown["HostConfig"]["PortBindings"] == {"22/tcp": [{"HostIp": "", "HostPort": str(port)}]}
