# SPDX-License-Identifier: Apache-2.0
"""Values with a unit: how they are written, read and kept."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: object) -> timedelta:
    """Read ``500ms``, ``30s``, ``1h30m``, ``2d``; a timedelta passes. Raises ValueError with what to write instead."""
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or not _DURATION.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a duration: write a number and a unit, such as 500ms, 30s, 5m, 2h or 1d")
    return timedelta(milliseconds=sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def format_duration(value: timedelta) -> str:
    """The shortest exact text that ``parse_duration`` reads back, to the millisecond."""
    rest = round(value / timedelta(milliseconds=1))
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["500ms", "30s", "5m", "2h"]}),
]
"""A length of time, written as a number and a unit."""
