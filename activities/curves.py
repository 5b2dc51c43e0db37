# SPDX-License-Identifier: Apache-2.0
"""Where on its curve a workload is whose tries a worker has not heard of: the server keeps the latest failure of a step."""

from __future__ import annotations

import logging
from typing import Final

from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from perdure.model.faults import FaultKind
from perdure.wire import names

logger = logging.getLogger(__name__)

_STEPS: Final = (names.PULL, names.ENSURE, names.STOP)


async def place_on_curve(client: Client, host: str, workload: str) -> int | None:
    """The number of the latest failed try of the step under way, 0 where there is none, None where Temporal cannot be asked."""
    try:
        found = await client.get_workflow_handle(names.workload_id(host, workload)).describe()
    except RPCError as error:
        logger.warning("a workload could not be looked up", extra={"workload": workload, "cause": str(error)})
        return 0 if error.status is RPCStatusCode.NOT_FOUND else None
    for pending in found.raw_description.pending_activities:
        if pending.activity_type.name in _STEPS and pending.HasField("last_failure"):
            failure = await found.data_converter.decode_failure(pending.last_failure)
            if isinstance(failure, ApplicationError) and len(failure.details) > 1:
                # A try that was ended by the stop of its worker is made again under its number.
                return max(0, int(failure.details[1]) - (failure.type == FaultKind.WORKER_SHUTDOWN))
    return 0
