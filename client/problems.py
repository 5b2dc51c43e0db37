# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the files that a user gave, and where."""

from __future__ import annotations

from dataclasses import dataclass


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
