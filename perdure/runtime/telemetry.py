# SPDX-License-Identifier: Apache-2.0
"""The one Temporal runtime of a process.

Its worker heartbeat is what tells a fleet that a host's worker is alive (``perdure.runtime.presence``), and the server's push of
cancellations needs it too. Clients without a worker send none.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Final

from temporalio.runtime import Runtime, TelemetryConfig

WORKER_HEARTBEAT_INTERVAL: Final = timedelta(seconds=5)
"""Costs 0.3 CPU seconds a minute on the server for two workers; 60 s, the default, would notice a lost host minutes late."""


@cache
def runtime() -> Runtime:
    """The runtime, made at the first call: a process must not have two with a worker each."""
    return Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=WORKER_HEARTBEAT_INTERVAL)
