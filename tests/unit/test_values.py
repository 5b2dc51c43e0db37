# SPDX-License-Identifier: Apache-2.0
"""Durations, sizes, permission bits and signals."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.values import (
    LONGEST_DURATION,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_mode,
    parse_signal,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("1.5s", 1.5),
        ("1h30m", 5400),
        ("2d", 172800),
        (" 5m ", 300),
        ("0s", 0),
        ("0.1s", 0.1),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "wrong",
    ["", "5", "s", "-5s", "5 s", "1e3s", "5 minutes", "٣s", "1h 30m", "9" * 400 + "s", 5, None, True, [], "∞"],
    ids=repr,
)
def test_what_is_not_a_duration_is_refused_with_what_to_write(wrong: object) -> None:
    with pytest.raises(ValueError, match="500ms, 30s, 5m, 2h or 1d"):
        parse_duration(wrong)


def test_a_duration_beyond_all_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="too long a duration: the longest is 3650d"):
        parse_duration("99999999999999d")


@given(st.integers(0, LONGEST_DURATION // timedelta(milliseconds=1)))
def test_a_duration_is_read_back_as_it_was_written(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("64Mi", 64 * 2**20),
        ("128M", 128_000_000),
        ("1Gi", 2**30),
        ("0.5Gi", 2**29),
        ("1k", 1000),
        ("1Ki", 1024),
        ("64MiB", 64 * 2**20),
        ("1Ti", 2**40),
        ("65536", 65536),
        (65536, 65536),
    ],
    ids=repr,
)
def test_a_size_is_a_number_with_or_without_a_unit(size: object, count: int) -> None:
    assert parse_bytes(size) == count


@pytest.mark.parametrize(
    "wrong", ["64m", "64mi", "-1", -1, "", "Mi", "1e9", "lots", 1.5, True, None, "1" * 40], ids=repr
)
def test_what_is_not_a_size_is_refused_with_what_to_write(wrong: object) -> None:
    """``64m`` is 64 MiB to Docker and 64 thousandths to Kubernetes: it must not be guessed."""
    with pytest.raises(ValueError, match="64Mi, 128M or 1Gi"):
        parse_bytes(wrong)


@given(st.integers(0, 2**60))
def test_a_size_is_read_back_as_it_was_written(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@pytest.mark.parametrize(("text", "mode"), [("0644", 0o644), ("644", 0o644), ("0o755", 0o755), ("1777", 0o1777)])
def test_permission_bits_are_octal_text(text: str, mode: int) -> None:
    assert parse_mode(text) == mode


@pytest.mark.parametrize("wrong", [644, 0o644, "888", "rw-r--r--", "07777777", "", None], ids=repr)
def test_permission_bits_as_a_number_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="octal digits"):
        parse_mode(wrong)


@pytest.mark.parametrize(
    ("text", "name"), [("SIGTERM", "SIGTERM"), ("term", "SIGTERM"), ("15", "SIGTERM"), ("SIGCLD", "SIGCHLD")]
)
def test_a_signal_is_a_name_or_a_number(text: str, name: str) -> None:
    assert parse_signal(text) == name


@pytest.mark.parametrize("wrong", ["SIGNOPE", "0", "999", "", "-9", "²"])
def test_what_is_not_a_signal_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not a signal"):
        parse_signal(wrong)
