# SPDX-License-Identifier: Apache-2.0
"""What a host remembers while Temporal is away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from activities.ledger import Ledger, LocalRuns
from perdure.model.observation import LastExit

RUNS = LocalRuns(container_id="c1", incarnation="i1", crashes=2, restarts=2, exit=LastExit(code=3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """In a folder that is not there yet."""
    return tmp_path / "home" / "autonomy.json"


def full(path: Path) -> Ledger:
    """A ledger with something of everything."""
    ledger = Ledger(path)
    ledger.serve("the-server")
    ledger.rest({"job": "i2"})
    ledger.note("web", RUNS)
    return ledger


def told(ledger: Ledger) -> tuple[str, dict[str, str], LocalRuns | None]:
    """All that is in it."""
    return ledger.fleet_id, ledger.resting, ledger.runs_of("web")


def test_it_is_the_same_after_the_end_of_its_process(path: Path) -> None:
    """Nothing waits to be written."""
    ledger = full(path)
    assert told(Ledger(path)) == told(ledger) == ("the-server", {"job": "i2"}, RUNS)
    ledger.forget("web")
    assert told(Ledger(path)) == ("the-server", {"job": "i2"}, None)
    ledger.note("job", RUNS)
    ledger.forget("job", resting=True)
    assert told(Ledger(path)) == ("the-server", {}, None)


def test_what_was_noted_for_another_server_means_nothing(path: Path) -> None:
    """Its workloads are others, whatever their names."""
    ledger = full(path)
    ledger.serve("the-server")
    assert told(ledger) == ("the-server", {"job": "i2"}, RUNS)
    ledger.serve("another")
    assert told(Ledger(path)) == ("another", {}, None)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[]", b'{"runs": {"web": 1}}', b"\0" * 4096])
def test_a_broken_file_is_said_to_be_broken_and_begun_anew(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A help must never be a hindrance."""
    full(path)
    path.write_bytes(content)
    ledger = Ledger(path)
    assert told(ledger) == ("", {}, None)
    assert "the ledger cannot be read, and is begun anew" in caplog.text
    ledger.note("web", RUNS)
    assert told(Ledger(path)) == ("", {}, RUNS)


def test_a_file_of_a_later_release_can_be_read(path: Path) -> None:
    """An update may be taken back."""
    full(path)
    page = json.loads(path.read_text())
    page["new"] = page["runs"]["web"]["new"] = 1
    path.write_text(json.dumps(page))
    assert told(Ledger(path)) == ("the-server", {"job": "i2"}, RUNS)


def test_a_file_that_cannot_be_written_stops_nobody(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is to be remembered is remembered at least as long as the process lives."""
    path.parent.write_text("not a folder")
    ledger = full(path)
    assert told(ledger) == ("the-server", {"job": "i2"}, RUNS)
    assert "the ledger cannot be written" in caplog.text


def test_a_file_that_was_half_written_by_a_crash_is_not_looked_at(path: Path) -> None:
    """The old one counts until the new one is whole."""
    full(path)
    path.with_suffix(".new").write_text("{")
    assert told(Ledger(path)) == ("the-server", {"job": "i2"}, RUNS)
    assert path.stat().st_size < 500
