# SPDX-License-Identifier: Apache-2.0
"""What was measured: each figure with its peers of the same run, what it should be, and whether it is; as text and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from bench.plain import PlainPodman


class Of(StrEnum):
    """What of a figure must not be above its limit."""

    MEDIAN = "median"
    LARGEST = "largest"
    RATIO = "of plain Podman"
    """Median of the ratios to plain Podman, turn by turn."""
    ABOVE = "above plain Podman"
    """Difference of the medians."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should be at most."""

    limit: float
    of: Of = Of.MEDIAN

    def told(self, unit: str) -> str:
        """In words."""
        return _as_told(self.limit, self.of, unit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured."""

    name: str
    unit: str
    ours: Sequence[float]
    aim: Aim | None = None
    peers: Mapping[str, Sequence[float] | str] = field(default_factory=dict)
    """Of the same run, by name; a text says why there is no number."""
    detail: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.ours)

    def ratio(self, peer: str) -> float | None:
        """How many times a peer's figure ours is; None where there is no such number."""
        theirs = self.peers.get(peer)
        if theirs is None or isinstance(theirs, str) or not all(theirs):
            return None
        if len(theirs) == len(self.ours):
            return statistics.median(our / their for our, their in zip(self.ours, theirs, strict=True))
        return self.median / statistics.median(theirs)

    @property
    def reached(self) -> float | None:
        """What the aim speaks of; None without an aim, or where its peer did not run."""
        plain = self.peers.get(PlainPodman.name)
        match self.aim:
            case Aim(of=Of.MEDIAN):
                return self.median
            case Aim(of=Of.LARGEST):
                return max(self.ours)
            case Aim(of=Of.RATIO):
                return self.ratio(PlainPodman.name)
            case Aim(of=Of.ABOVE) if plain is not None and not isinstance(plain, str):
                return self.median - statistics.median(plain)
        return None

    @property
    def is_met(self) -> bool | None:
        """Whether the aim is met; None where that cannot be said."""
        reached = self.reached
        return None if self.aim is None or reached is None else reached <= self.aim.limit


@dataclass(frozen=True, slots=True)
class Report:
    """All of one run."""

    figures: Sequence[Figure]
    is_quick: bool
    absent: Mapping[str, str] = field(default_factory=dict)
    """Peers that could not be run, and why."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Stories that broke off, and why."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def as_text(self) -> str:
        """For people."""
        lines = [f"Measured {self.at:%Y-%m-%d %H:%M} UTC on {_machine()}, load at the end {os.getloadavg()[0]:.1f}"]
        if self.is_quick:
            lines.append("QUICK: few rounds and short outages, to see that it works; the numbers say little")
        for peer, reason in self.absent.items():
            lines.append(f"not beside {peer}: {reason}")
        for figure in self.figures:
            lines += ["", *told(figure)]
        for story, reason in self.failed.items():
            lines += ["", f"{story}: NOT MEASURED, {reason}"]
        judged = [figure.is_met for figure in self.figures if figure.is_met is not None]
        lines += ["", f"{sum(judged)} of {len(judged)} aims met"]
        return "\n".join(lines)

    def as_json(self) -> str:
        """For programs."""
        machine = {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "loadAtEnd": os.getloadavg()[0],
        }
        whole = {
            "at": self.at.isoformat(),
            "quick": self.is_quick,
            "machine": machine,
            "absentPeers": dict(self.absent),
            "failedStories": dict(self.failed),
            "figures": [_as_json(figure) for figure in self.figures],
        }
        return json.dumps(whole, indent=2)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    )


def told(figure: Figure) -> list[str]:
    """One figure, for people: a line for it, and one for each thing to compare it with."""
    lines = [f"{figure.name}: {_samples(figure.ours, figure.unit)}"]
    if figure.aim is not None:
        verdict = {True: "met", False: "MISSED", None: "cannot be said"}[figure.is_met]
        reached = "" if figure.reached is None else f": {_as_told(figure.reached, figure.aim.of, figure.unit)}"
        lines.append(f"    aim at most {figure.aim.told(figure.unit)}{reached}, {verdict}")
    for peer, samples in figure.peers.items():
        ratio = figure.ratio(peer)
        times = "" if ratio is None else f"; ours is {ratio:.2f} times that"
        lines.append(f"    {peer}: {samples if isinstance(samples, str) else _samples(samples, figure.unit)}{times}")
    if figure.detail:
        lines.append("    " + ", ".join(f"{key} {value:.4g}" for key, value in figure.detail.items()))
    if figure.note:
        lines.append(f"    {figure.note}")
    return lines


def _samples(samples: Sequence[float], unit: str) -> str:
    middle = f"{_number(statistics.median(samples))} {unit}"
    if len(samples) == 1:
        return middle
    return f"{middle} ({_number(min(samples))} to {_number(max(samples))}, n {len(samples)})"


def _as_told(value: float, of: Of, unit: str) -> str:
    match of:
        case Of.RATIO:
            return f"{value:.2f} times plain Podman"
        case Of.ABOVE:
            return f"{_number(value)} {unit} above plain Podman"
    return f"{_number(value)} {unit}" + (" at the largest" if of is Of.LARGEST else "")


def _number(value: float) -> str:
    return f"{value:g}" if float(value).is_integer() else f"{value:.3f}"


def _as_json(figure: Figure) -> dict[str, object]:
    """Everything, rounded to what the clock can tell."""
    aim = None if figure.aim is None else {"limit": figure.aim.limit, "of": figure.aim.of.value}
    ratios = {peer: _rounded(figure.ratio(peer)) for peer in figure.peers}
    peers = {
        peer: {"none": samples} if isinstance(samples, str) else {**_summary(samples), "ratio": ratios[peer]}
        for peer, samples in figure.peers.items()
    }
    return {
        "name": figure.name,
        "unit": figure.unit,
        **_summary(figure.ours),
        "aim": aim,
        "reached": _rounded(figure.reached),
        "met": figure.is_met,
        "peers": peers,
        "detail": {key: _rounded(value) for key, value in figure.detail.items()},
        "note": figure.note,
    }


def _summary(samples: Sequence[float]) -> dict[str, object]:
    return {
        "n": len(samples),
        "median": _rounded(statistics.median(samples)),
        "min": _rounded(min(samples)),
        "max": _rounded(max(samples)),
        "values": [_rounded(value) for value in samples],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
