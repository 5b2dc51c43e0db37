# SPDX-License-Identifier: Apache-2.0
"""What the benchmark says of its figures: no aim counts as met that was not measured."""

from __future__ import annotations

import json

import pytest

from bench.plain import PlainPodman
from bench.report import Aim, Figure, Of, Report

PLAIN = PlainPodman.name


def figure(ours: list[float], aim: Aim | None = None, peers: dict[str, list[float] | str] | None = None) -> Figure:
    return Figure("it", "s", ours, aim, peers or {})


@pytest.mark.parametrize(
    ("aim", "reached", "is_met"),
    [
        (Aim(2.0), 2.0, True),
        (Aim(1.9), 2.0, False),
        (Aim(2.9, Of.LARGEST), 3.0, False),
        (Aim(2.0, Of.RATIO), 2.0, True),
        (Aim(0.9, Of.ABOVE), 1.0, False),
    ],
)
def test_an_aim_speaks_of_what_it_names(aim: Aim, reached: float, is_met: bool) -> None:
    measured = figure([1.0, 2.0, 3.0], aim, {PLAIN: [1.0, 1.0, 1.0]})
    assert measured.reached == reached
    assert measured.is_met is is_met


@pytest.mark.parametrize("of", [Of.RATIO, Of.ABOVE])
@pytest.mark.parametrize("peers", [{}, {PLAIN: "could not be run"}])
def test_an_aim_beside_a_peer_that_did_not_run_is_neither_met_nor_missed(
    of: Of, peers: dict[str, list[float] | str]
) -> None:
    assert figure([1.0], Aim(5.0, of), peers).is_met is None


def test_ratios_are_of_turns_where_both_took_part_in_all() -> None:
    """A machine that was busy for one turn slowed both."""
    assert figure([1.0, 8.0, 1.0], peers={"a peer": [1.0, 4.0, 0.5]}).ratio("a peer") == 2.0
    assert figure([1.0, 8.0, 1.0], peers={"a peer": [2.0]}).ratio("a peer") == 0.5


def test_a_peer_that_never_does_it_has_no_ratio() -> None:
    assert figure([1.0], peers={"a peer": "never"}).ratio("a peer") is None
    assert figure([1.0], peers={"a peer": [0.0]}).ratio("a peer") is None


def test_the_report_tells_aims_peers_and_who_is_missing_and_why() -> None:
    figures = [figure([0.2], Aim(0.1), {"a peer": [0.1], "another": "never"}), figure([0.2], Aim(0.3))]
    report = Report(
        figures,
        is_quick=True,
        absent={"Docker Swarm": "dockerd needs root"},
        failed={"lost": "TimeoutError: it never was"},
    )
    text = report.as_text()
    for expected in ("MISSED", "met", "ours is 2.00 times that", "another: never", "1 of 2 aims met", "QUICK"):
        assert expected in text
    assert "not beside Docker Swarm: dockerd needs root" in text
    assert "lost: NOT MEASURED, TimeoutError: it never was" in text
    told = json.loads(report.as_json())
    assert [one["met"] for one in told["figures"]] == [False, True]
    assert told["figures"][0]["peers"] == {
        "a peer": {"n": 1, "median": 0.1, "min": 0.1, "max": 0.1, "values": [0.1], "ratio": 2.0},
        "another": {"none": "never"},
    }
    assert told["absentPeers"] == {"Docker Swarm": "dockerd needs root"}
