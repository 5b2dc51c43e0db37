# SPDX-License-Identifier: Apache-2.0
"""What the runs of a healthcheck say together, and when the next one is due: facts in, one judgement out.

The rules are those that users know from elsewhere: one success makes a container healthy, ``retries`` failures in a row make it
unhealthy. Failures within the start period do not count, until a first success has shown that it has started. Elsewhere the first
run is made after a whole ``interval``. Here a container that has just started is asked sooner, for the sake of those who wait
for its health; but no failure before that time counts either.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure.model.observation import Health
from perdure.model.workload import Healthcheck

SOONEST = timedelta(seconds=1)
"""After a start; then after twice that time, and so on."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is held of one run of a container."""

    health: Health = Health.STARTING
    failures: int = 0
    """In a row, those that count."""


def judged(before: Judgement, check: Healthcheck, *, succeeded: bool, ran_for: timedelta) -> Judgement:
    """The judgement after one more run of the check, which began when the container had run for ``ran_for``."""
    if succeeded:
        return Judgement(Health.HEALTHY)
    if before.health is Health.STARTING and ran_for < max(check.start_period, check.interval):
        return before
    failures = before.failures + 1
    return Judgement(Health.UNHEALTHY if failures >= check.retries else before.health, failures)


def pause(held: Judgement, check: Healthcheck, ran_for: timedelta) -> timedelta:
    """How long to wait before the next run of the check."""
    if held.health is Health.STARTING and ran_for < check.interval:
        return min(check.interval, max(SOONEST, ran_for))
    return check.interval
