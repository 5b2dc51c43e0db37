# SPDX-License-Identifier: Apache-2.0
"""The worker as a process, where something that it needs is not there."""

from __future__ import annotations

from pathlib import Path

from tests.support.ports import free_port
from tests.support.temporal import TemporalServer
from tests.support.waiting import eventually
from tests.support.workers import WorkerProcess


def test_a_worker_without_podman_waits_and_stops_when_told(temporal_server: TemporalServer, tmp_path: Path) -> None:
    """It says what is missing, goes on looking, and SIGTERM ends it at once."""
    temporal_server.start()
    worker = WorkerProcess(
        "--host", "edge-1", temporal=temporal_server.address, home=tmp_path, podman=f"unix://{tmp_path}/none.sock"
    )
    worker.launch()
    eventually(
        lambda: "podman does not answer yet" in worker.log.read_text(), within=60, what="it says what is missing"
    )
    assert worker.stop(within=15) == 0


def test_a_worker_without_temporal_waits_and_stops_when_told(tmp_path: Path) -> None:
    """The same where the server is away."""
    address = f"127.0.0.1:{free_port()}"
    worker = WorkerProcess("--control", temporal=address, home=tmp_path)
    worker.launch()
    eventually(lambda: address in worker.log.read_text(), within=60, what="it says what is missing")
    assert worker.stop(within=15) == 0
