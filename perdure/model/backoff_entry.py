# SPDX-License-Identifier: Apache-2.0
"""What a manifest may say of waits: between the tries of a step that fails, and between restarts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from perdure.model.rules import STRICT, Misfit, refuse_all
from perdure.model.values import Integer, PositiveDuration, format_duration
from perdure.model.workload import RestartBackoff, Retry

LONGEST_WAIT = timedelta(seconds=300)
SHORTEST_WAIT = timedelta(milliseconds=10)


class RestartBackoffEntry(RestartBackoff):
    """The waits between restarts of a container that ends by itself."""

    model_config = STRICT

    initial: PositiveDuration = timedelta(seconds=1)
    """The first wait, at least 10ms; the waits grow from it, with jitter."""
    maximum: PositiveDuration = timedelta(seconds=300)
    """The longest wait, at most 300s."""
    reset_after: PositiveDuration = timedelta(minutes=10)
    """A run of this length starts the curve again."""
    limit: Annotated[Integer, Field(ge=1)] | None = None
    """How many restarts in a row are made before the workload counts as failed; null is without end."""

    @model_validator(mode="after")
    def _waits_are_in_order(self) -> Self:
        refuse_all("restartBackoff", _waits("initial", self.initial, "maximum", self.maximum))
        return self


class RetryEntry(Retry):
    """The waits between tries of a step that fails."""

    model_config = STRICT

    initial_interval: PositiveDuration = timedelta(milliseconds=500)
    """The shortest wait, at least 10ms; the waits grow from it, with jitter."""
    maximum_interval: PositiveDuration = timedelta(seconds=300)
    """The longest wait, at most 300s."""
    give_up_after: PositiveDuration | None = None
    """The time after which the workload is parked; null tries for ever, or as long as the control worker's setting says."""

    @model_validator(mode="after")
    def _waits_are_in_order(self) -> Self:
        waits = _waits("initialInterval", self.initial_interval, "maximumInterval", self.maximum_interval)
        refuse_all("retry", waits)
        return self


def _waits(shortest_key: str, shortest: timedelta, longest_key: str, longest: timedelta) -> Iterator[Misfit]:
    """What is wrong with the two ends of a backoff."""
    if shortest < SHORTEST_WAIT:
        yield Misfit((shortest_key,), f"{format_duration(shortest)} is too short a wait", "write at least 10ms")
    if longest > LONGEST_WAIT:
        yield Misfit((longest_key,), f"{format_duration(longest)} is too long a wait", "write at most 300s")
    if longest < shortest:
        message = f"{format_duration(longest)} is less than {shortest_key}, which is {format_duration(shortest)}"
        yield Misfit((longest_key,), message, f"raise {longest_key} or lower {shortest_key}")
