# SPDX-License-Identifier: Apache-2.0
"""The one Temporal runtime of a process.

Its worker heartbeat is what tells a fleet that a host's worker is alive (``perdure.runtime.presence``), and the server's push of
cancellations needs it too. Clients without a worker send none.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import cache
from typing import Final

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

WORKER_HEARTBEAT_INTERVAL: Final = timedelta(seconds=5)
"""Costs 0.3 CPU seconds a minute on the server for two workers; 60 s, the default, would notice a lost host minutes late."""
NATIVE_LOGS: Final = "error,temporalio_sdk_core=warn,temporalio_client::retry=off"
"""What the SDK's native part may log. A line for each retry of each poll would fill a disk; lost heartbeats tell of it, too."""


@cache
def runtime() -> Runtime:
    """The runtime, made at the first call: a process must not have two with a worker each.

    The native part logs through our loggers: by itself it would write to standard output, in the middle of a command's data.
    """
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"), append_target_to_name=False)
    return Runtime(
        telemetry=TelemetryConfig(logging=LoggingConfig(filter=NATIVE_LOGS, forwarding=forwarding)),
        worker_heartbeat_interval=WORKER_HEARTBEAT_INTERVAL,
    )
