# SPDX-License-Identifier: Apache-2.0
"""One worker for each host: two would both believe to own its containers."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.runtime.problems import Problem


@contextmanager
def host_lock(home: Path, host: str) -> Iterator[None]:
    """Hold the lock of a host; the kernel frees it when the process ends, however it ends.

    Raises:
        Problem: another process holds it; the message names its pid.
    """
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"host-{host}.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise Problem(
                f"host {host} already has a worker, process {file.read().strip() or 'unknown'} (lock {path})",
                "Stop that one first, or give this one another --host and PERDURE_HOME.",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
