# SPDX-License-Identifier: Apache-2.0
"""What a registry can do wrong with one repository, as values that a test hands to a ``FaultRegistry``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Stage = Literal["ping", "manifest", "blob"]


class Trouble(StrEnum):
    """What a repository can do wrong."""

    STATUS = "status"
    HANG = "hang"
    """Never answer."""
    HALF = "half"
    """Send half of a blob, then nothing."""
    TRICKLE = "trickle"
    """Send a blob slowly."""
    CORRUPT = "corrupt"
    """Send a blob whose last bytes are wrong."""
    TRUNCATED = "truncated"
    """Close the connection in the middle of a blob."""
    NOT_JSON = "not-json"
    """Send a manifest that is not JSON."""


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One trouble and its parameters; made by the functions below."""

    trouble: Trouble
    stage: Stage
    status: int = 0
    retry_after: int | None = None
    bytes_per_second: float = 0
    times: int | None = None
    """How many requests it hits; every one where None."""


def status(
    code: int, stage: Stage = "manifest", *, retry_after: int | None = None, times: int | None = None
) -> Sabotage:
    """Answer with an error status; ``retry_after`` sends the header of that name, in seconds."""
    return Sabotage(Trouble.STATUS, stage, status=code, retry_after=retry_after, times=times)


def hang(stage: Stage = "manifest") -> Sabotage:
    """Accept the request and never answer."""
    return Sabotage(Trouble.HANG, stage)


def half_a_blob() -> Sabotage:
    """Send half of each layer, then fall silent."""
    return Sabotage(Trouble.HALF, "blob")


def trickle(bytes_per_second: float) -> Sabotage:
    """Send each layer at this speed."""
    return Sabotage(Trouble.TRICKLE, "blob", bytes_per_second=bytes_per_second)


def corrupt_blob() -> Sabotage:
    """Send layers that do not match their digest."""
    return Sabotage(Trouble.CORRUPT, "blob")


def truncated_blob() -> Sabotage:
    """Break off in the middle of each layer."""
    return Sabotage(Trouble.TRUNCATED, "blob")


def bad_manifest() -> Sabotage:
    """Send a manifest that is not JSON."""
    return Sabotage(Trouble.NOT_JSON, "manifest")
