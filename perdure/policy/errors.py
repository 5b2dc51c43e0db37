# SPDX-License-Identifier: Apache-2.0
"""How the last error of a workload is kept: the same one again only counts, another one begins anew. Pure."""

from __future__ import annotations

from datetime import datetime

from perdure.model.faults import Fault, LastError


def counted(
    known: LastError | None, fault: Fault, *, is_same: bool, attempt: int, generation: int, failures: int, at: datetime
) -> LastError:
    """The last error after a fault.

    Args:
        known: the last error so far.
        fault: what was met now.
        is_same: whether it tells a user the same as the known one.
        attempt: the number of the try that met it.
        generation: whose try that was; an error of another generation does not go on.
        failures: how many failures the fault stands for.
        at: when it was met.
    """
    before = known if is_same and known is not None and known.generation == generation else None
    return LastError(
        kind=fault.kind,
        fault_class=fault.fault_class,
        phase=fault.phase,
        message=fault.message,
        hint=fault.hint,
        attempt=attempt,
        generation=generation,
        first_at=before.first_at if before else at,
        last_at=at,
        count=failures + (before.count if before else 0),
    )


def caught_up(known: LastError | None, *, attempt: int, generation: int) -> LastError | None:
    """The last error, when somebody tells that as many tries have failed by now: repetitions are not reported one by one."""
    if known is None or known.generation != generation or attempt <= known.attempt:
        return known
    return known.model_copy(update={"attempt": attempt, "count": known.count + attempt - known.attempt})
