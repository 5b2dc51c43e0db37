# SPDX-License-Identifier: Apache-2.0
"""A container's output as lines, in bounded memory whatever the container writes.

Podman sends frames: a header of eight bytes (stream, length) and a piece of output that may end anywhere.
"""

from __future__ import annotations

from typing import Final

LINE_LIMIT: Final = 64 * 1024
"""Bytes of a line that are kept."""
CUT_MARK: Final = b" [... line cut at 64 KiB]"
_HEADER: Final = 8


class LineCutter:
    """Collects pieces of output into lines; what a line has above the limit is dropped while it comes."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._line = bytearray()
        self._is_cut = False
        self._is_open = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Take a piece; returns the lines that it completes, without their ends."""
        lines = []
        *ended, rest = piece.split(b"\n")
        for part in ended:
            self._add(part)
            lines.append(self._take())
        if rest:
            self._add(rest)
            self._is_open = True
        return lines

    def finish(self) -> list[bytes]:
        """The last line, where it has no end."""
        return [self._take()] if self._is_open else []

    def _add(self, part: bytes) -> None:
        room = self._limit - len(self._line)
        self._is_cut |= len(part) > room
        self._line += part[: max(0, room)]

    def _take(self) -> bytes:
        line = bytes(self._line) + (CUT_MARK if self._is_cut else b"")
        self._line.clear()
        self._is_cut = self._is_open = False
        return line.removesuffix(b"\r")


class FrameReader:
    """Takes the frames of a stream apart; a frame larger than memory should hold passes in pieces."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        self._stream = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take bytes as they come; returns pieces of output with the number of their stream (1 output, 2 errors)."""
        pieces = []
        view = memoryview(data)
        while view:
            if self._left:
                piece = bytes(view[: self._left])
                pieces.append((self._stream, piece))
                self._left -= len(piece)
                view = view[len(piece) :]
                continue
            missing = _HEADER - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER:
                self._stream = self._header[0]
                self._left = int.from_bytes(self._header[4:8], "big")
                self._header.clear()
        return pieces


class Output:
    """The output of one container, from one stream or, after ``rewind``, from several that begin at the same place.

    Lines of output and of errors come in the order of their ends, and are never mixed within one line.
    """

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._cutters: dict[int, LineCutter] = {}
        self._taken = 0
        self._to_skip = 0

    @property
    def has_begun(self) -> bool:
        """Whether anything was read."""
        return self._taken > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they come; returns the lines that they complete."""
        lines = []
        for stream, whole_piece in self._frames.feed(data):
            skipped = min(self._to_skip, len(whole_piece))
            self._to_skip -= skipped
            piece = whole_piece[skipped:]
            self._taken += len(piece)
            if piece:
                lines += self._cutters.setdefault(stream, LineCutter()).feed(piece)
        return lines

    def rewind(self) -> None:
        """What comes next begins at the beginning again: skip what was taken already."""
        self._frames = FrameReader()
        self._to_skip = self._taken

    def finish(self) -> list[bytes]:
        """The last lines, where they have no end."""
        return [line for cutter in self._cutters.values() for line in cutter.finish()]
