# SPDX-License-Identifier: Apache-2.0
"""The files of a manifest on the host, from where they are mounted read-only.

Each version of a file has a path of its own, made from its content: a newer generation never changes a file under the
old one's container, and writing twice writes once. All files of a workload are in one folder, so removal is simple.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.workload import File


class HostFiles:
    """Files below one folder, ``<folder>/<host>/<workload>/<digest>``.

    Args:
        folder: only root may look into it, since files may hold what only the container should know.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, host: str, workload: str, files: Iterable[File]) -> list[tuple[str, str]]:
        """Write what is not there yet, and return pairs of path on the host and path in the container.

        Raises:
            EngineFault: where the host's disk does not take them.
        """
        written = []
        for file in files:
            path = self._home(host, workload) / _digest(file)
            try:
                if not _holds(path, file):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    _write(path, file)
            except OSError as error:
                kind = FaultKind.DISK_FULL if error.errno in (ENOSPC, EDQUOT) else FaultKind.ENGINE_ERROR
                text = f"{error.strerror}: {error.filename or path}"
                raise engine_fault(kind, Phase.START, f"write the file for {file.path}", text) from error
            written.append((str(path), file.path))
        return written

    def keep_only(self, host: str, workload: str, files: Iterable[File]) -> None:
        """Remove the files that no container of the workload uses any more."""
        home = self._home(host, workload)
        wanted = {_digest(file) for file in files}
        if not wanted:
            shutil.rmtree(home, ignore_errors=True)
        elif home.is_dir():
            for path in home.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)

    def _home(self, host: str, workload: str) -> Path:
        return self._folder / _component(host) / _component(workload)


def _component(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") and len(quoted) < 200 else sha256(name.encode()).hexdigest()


def _digest(file: File) -> str:
    return sha256(f"{file.mode:o}\0{file.path}\0{file.content}".encode()).hexdigest()[:40]


def _holds(path: Path, file: File) -> bool:
    try:
        return path.stat().st_mode & 0o7777 == file.mode and path.read_bytes() == file.content.encode()
    except OSError:
        return False


def _write(path: Path, file: File) -> None:
    """Write whole or not at all: a crash leaves no half file under the name that a container would mount."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as out:
        out.write(file.content.encode())
        out.flush()
        os.fsync(out.fileno())
    draft.chmod(file.mode)
    draft.replace(path)
