# SPDX-License-Identifier: Apache-2.0
"""Tells the story on a terminal: what is done, what should come of it, and what did."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from demo.stage import Said

Seen = TypeVar("Seen")
POLL_SECONDS = 0.3


class StepFailedError(Exception):
    """A step did not do what it said."""


class Narrator:
    """Prints one story."""

    def __init__(self) -> None:
        self._step = 0
        self._begun = time.monotonic()
        self._colour = sys.stdout.isatty()

    def step(self, title: str) -> None:
        """Begin a step."""
        self._step += 1
        self._print(f"\n{self._bold(f'{self._step}. {title}')}  ({time.monotonic() - self._begun:.0f} s)")

    def tell(self, text: str) -> None:
        """Say what is done."""
        self._print(textwrap.fill(text, 100, initial_indent="   ", subsequent_indent="   "))

    def show(self, said: Said) -> Said:
        """Print a command and what it answered."""
        self._print(f"   $ {said.command}")
        self._print(textwrap.indent(said.output.rstrip(), "   | ", predicate=lambda _: True))
        return said

    def check(self, expected: str, seen: str, *, holds: bool) -> None:
        """Print what was expected and what was seen.

        Raises:
            StepFailedError: they differ.
        """
        mark = self._green("ok") if holds else self._red("NOT SO")
        self._print(f"   expected: {expected}")
        self._print(f"   seen:     {seen}  [{mark}]")
        if not holds:
            raise StepFailedError(f"expected {expected}; saw {seen}")

    def wait(
        self,
        expected: str,
        look: Callable[[], Seen],
        *,
        until: Callable[[Seen], bool],
        describe: Callable[[Seen], str],
        within_seconds: float,
    ) -> Seen:
        """Look again and again until something holds, and print how long it took.

        Raises:
            StepFailedError: it does not hold in time.
        """
        begun = time.monotonic()
        while not until(seen := look()):
            if time.monotonic() - begun > within_seconds:
                self.check(f"{expected} within {within_seconds:.0f} s", describe(seen), holds=False)
            time.sleep(POLL_SECONDS)
        self.check(
            f"{expected} within {within_seconds:.0f} s",
            f"{describe(seen)} after {time.monotonic() - begun:.1f} s",
            holds=True,
        )
        return seen

    def end(self, text: str) -> None:
        """Say the last words."""
        self._print(f"\n{text}")

    def fail(self, problem: str, hint: str) -> NoReturn:
        """Say why the story ends here, and end the process."""
        self._print(f"\n{self._red('error:')} {problem}\nhint: {hint}")
        sys.exit(1)

    def _print(self, text: str) -> None:
        print(text, flush=True)

    def _bold(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if self._colour else text

    def _green(self, text: str) -> str:
        return f"\033[32m{text}\033[0m" if self._colour else text

    def _red(self, text: str) -> str:
        return f"\033[31m{text}\033[0m" if self._colour else text
