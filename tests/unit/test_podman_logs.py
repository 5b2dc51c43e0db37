# SPDX-License-Identifier: Apache-2.0
"""Output becomes lines in bounded memory, however it is cut into frames and chunks."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from activities.podman_logs import CUT_MARK, LINE_LIMIT, LineCutter, Output


def frame(data: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def read(data: bytes, size: int = 7) -> list[bytes]:
    output = Output()
    lines = [line for start in range(0, len(data), size) for line in output.feed(data[start : start + size])]
    return lines + output.finish()


def test_lines_come_whole_whatever_the_frames() -> None:
    """A frame ends in the middle of a line, a chunk in the middle of a header."""
    data = frame(b"fir") + frame(b"st\nsecond\n") + frame(b"third")
    for size in range(1, 12):
        assert read(data, size) == [b"first", b"second", b"third"]


def test_output_and_errors_do_not_mix_within_a_line() -> None:
    """Two streams take turns in the middle of their lines."""
    data = frame(b"out ", 1) + frame(b"err ", 2) + frame(b"a\n", 1) + frame(b"b\n", 2)
    assert read(data) == [b"out a", b"err b"]


def test_empty_lines_are_lines() -> None:
    """They are part of the output."""
    assert read(frame(b"\n\na\n\n")) == [b"", b"", b"a", b""]


def test_nothing_is_no_line() -> None:
    """A container that never wrote."""
    assert read(b"") == []


def test_a_line_above_the_limit_is_cut_with_a_mark() -> None:
    """A hundred megabytes without an end keep 64 KiB, and the next line is whole again."""
    cutter = LineCutter()
    piece = b"x" * 65_536
    for _ in range(1600):
        assert cutter.feed(piece) == []
        assert len(cutter._line) <= LINE_LIMIT
    assert cutter.feed(b"\nnext\n") == [b"x" * LINE_LIMIT + CUT_MARK, b"next"]


def test_a_line_at_the_limit_is_whole() -> None:
    """No mark where nothing was cut."""
    assert LineCutter().feed(b"x" * LINE_LIMIT + b"\n") == [b"x" * LINE_LIMIT]


def collect(cutter: LineCutter, pieces: Iterable[bytes]) -> list[bytes]:
    return [line for piece in pieces for line in cutter.feed(piece)] + cutter.finish()


@given(st.lists(st.binary(max_size=20)))
def test_pieces_make_no_difference(pieces: list[bytes]) -> None:
    """The same output gives the same lines."""
    assert collect(LineCutter(8), pieces) == collect(LineCutter(8), [b"".join(pieces)])


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=20))), st.integers(min_value=0))
def test_a_second_stream_goes_on_where_the_first_broke_off(pieces: list[tuple[int, bytes]], broken_at: int) -> None:
    """Podman breaks off anywhere; the whole from its beginning fills in what is missing, and nothing comes twice."""
    data = b"".join(frame(piece, stream) for stream, piece in pieces)
    output = Output()
    lines = output.feed(data[: broken_at % (len(data) + 1)])
    output.rewind()
    lines += output.feed(data)
    assert lines + output.finish() == read(data)
