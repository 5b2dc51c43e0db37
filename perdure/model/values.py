# SPDX-License-Identifier: Apache-2.0
"""Durations, sizes, texts and numbers: how they are written, read and kept.

Durations and sizes are kept without their unit and read back from every text that they are shown as. A text stays what the
user wrote: what YAML would have changed on the way (``1.10``, ``0123``, ``null``) never gets here as a text.
"""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, WithJsonSchema

from perdure.model.rules import refusal, shown

# ---- durations ----

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
LONGEST_DURATION = timedelta(days=3650)
"""Beyond it a number is a slip of the pen, and the arithmetic of dates ends."""


def parse_duration(text: object) -> timedelta:
    """Read ``500ms``, ``30s``, ``1h30m``, ``2d``, to the millisecond; a timedelta passes.

    Raises:
        ValueError: It is something else; the text says what to write instead.
    """
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or len(text) > 64 or not _DURATION.fullmatch(text.strip()):
        raise ValueError(f"{text!r:.80} is not a duration: write a number and a unit, such as 500ms, 30s, 5m, 2h or 1d")
    milliseconds = sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))
    if milliseconds > LONGEST_DURATION / timedelta(milliseconds=1):
        raise ValueError(f"{text!r} is too long a duration: the longest is {LONGEST_DURATION.days}d")
    return timedelta(milliseconds=round(milliseconds))


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


def _is_positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise refusal(f"{format_duration(value)} is not a wait", "write a duration above zero, such as 1s")
    return value


PositiveDuration = Annotated[Duration, AfterValidator(_is_positive)]
"""A length of time above zero."""

# ---- sizes ----

_SIZE = re.compile(r"([0-9]+)(?:\.([0-9]+))?(k|K|M|G|T|Ki|Mi|Gi|Ti)?B?")
_FACTORS = {
    "": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def parse_bytes(size: object) -> int:
    """Read ``64Mi`` (binary), ``128M`` (decimal), ``1Gi``, ``65536``.

    Raises:
        ValueError: It is something else; the text says what to write instead.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) and len(size) <= 32 else None
    if found is None:
        raise ValueError(f"{size!r:.80} is not a size: write a number and a unit, such as 64Mi, 128M or 1Gi")
    whole, fraction, unit = found[1], found[2] or "0", found[3] or ""
    return int(int(whole + fraction) * _FACTORS[unit] // 10 ** len(fraction))


def format_bytes(size: int) -> str:
    """The shortest exact text that ``parse_bytes`` reads back."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _FACTORS[unit] == 0:
            return f"{size // _FACTORS[unit]}{unit}"
    return str(size)


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "pattern": f"^{_SIZE.pattern}$",
            "minimum": 0,
            "examples": ["64Mi", "128M", "1Gi"],
        }
    ),
]
"""A number of bytes, written with or without a unit."""

# ---- texts ----


def integer_as_text(value: object) -> object:
    """The digits of a whole number: YAML did not change them, so they need no quotes. Everything else passes as it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def is_printable(text: str) -> str:
    """Refuse what no process and no file can be given."""
    if "\0" in text:
        raise refusal("it holds a NUL character", "no process can be given one: leave it out")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise refusal("it holds half of a surrogate pair, which is no character", "write the character itself")
    return text


Text = Annotated[str, BeforeValidator(integer_as_text, json_schema_input_type=str | int), AfterValidator(is_printable)]
"""Any text that a process can be given; a whole number is taken as its digits."""

# ---- numbers ----

LONGEST_TELLING = 2000
Telling = Annotated[str, AfterValidator(lambda text: text[:LONGEST_TELLING])]
"""What a part of Perdure tells another, such as a name or a reason, which is kept and shown. None is that long; one that somebody
sends by hand is cut, since a status of more than two mebibytes could never be shown, and its workflow would stand still."""

Integer = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
"""true or false; ``yes``, ``on`` and ``1`` are something else in YAML 1.2."""

Port = Annotated[Integer, Field(ge=1, le=65535)]


def parse_mode(mode: object) -> int:
    """Read permission bits from a text of octal digits such as ``"0644"``."""
    if isinstance(mode, str) and re.fullmatch(r"(?:0o?)?[0-7]{3,4}", mode):
        return int(mode.removeprefix("0o"), 8)
    raise refusal("permission bits are a text of three or four octal digits", 'write them in quotes, such as "0644"')


Mode = Annotated[
    int,
    BeforeValidator(parse_mode),
    WithJsonSchema({"type": "string", "pattern": "^(?:0o?)?[0-7]{3,4}$", "examples": ["0644", "0755"]}),
]
"""Permission bits, written in octal as a text: a number would be read as decimal by some and as octal by others."""


def parse_signal(text: str) -> str:
    """Read ``SIGTERM``, ``TERM`` or ``15``; gives the name with SIG."""
    name = text.upper()
    if name.isdecimal() and int(name) in set(signal.Signals):
        return signal.Signals(int(name)).name
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__:
        raise refusal(f"{shown(text)} is not a signal", "write a name such as SIGTERM, SIGINT or SIGQUIT")
    return signal.Signals[name].name


SignalName = Annotated[
    str, BeforeValidator(integer_as_text, json_schema_input_type=str | int), AfterValidator(parse_signal)
]
