# SPDX-License-Identifier: Apache-2.0
"""What was measured, as JSON for programs and as a table for people."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Measure:
    """One row: the median of n, and what it is to be compared with."""

    name: str
    unit: str
    values: Sequence[float]
    aim: str = ""
    """What it should be, in words."""
    detail: dict[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def as_json(self) -> dict[str, object]:
        """Everything, rounded to what the clock can tell."""
        rounded = {key: round(value, 4) for key, value in self.detail.items()}
        return asdict(self) | {
            "values": [round(value, 4) for value in self.values],
            "n": len(self.values),
            "median": round(self.median, 4),
            "min": round(min(self.values), 4),
            "max": round(max(self.values), 4),
            "detail": rounded,
        }


def as_json(measures: Sequence[Measure]) -> str:
    """All rows, and the machine that they hold for."""
    machine = {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "loadAtEnd": os.getloadavg()[0],
    }
    return json.dumps({"machine": machine, "measures": [measure.as_json() for measure in measures]}, indent=2)


def as_table(measures: Sequence[Measure]) -> str:
    """One line a row."""
    rows: list[tuple[str, ...]] = [("measure", "median", "min", "max", "n", "aim")]
    for measure in measures:
        numbers = (measure.median, min(measure.values), max(measure.values))
        rows.append(
            (measure.name, *(_figure(value, measure.unit) for value in numbers), str(len(measure.values)), measure.aim)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    details = [
        f"{measure.name}: " + ", ".join(f"{key} {value:.2f}" for key, value in measure.detail.items())
        for measure in measures
        if measure.detail
    ]
    return "\n".join([*lines, "", *details]).rstrip()


def _figure(value: float, unit: str) -> str:
    return f"{value:g} {unit}" if unit == "events" else f"{value:.3f} {unit}"
