# SPDX-License-Identifier: Apache-2.0
"""Make a text short without losing its ends: an error says at its head what was tried, and at its tail the root cause."""

from __future__ import annotations

import re

from perdure.model.faults import MESSAGE_LIMIT_BYTES

_MARK = " [... {} bytes cut ...] "
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_LONGEST_MARK = len(_MARK) + 18


def shorten(text: str, limit: int = MESSAGE_LIMIT_BYTES) -> str:
    """One line of at most ``limit`` UTF-8 bytes, cut in the middle.

    Args:
        text: anything; line ends and runs of blanks become one blank, lone surrogates and control characters become question
            marks: a registry's answer must not steer a terminal, and in JSON such a character takes six bytes.
        limit: in bytes; where it is too small for a mark, only the head is kept.
    """
    data = _CONTROL.sub("?", " ".join(text.split())).encode("utf-8", errors="replace")
    if len(data) <= limit:
        return data.decode()
    room = limit - _LONGEST_MARK
    if room < 2:
        return data[:limit].decode(errors="ignore")
    head, tail = data[: room // 2], data[len(data) - (room - room // 2) :]
    cut = len(data) - len(head) - len(tail)
    return head.decode(errors="ignore") + _MARK.format(cut) + tail.decode(errors="ignore")
