# SPDX-License-Identifier: Apache-2.0
"""A long error keeps its head and its tail, in valid UTF-8, within the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.model.faults import MESSAGE_LIMIT_BYTES
from perdure.policy.shorten import shorten


def test_a_short_text_is_kept_as_it_is() -> None:
    """Nothing is cut that fits."""
    assert shorten("cannot pull: connection refused") == "cannot pull: connection refused"


def test_a_text_becomes_one_line() -> None:
    """A status, a log line and a table have one line for an error."""
    assert shorten("a\n\tb \r\n c") == "a b c"


def test_a_long_text_keeps_both_ends_and_says_how_much_is_gone() -> None:
    """What was tried stands at the head, the root cause at the tail."""
    short = shorten("cannot create /head: " + "x" * 4000 + ": no such file: /tail")
    assert short.startswith("cannot create /head: ")
    assert short.endswith(": no such file: /tail")
    assert " bytes cut ...]" in short


@given(st.text(max_size=5000), st.integers(min_value=1, max_value=2000))
def test_the_limit_holds_for_any_text(text: str, limit: int) -> None:
    """Also for characters of several bytes, and for limits that leave no room for a mark."""
    short = shorten(text, limit)
    assert len(short.encode()) <= limit
    assert "\n" not in short


@given(st.text(st.characters(min_codepoint=0x80, max_codepoint=0x1FFFF, exclude_categories=["Cs"]), min_size=9))
def test_the_limit_is_used_where_characters_are_wide(piece: str) -> None:
    """Only what must go goes: at most a broken character at each side of the cut, and the room for the mark."""
    text = piece * 200
    if len(" ".join(text.split()).encode()) > MESSAGE_LIMIT_BYTES:
        assert len(shorten(text).encode()) > MESSAGE_LIMIT_BYTES - 40


def test_lone_surrogates_do_no_harm() -> None:
    """JSON of a registry may hold them, and UTF-8 cannot."""
    assert shorten("bad \ud800 text") == "bad ? text"
