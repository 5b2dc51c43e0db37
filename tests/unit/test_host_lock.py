# SPDX-License-Identifier: Apache-2.0
"""A host has one worker, whichever way a second one comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.runtime.host_lock import host_lock, podman_lock
from perdure.runtime.problems import Problem


def test_a_home_has_one_worker_for_each_host(tmp_path: Path) -> None:
    """The message names the process; another host is another matter."""
    refusal = rf"host edge-1 already has a worker, process {os.getpid()} "
    with host_lock(tmp_path, "edge-1"), host_lock(tmp_path, "edge-2"), pytest.raises(Problem, match=refusal):
        host_lock(tmp_path, "edge-1").__enter__()
    with host_lock(tmp_path, "edge-1"):
        pass


def test_a_podman_has_one_worker_for_each_host_of_a_fleet(tmp_path: Path) -> None:
    """By whatever path its socket is reached; another fleet, host or Podman is another matter."""
    sock = tmp_path / "podman.sock"
    link = tmp_path / "link.sock"
    link.symlink_to(sock)
    with podman_lock(f"unix://{sock}", "default", "edge-1"):
        with pytest.raises(Problem, match=rf"edge-1 of fleet default already has .* process {os.getpid()}$"):
            podman_lock(f"unix://{link}", "default", "edge-1").__enter__()
        for url, fleet, host in (
            (sock, "shops", "edge-1"),
            (sock, "default", "edge-2"),
            (tmp_path, "default", "edge-1"),
        ):
            with podman_lock(f"unix://{url}", fleet, host):
                pass
    with podman_lock(f"unix://{sock}", "default", "edge-1"):
        pass
