# SPDX-License-Identifier: Apache-2.0
"""How a fault travels, as the details of an ApplicationError of its kind; and after which calls nobody knows what was done."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.service import RPCStatusCode

from perdure.model.faults import Fault, FaultClass

NO_ANSWER: Final = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN}
)
"""After these nobody knows whether the server took what was sent."""


def pack(fault: Fault, attempt: int, next_retry_delay: timedelta | None = None) -> ApplicationError:
    """The exception to raise for a fault. Raise it ``from None``: a traceback would only take the place of the message."""
    return ApplicationError(
        fault.message,
        fault,
        attempt,
        type=fault.kind.value,
        non_retryable=fault.fault_class is FaultClass.PERMANENT,
        next_retry_delay=next_retry_delay,
        category=ApplicationErrorCategory.BENIGN,
    )


def unpack(error: ActivityError) -> tuple[Fault | None, int]:
    """The fault and the number of the try in a failed activity; (None, 0) where it holds none.

    A timed out activity hides its last real failure as the cause of the timeout.
    """
    cause: BaseException | None = error.cause
    while isinstance(cause, TemporalTimeoutError):
        cause = cause.cause
    if not isinstance(cause, ApplicationError) or len(cause.details) < 2:
        return None, 0
    fault, attempt = cause.details[0], cause.details[1]
    return Fault.model_validate(fault), int(attempt)
