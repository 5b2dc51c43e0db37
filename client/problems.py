# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the files that a user gave, and where.

Messages quote what stands in the files, which may be anything: what a terminal would obey is escaped here, once and for all.
"""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_TEXT = 600


def _showable(text: str) -> str:
    """The text on one line, without what a terminal would obey, and not without end."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to mend."""

    file: str
    line: int
    """Counted from 1; 0 where it is about the file as a whole."""
    column: int
    """Counted from 1, in characters."""
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        for name in ("file", "message", "hint"):
            object.__setattr__(self, name, _showable(getattr(self, name)))

    @property
    def place(self) -> str:
        """``file:line:column``, as editors and terminals understand it."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class ManifestError(Exception):
    """The given files are not all manifests. Nothing of them may be used."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
        """All that was found, in the order of the files and their lines."""
