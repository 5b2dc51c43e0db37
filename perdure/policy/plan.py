# SPDX-License-Identifier: Apache-2.0
"""THE reconcile function: what to do next, from what is wanted and what is known. Nothing else decides that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from perdure.model.faults import Phase
from perdure.model.record import Course, Record


class Act(StrEnum):
    """The kinds of steps."""

    REST = "rest"
    """Wait until something changes."""
    WAIT = "wait"
    """Wait until a time, or until something changes."""
    AWAIT = "await"
    """Look at other workloads until they are as far as this one needs them."""
    ENSURE = "ensure"
    PULL = "pull"
    STOP = "stop"
    CLOSE = "close"
    """Nothing is left to do for ever."""


_UNDER_WAY = {Course.DEPENDENCIES: Act.AWAIT, Course.PULL: Act.PULL, Course.START: Act.ENSURE}
"""What there is to do on the way to a container that runs."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, and the turn for which it was decided: it is stale as soon as the record's turn is another."""

    act: Act
    turn: int
    until: datetime | None = None

    @property
    def phase(self) -> Phase:
        """The phase of the attempts of this step. Raises KeyError for a step that attempts nothing."""
        return {Act.ENSURE: Phase.START, Act.PULL: Phase.PULL, Act.STOP: Phase.STOP}[self.act]


def next_step(record: Record, now: datetime) -> Step:
    """Removal comes before pause, pause before everything else; a wait that is not over comes before the step that it delays."""
    if record.course is Course.GONE:
        return Step(Act.CLOSE, record.turn)
    if not record.removing and (record.paused or record.course not in _UNDER_WAY):
        return Step(Act.REST, record.turn)
    if record.resume_at is not None and record.resume_at > now:
        return Step(Act.WAIT, record.turn, record.resume_at)
    if record.removing:
        return Step(Act.STOP, record.turn)
    return Step(_UNDER_WAY[record.course], record.turn)


def is_stale(step: Step, record: Record) -> bool:
    """Whether a step that was begun is of no use any more."""
    return step.turn != record.turn
