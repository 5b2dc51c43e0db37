# SPDX-License-Identifier: Apache-2.0
"""What to do when a container ended by itself: facts in, one decision out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure.model.workload import RestartBackoff, RestartPolicy
from perdure.policy import backoff

SETTLED = timedelta(seconds=10)
"""A container that ran this long has shown that it can start: its first end is answered at once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended."""

    code: int | None
    """The exit code, or None where nobody knows it."""
    ran_for: timedelta
    crashes_before: int
    """Restarts in a row before this end, since the curve began."""
    vanished: bool = False
    """Whether it did not end but is gone, or was spoilt from outside: it should be there."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Run it again."""

    after: timedelta
    crashes: int
    """Restarts in a row, this one included."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Leave it ended."""

    succeeded: bool
    reason: str


def decide(policy: RestartPolicy, settings: RestartBackoff, ended: Ended, *, seed: str) -> Restart | Stay:
    """Whether and when a container that ended runs again.

    A vanished container is not an end: it is drift, and comes back whatever the policy, at once the first time. An end whose
    code nobody knows counts as a failure.
    """
    vanished = ended.vanished
    failed = ended.code != 0
    exited = "ended without an exit code" if ended.code is None else f"exited with code {ended.code}"
    if not vanished and (policy is RestartPolicy.NEVER or (policy is RestartPolicy.ON_FAILURE and not failed)):
        return Stay(not failed, f"{exited}; restart: {policy.value}")
    restart = _on_curve(settings, ended.ran_for, ended.crashes_before, seed=seed, settled=vanished)
    if settings.limit is not None and restart.crashes > settings.limit and not vanished:
        return Stay(False, f"{exited}; the limit of {settings.limit} restarts in a row is used up")
    return restart


def decide_unhealthy(settings: RestartBackoff, ran_for: timedelta, crashes_before: int, *, seed: str) -> Restart | None:
    """When a container is restarted that runs and does no work; None where the limit is used up: better it runs than not.

    The restart policy has no say here: it is about containers that ended, and this one is restarted by an explicit wish.
    """
    restart = _on_curve(settings, ran_for, crashes_before, seed=seed)
    return None if settings.limit is not None and restart.crashes > settings.limit else restart


def crashes_after(settings: RestartBackoff, ran_for: timedelta, crashes_before: int) -> int:
    """Restarts in a row, the one after this run included."""
    return 1 if ran_for >= settings.reset_after else crashes_before + 1


def _on_curve(
    settings: RestartBackoff, ran_for: timedelta, crashes_before: int, *, seed: str, settled: bool = False
) -> Restart:
    """The next restart of a row, or the first of a new one after a long run."""
    crashes = crashes_after(settings, ran_for, crashes_before)
    at_once = crashes == 1 and (settled or ran_for >= SETTLED)
    wait = backoff.delay(crashes, seed=f"{seed}/restart", base=settings.initial, cap=settings.maximum)
    return Restart(timedelta(0) if at_once else wait, crashes)
