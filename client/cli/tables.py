# SPDX-License-Identifier: Apache-2.0
"""Tables of text.

On a terminal they are cut to its width, in the middle of the last column, because an error's end often names the culprit.
Elsewhere nothing is ever cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

SHORTEST_LAST_COLUMN: Final = 24
"""A terminal too narrow for this much of it gets lines that are too long instead."""
GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    style: str = ""


Row = tuple[Cell, ...]


def table(names: Sequence[str], rows: Sequence[Row], width: int | None) -> list[Text]:
    """Lines with aligned columns; the last column is cut in the middle where the width asks for it."""
    from rich.text import Text

    texts = [tuple(names), *(tuple(cell.text for cell in cells) for cells in rows)]
    widths = [max(len(line[column]) for line in texts) for column in range(len(names) - 1)]
    room = None if width is None else max(width - sum(widths) - len(GAP) * len(widths), SHORTEST_LAST_COLUMN)
    lines = []
    heading: Row = tuple(Cell(name, "bold") for name in names)
    for cells in (heading, *rows):
        line = Text()
        for cell, wide in zip(cells, widths, strict=False):
            line.append(cell.text, cell.style).append(" " * (wide - len(cell.text)) + GAP)
        line.append(middle_cut(cells[-1].text, room), cells[-1].style)
        lines.append(line)
    return lines


def middle_cut(text: str, room: int | None) -> str:
    """The text, its middle cut out where it is longer than the room."""
    if room is None or len(text) <= room:
        return text
    head = (room - 1) // 2
    return f"{text[:head]}…{text[len(text) - (room - 1 - head) :]}"
