# SPDX-License-Identifier: Apache-2.0
"""A test session that is killed leaves work for the next one, and nothing more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.leftovers import make_home, sweep
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
SESSION = """
import sys
from tests.support.images import Images
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.registry import Registry
registry = Registry()
registry.start()
podman = IsolatedPodman()
podman.start()
container = podman.run(Images(podman).stubborn())
print(registry.home, podman.service.home, podman.inspect(container)["State"]["Pid"], flush=True)
sys.stdin.read()
"""


def test_what_a_killed_session_left_is_swept_away() -> None:
    """Servers, containers, mounts and folders of a dead session go; those of a living one stay."""
    ours = make_home("here")
    with subprocess.Popen(
        [sys.executable, "-c", SESSION], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as session:
        assert session.stdout is not None
        registry, podman, pid = session.stdout.readline().decode().split()
        assert Path(registry) not in sweep()
        session.kill()
    sweep()
    # Another session on this machine may have been faster, and still be at it.
    eventually(lambda: not any(Path(home).exists() for home in (registry, podman)), within=30)
    assert podman not in Path("/proc/mounts").read_text()
    assert not Path("/proc", pid).exists()
    assert ours.exists()
    (ours / "owner.lock").unlink()
    ours.rmdir()
