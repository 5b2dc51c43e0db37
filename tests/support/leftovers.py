# SPDX-License-Identifier: Apache-2.0
"""Folders of test servers, and what a test session that was killed has left of them.

A session cleans up behind itself whenever it can. One that was ended by SIGKILL cannot: its servers live on, with mounts and
folders. So each folder says whose it is, and the next session removes those whose owner is gone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from perdure.runtime.podman_service import PodmanService

PREFIX: Final = "perdure-test-"
OWNER: Final = "owner.lock"
"""Locked by the session that made the folder; the kernel frees it when the process ends, however it ends."""
ROOT: Final = Path("/tmp")
"""Not $TMPDIR: the path of a socket must be short."""


def make_home(kind: str) -> Path:
    """A new folder for a server, marked as this process's own."""
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=ROOT))
    # Never closed on purpose: the lock lasts as long as this process. It is locked before a sweep can see it.
    unseen = home / "owner.new"
    fcntl.flock(os.open(unseen, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    unseen.rename(home / OWNER)
    return home


def sweep() -> list[Path]:
    """Remove what dead sessions of this user have left, processes and mounts included; returns the folders."""
    orphaned = [home for home in ROOT.glob(f"{PREFIX}*") if _is_orphaned(home)]
    for home in orphaned:
        _kill_users_of(home)
        if (home / "podman.pid").exists():
            PodmanService(home, private=True).destroy()
        shutil.rmtree(home, ignore_errors=True)
    return orphaned


def _is_orphaned(home: Path) -> bool:
    try:
        owner = os.open(home / OWNER, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(owner)


def _kill_users_of(home: Path) -> None:
    """Kill the servers that were started with a path in the folder among their arguments, or work in it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes()
            if f"{home}/".encode() in arguments or (process / "cwd").readlink().is_relative_to(home):
                os.kill(int(process.name), signal.SIGKILL)
