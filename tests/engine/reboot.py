# SPDX-License-Identifier: Apache-2.0
"""A restart of the host, as Podman sees it: no process is left, nor anything below /run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.podman import IsolatedPodman


def pull_the_plug(podman: IsolatedPodman, *container_ids: str) -> None:
    """End everything at once, and lose what is not on a disk. Names the containers that run."""
    states = []
    for container_id in container_ids:
        shown = podman.inspect(container_id)
        assert shown is not None
        states.append(shown["State"])
    podman.kill()
    for state in states:
        for pid in (state["ConmonPid"], state["Pid"]):
            os.kill(int(pid), signal.SIGKILL)
    for mount in re.findall(
        rf"^\S+ ({re.escape(str(podman.service.home))}/\S+)", Path("/proc/mounts").read_text(), re.MULTILINE
    ):
        subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
    runtime = [Path("/run/runc") / container_id for container_id in container_ids]
    for folder in (podman.service.home / "run", podman.service.home / "tmp", *runtime):
        shutil.rmtree(folder)
