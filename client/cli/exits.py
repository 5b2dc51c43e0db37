# SPDX-License-Identifier: Apache-2.0
"""The exit codes of ``perdure``, and which error or result leads to which.

A command about several workloads ends with the worst of their codes, by ``WORST_FIRST``: first what needs a person, then what
heals by itself. Scripts may rely on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from perdure.model.states import State, Substate

if TYPE_CHECKING:
    from client.applying import ApplyResult


class Exit(IntEnum):
    """What an exit code says."""

    DONE = 0
    """Done; or accepted, and waiting for other workloads."""
    REFUSED = 1
    """Refused, or failed for good."""
    USAGE = 2
    """Wrong use, or an invalid manifest; nothing was sent."""
    NOT_FOUND = 3
    """There is no such workload or host, or it was removed meanwhile."""
    CONFLICT = 4
    """Conflict, stale, or superseded by something newer."""
    UNREACHABLE = 5
    """Temporal cannot be reached, or nobody does the work."""
    TIMED_OUT = 6
    """Timed out waiting; it goes on."""
    RETRYING = 7
    """Accepted; the first attempt failed, and it is tried again."""
    INTERRUPTED = 130
    """Interrupted by Ctrl-C."""


WORST_FIRST: Final = (
    Exit.INTERRUPTED,
    Exit.REFUSED,
    Exit.CONFLICT,
    Exit.USAGE,
    Exit.NOT_FOUND,
    Exit.UNREACHABLE,
    Exit.TIMED_OUT,
    Exit.RETRYING,
    Exit.DONE,
)


OF_PROGRESS: Final = {
    "notSent": Exit.UNREACHABLE,
    "uncertain": Exit.UNREACHABLE,
    "noControlWorker": Exit.UNREACHABLE,
    "inProgress": Exit.TIMED_OUT,
    "accepted": Exit.DONE,
    "answered": Exit.DONE,
}
"""By ``client.applying.Progress``, for applies without an answer."""
OF_OUTCOME: Final = {
    "running": Exit.DONE,
    "paused": Exit.DONE,
    "waiting": Exit.DONE,
    "retrying": Exit.RETRYING,
    "rejected": Exit.REFUSED,
    "gaveUp": Exit.REFUSED,
    "stale": Exit.CONFLICT,
    "conflict": Exit.CONFLICT,
    "superseded": Exit.CONFLICT,
    "removed": Exit.NOT_FOUND,
    "noWorker": Exit.UNREACHABLE,
    "moved": Exit.TIMED_OUT,
}
"""By ``Outcome``, without those of ``LEFT_ALONE``."""
LEFT_ALONE: Final = ("unchanged", "updated")


def worst(codes: Iterable[Exit]) -> Exit:
    """The code of a command about several workloads."""
    return min(codes, key=WORST_FIRST.index, default=Exit.DONE)


def of_result(result: ApplyResult) -> Exit:
    """The code of one apply."""
    answer = result.answer
    if answer is None:
        return OF_PROGRESS[result.progress.value]
    if answer.outcome.value in LEFT_ALONE:
        return of_state(answer.state, answer.substate)
    return OF_OUTCOME[answer.outcome.value]


def of_state(state: State, substate: Substate) -> Exit:
    """The code of a workload that was left as it is: it is no success to leave a failed one alone."""
    if state is State.FAILED:
        return Exit.REFUSED
    if state is State.UNKNOWN or substate is Substate.WAITING_FOR_HOST:
        return Exit.UNREACHABLE
    if substate in (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.RESTART_BACKOFF):
        return Exit.RETRYING
    return Exit.DONE


def of_error(error: Exception) -> Exit | None:
    """The code of an error of ours; None for one that nobody foresaw."""
    from client import errors
    from client.manifests import ManifestError
    from perdure.runtime import problems

    table: tuple[tuple[type[Exception], Exit], ...] = (
        (ManifestError, Exit.USAGE),
        (errors.TooLarge, Exit.USAGE),
        (errors.Duplicate, Exit.USAGE),
        (errors.Circular, Exit.USAGE),
        (errors.Ambiguous, Exit.USAGE),
        (errors.NotFound, Exit.NOT_FOUND),
        (errors.NoWorker, Exit.UNREACHABLE),
        (errors.Superseded, Exit.CONFLICT),
        (errors.TimedOut, Exit.TIMED_OUT),
        (errors.ReconcilerError, Exit.REFUSED),
        (problems.SettingsProblem, Exit.USAGE),
        (problems.Unreachable, Exit.UNREACHABLE),
        (problems.Problem, Exit.REFUSED),
    )
    return next((code for kind, code in table if isinstance(error, kind)), None)
