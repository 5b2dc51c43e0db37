# SPDX-License-Identifier: Apache-2.0
"""How long a case may take. Its own numbers hold on a machine that does nothing else; on a busy one they are stretched."""

from __future__ import annotations

import os


def patience(seconds: float) -> float:
    """The seconds of a case, times the number of processes that wait for each processor of this machine."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
