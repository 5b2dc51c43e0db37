# SPDX-License-Identifier: Apache-2.0
"""Processes are found again without their pid files, and no other one is taken for them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.runtime import rediscovery
from perdure.runtime.processes import Process
from perdure.runtime.stack_record import (
    SUPERVISOR_LOCK,
    StackRecord,
    owner_of,
    pid_file_of,
    run_folder,
    write_record,
)

ADDRESS = "127.0.0.1:7233"
SLEEP = "import sys, time; print(flush=True); time.sleep(60)"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose stack was up, without a pid file."""
    home = tmp_path / "home"
    run_folder(home).mkdir(parents=True)
    record = StackRecord(temporal_address=ADDRESS, ui_url="", fleet="default", host="edge-1", podman_url="")
    write_record(home, record)
    return home


@contextmanager
def running(*arguments: str, cwd: Path, address: str = ADDRESS) -> Iterator[Process]:
    """A process that sleeps, with these last arguments."""
    with subprocess.Popen(
        [sys.executable, "-c", SLEEP, *arguments],
        cwd=cwd,
        env={**os.environ, "TEMPORAL_ADDRESS": address},
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = Process.of(child.pid)
        assert process is not None
        try:
            yield process
        finally:
            child.kill()


def test_a_worker_is_found_by_its_folder_arguments_and_server(home: Path, tmp_path: Path) -> None:
    """Not one that works elsewhere, serves another host or another server, or is something else altogether."""
    with (
        running("--host", "edge-1", cwd=tmp_path),
        running("--host", "edge-2", cwd=home),
        running("--host", "edge-1", cwd=home, address="127.0.0.1:1"),
        running("--host", "edge-1", "--verbose", cwd=home),
    ):
        rediscovery.restore_pid_files(home)
        assert list(run_folder(home).iterdir()) == []
        with running("--host", "edge-1", cwd=home) as host, running("--control", cwd=home) as control:
            rediscovery.restore_pid_files(home)
            assert pid_file_of(home, "host").running() == host
            assert pid_file_of(home, "control").running() == control


def test_a_pid_file_that_is_right_is_left_alone(home: Path) -> None:
    """Two of a kind may run for a moment, while one takes the other's place."""
    with running("--control", cwd=home) as first, running("--control", cwd=home) as second:
        for process in (first, second):
            pid_file_of(home, "control").write(process)
            rediscovery.restore_pid_files(home)
            assert pid_file_of(home, "control").running() == process


def test_a_supervisor_is_who_holds_the_lock(home: Path) -> None:
    """Who merely has it open is none."""
    lock = run_folder(home) / SUPERVISOR_LOCK
    with lock.open("w") as file:
        rediscovery.restore_pid_files(home)
        assert pid_file_of(home, "supervisor").running() is None
        fcntl.flock(file, fcntl.LOCK_EX)
        rediscovery.restore_pid_files(home)
        assert pid_file_of(home, "supervisor").running() == Process.of(os.getpid())


def test_where_no_stack_was_nothing_is_looked_for(tmp_path: Path) -> None:
    with running("--control", cwd=tmp_path):
        rediscovery.restore_pid_files(tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_the_owner_of_a_stack_is_told_where_it_is_not_us(home: Path, tmp_path: Path) -> None:
    assert owner_of(home) is None
    assert owner_of(tmp_path) is None
    if os.geteuid() == 0:
        os.chown(run_folder(home), 12345, 12345)
        assert owner_of(home) == "user 12345"
        os.chown(run_folder(home), 1, 1)
        assert owner_of(home) == "daemon"
