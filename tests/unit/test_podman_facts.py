# SPDX-License-Identifier: Apache-2.0
"""What Podman says, read into our words."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activities.architecture import can_run
from activities.engine import Ownership
from activities.podman_facts import (
    exit_from,
    labels_of,
    listed,
    needs_closer_look,
    owner_of,
    parse_time,
)
from activities.podman_processes import Processes
from perdure.model.observation import ContainerState, Health

OWNER = Ownership("fleet", "edge-1", "web", "0a" * 16, 3, "abcd", '{"restart":"always"}', "shop")
ID = "ab" * 32


@pytest.fixture
async def processes(tmp_path: Path) -> Processes:
    """Processes of a service that this very process listens for."""
    path = str(tmp_path / "p.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        processes = Processes(path)
        await processes.learn()
    return processes


def entry(**changes: Any) -> dict[str, Any]:
    """An entry of the list, as Podman 4.3 writes it."""
    return {
        "Id": ID,
        "Names": ["web-g3-0a0a0a0a"],
        "Labels": labels_of(OWNER),
        "State": "exited",
        "Pid": 0,
        "ExitCode": 137,
        "StartedAt": 1_795_975_459,
        "ExitedAt": 1_795_975_460,
        "Status": "",
        **changes,
    }


def test_labels_are_read_back_as_they_were_written() -> None:
    """All a host knows of a container's owner stands there."""
    assert owner_of(labels_of(OWNER)) == OWNER


@pytest.mark.parametrize(
    "labels", [None, {}, {"dev.perdure.fleet": "x"}, {**labels_of(OWNER), "dev.perdure.generation": "many"}]
)
def test_labels_that_are_not_ours_are_nobodys(labels: dict[str, str] | None) -> None:
    """Half of them is not ours either."""
    assert owner_of(labels) is None


def test_an_ended_container_tells_how(processes: Processes) -> None:
    """By the list alone, without an inspection."""
    managed = listed(entry(), processes)
    assert managed is not None
    assert managed.state is ContainerState.EXITED
    assert managed.exit is not None
    assert (managed.exit.code, managed.exit.signal) == (137, "SIGKILL")
    assert managed.exit.at == datetime(2026, 11, 29, 18, 4, 20, tzinfo=UTC)


def test_a_container_that_never_ran_has_no_times(processes: Processes) -> None:
    """Podman writes the year 1."""
    managed = listed(entry(State="created", StartedAt=-62135596800, ExitedAt=-62135596800, ExitCode=0), processes)
    assert managed is not None
    assert (managed.state, managed.started_at, managed.exit) == (ContainerState.CREATED, None, None)


def test_a_removal_that_was_begun_is_as_good_as_done(processes: Processes) -> None:
    """Podman never takes it back, and a crash may leave it like that."""
    managed = listed(entry(State="removing"), processes)
    assert managed is not None
    assert managed.state is ContainerState.MISSING


def test_a_main_process_has_a_monitor_for_its_parent(processes: Processes) -> None:
    """Ours has none. That is a reason to look closer, and no more: a monitor may have an unusual name."""
    managed = listed(entry(State="exited"), processes)
    assert managed is not None
    assert needs_closer_look(replace(managed, state=ContainerState.RUNNING, pid=os.getpid()), processes)
    assert not needs_closer_look(replace(managed, pid=os.getpid()), processes)
    assert processes.strange_parent(os.getpid()) == os.getppid()


def test_a_running_container_without_its_process_is_dead(processes: Processes) -> None:
    """Its monitor was killed, and Podman has not noticed and never will."""
    managed = listed(entry(State="running", Pid=2**22 + 1), processes)
    assert managed is not None
    assert managed.state is ContainerState.DEAD


async def test_nothing_is_called_dead_where_we_cannot_see(tmp_path: Path) -> None:
    """A worker in a container sees other process ids: calling all dead would restart everything for ever."""
    processes = Processes(str(tmp_path / "absent.sock"))
    await processes.learn()
    managed = listed(entry(State="running", Pid=2**22 + 1), processes)
    assert managed is not None
    assert managed.state is ContainerState.RUNNING


def test_a_process_that_took_over_an_old_number_is_not_the_containers(processes: Processes) -> None:
    """After a reboot a stale pid may be anybody's."""
    assert processes.is_gone(ID, os.getpid())


def test_a_process_of_somebody_else_is_never_killed(processes: Processes) -> None:
    """Only one whose cgroup names the container."""
    with subprocess.Popen(["sleep", "60"]) as bystander:
        processes.kill(ID, bystander.pid)
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ("", Health.NONE),
        ("starting", Health.STARTING),
        ("healthy", Health.HEALTHY),
        ("unhealthy", Health.UNHEALTHY),
        ("Up 2 minutes (unhealthy)", Health.UNHEALTHY),
        ("Up 2 minutes", Health.NONE),
    ],
)
def test_health_in_the_words_of_several_versions(processes: Processes, status: str, health: Health) -> None:
    """The list has it in ``Status``."""
    managed = listed(entry(Status=status), processes)
    assert managed is not None
    assert managed.health is health


@pytest.mark.parametrize(
    ("code", "name"), [(0, None), (1, None), (128, None), (139, "SIGSEGV"), (143, "SIGTERM"), (255, None)]
)
def test_signals_by_their_names(code: int, name: str | None) -> None:
    """Above 128 a code tells the signal, if there is one of that number."""
    assert exit_from(code, None).signal == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T18:04:19.973278443Z", datetime(2026, 11, 29, 18, 4, 19, 973278, tzinfo=UTC)),
        ("2026-11-29T19:04:19+01:00", datetime(2026, 11, 29, 18, 4, 19, tzinfo=UTC)),
        ("2026-11-29T18:04:19.5Z", datetime(2026, 11, 29, 18, 4, 19, 500000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_times_with_nanoseconds(text: str, expected: datetime | None) -> None:
    """Python reads six digits."""
    assert parse_time(text) == expected


@pytest.mark.parametrize(
    ("image", "host", "runs"),
    [
        ("amd64", "amd64", True),
        ("386", "amd64", True),
        ("arm", "arm64", True),
        ("s390x", "amd64", False),
        ("", "arm", True),
    ],
)
def test_what_a_processor_runs(image: str, host: str, runs: bool) -> None:
    """Its own, its smaller sibling's, and what says nothing."""
    assert can_run(image, host) is runs
