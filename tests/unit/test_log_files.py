# SPDX-License-Identifier: Apache-2.0
"""Logs are kept small while somebody writes them, and the last words of a program are found in them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.runtime import log_files
from perdure.runtime.parts import complaint, last_line
from tests.support.waiting import eventually_async


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_files, "LARGEST_BYTES", 100)
    monkeypatch.setattr(log_files, "LOOK_EVERY", timedelta(milliseconds=10))
    (tmp_path / "host.log.1").write_text("older")
    return tmp_path / "host.log"


def texts(folder: Path) -> dict[str, str]:
    """The files of a folder."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def stubborn_log(log: Path) -> Path:
    """A large log in the way of whose copy something stands."""
    log.write_text("x" * 101)
    log.with_suffix(".log.new").mkdir()
    return log


async def test_a_log_that_is_being_written_is_put_aside(log: Path) -> None:
    """Its writer goes on in the same file, and the log before the last one is gone."""
    with log.open("a") as writer:
        writer.write("x" * 101)
        writer.flush()
        keeping = asyncio.create_task(log_files.keep_small([log.with_name("none.log"), log]))

        async def is_empty() -> bool:
            return texts(log.parent) == {"host.log": "", "host.log.1": "x" * 101}

        await eventually_async(is_empty, within=10)
        writer.write("more")
        writer.flush()
        assert texts(log.parent) == {"host.log": "more", "host.log.1": "x" * 101}
    keeping.cancel()


def test_a_small_log_is_left_alone(log: Path) -> None:
    log.write_text("x" * 100)
    assert not log_files.put_aside(log)
    assert log.read_text() == "x" * 100


async def test_a_log_that_cannot_be_put_aside_stops_nothing(
    stubborn_log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keeping = asyncio.create_task(log_files.keep_small([stubborn_log]))

    async def is_told() -> bool:
        return caplog.text.count("log cannot be put aside") >= 2

    await eventually_async(is_told, within=10)
    assert not keeping.done()
    keeping.cancel()
    assert texts(stubborn_log.parent) == {"host.log": "x" * 101, "host.log.1": "older"}


def test_the_latest_complaint_of_a_program_is_found_with_its_hint(log: Path) -> None:
    """And nothing that it said before the point from which one looks."""
    assert complaint(log) is None
    log.write_text("error: one\nhint: do one\n")
    begins_at = log.stat().st_size
    assert complaint(log, begins_at) is None
    log.write_text(log.read_text() + '{"event": "x"}\nerror: two\nhint: do two\nerror: three\n{"event": "y"}\n')
    found = complaint(log, begins_at)
    assert found is not None
    assert (found.message, found.hint) == ("three", f"See {log}.")
    first = complaint(log)
    assert first is not None
    assert first.message == "three"
    assert last_line(log) == '{"event": "y"}'
    assert last_line(log.with_name("none.log")) == "it said nothing"
