# SPDX-License-Identifier: Apache-2.0
"""What the runs of a healthcheck say together: facts in, one judgement out.

The rules are those that users know from elsewhere: one success makes a container healthy, ``retries`` failures in a row make it
unhealthy. Failures within the start period do not count, until a first success has shown that it has started.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from perdure.model.observation import Health
from perdure.model.workload import Healthcheck


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
    if before.health is Health.STARTING and ran_for < check.start_period:
        return before
    failures = before.failures + 1
    return Judgement(Health.UNHEALTHY if failures >= check.retries else before.health, failures)
