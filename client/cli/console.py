# SPDX-License-Identifier: Apache-2.0
"""Where words go: data to standard output, talk to standard error, colours only to a terminal that wants them.

A reader that has seen enough and closes the pipe is no error: what would still be written is dropped, and the command ends
with the exit code of what it did.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Never, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STEERING: Final = dict.fromkeys(
    (
        *(code for code in range(0x20) if chr(code) not in "\n\t"),
        *range(0x7F, 0xA0),
        *range(0x200E, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ),
    "?",
)
"""Characters that steer a terminal or turn the direction of its text. What others wrote must not do that."""


class NotWritten(Exception):
    """The data could not be written where it should go."""


def open_closed() -> None:
    """Give a process that was started without standard streams those of nowhere. Call first."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end


def out(text: str) -> None:
    """Write data. Raises NotWritten, but not for a reader that has gone."""
    try:
        _write(sys.stdout, text + "\n")
    except OSError as error:
        raise NotWritten(f"standard output cannot be written: {error.strerror}") from error


def out_lines(lines: Iterable[Text]) -> None:
    """Write data in colours, as they are and never wrapped."""
    if not is_terminal():
        for line in lines:
            out(line.plain)
        return
    console = _terminal()
    with suppress(BrokenPipeError):
        for line in lines:
            line.plain = line.plain.translate(_STEERING)
            console.print(line, soft_wrap=True, highlight=False)


def note(text: str) -> None:
    """Tell a person something on the way."""
    with suppress(OSError):
        _write(sys.stderr, text + "\n")


def error(message: str, hint: str = "") -> None:
    """Tell a person what went wrong, and what to do."""
    note(f"error: {message}")
    if hint:
        note(f"hint: {hint}")


def is_terminal() -> bool:
    """Whether data goes to a terminal."""
    return sys.stdout.isatty()


def width() -> int | None:
    """The columns of the terminal; None where data goes elsewhere, which has no width."""
    return _terminal().width if is_terminal() else None


def end(code: int) -> Never:
    """End the process now. A known crash of the SDK's native part at interpreter exit makes the ordinary way unsafe."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text.translate(_STEERING))
        stream.flush()
    except BrokenPipeError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a descriptor is wanted
            os.dup2(nowhere.fileno(), stream.fileno())


def _terminal() -> Console:
    from rich.console import Console

    return Console()
