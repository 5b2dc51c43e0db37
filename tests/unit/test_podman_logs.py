# SPDX-License-Identifier: Apache-2.0
"""Output becomes lines in bounded memory, however it is cut into frames and chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from hypothesis import given
from hypothesis import strategies as st

from activities.podman_logs import CUT_MARK, LINE_LIMIT, LineCutter, lines_of


def frame(data: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


async def chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(data: bytes, size: int = 7) -> list[bytes]:
    return [line async for line in lines_of(chunks(data, size))]


async def test_lines_come_whole_whatever_the_frames() -> None:
    """A frame ends in the middle of a line, a chunk in the middle of a header."""
    data = frame(b"fir") + frame(b"st\nsecond\n") + frame(b"third")
    for size in range(1, 12):
        assert await read(data, size) == [b"first", b"second", b"third"]


async def test_output_and_errors_do_not_mix_within_a_line() -> None:
    """Two streams take turns in the middle of their lines."""
    data = frame(b"out ", 1) + frame(b"err ", 2) + frame(b"a\n", 1) + frame(b"b\n", 2)
    assert await read(data) == [b"out a", b"err b"]


async def test_empty_lines_are_lines() -> None:
    """They are part of the output."""
    assert await read(frame(b"\n\na\n\n")) == [b"", b"", b"a", b""]


async def test_nothing_is_no_line() -> None:
    """A container that never wrote."""
    assert await read(b"") == []


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
