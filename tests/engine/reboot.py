# SPDX-License-Identifier: Apache-2.0
"""A restart of the host, as Podman sees it: no process is left, nor anything below /run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from activities.engine import Managed
from tests.support.podman import IsolatedPodman


def pull_the_plug(podman: IsolatedPodman, managed: Managed) -> None:
    """End everything at once, and lose what is not on a disk."""
    shown = podman.inspect(managed.container_id)
    assert shown is not None
    podman.kill()
    for pid in (int(shown["State"]["ConmonPid"]), managed.pid):
        os.kill(pid, signal.SIGKILL)
    for mount in re.findall(
        rf"^\S+ ({re.escape(str(podman.service.home))}/\S+)", Path("/proc/mounts").read_text(), re.MULTILINE
    ):
        subprocess.run(["umount", "-l", mount], check=False)
    for folder in (podman.service.home / "run", podman.service.home / "tmp", Path("/run/runc") / managed.container_id):
        shutil.rmtree(folder)
