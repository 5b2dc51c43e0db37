# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Seen = TypeVar("Seen")

PAUSE_SECONDS = 0.02


def eventually(look: Callable[[], Seen], *, within: float, what: str = "") -> Seen:
    """Look again and again until what is seen is true, and return it.

    Args:
        look: the condition. An AssertionError counts as "not yet", so that it may hold asserts.
        within: seconds after which the wait fails.
        what: what is waited for, for the message of the failure.
    """
    deadline = time.monotonic() + within
    while True:
        seen, why_not = _try(look)
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(_message(look, within, what, seen, why_not)) from why_not
        time.sleep(PAUSE_SECONDS)


async def eventually_async(look: Callable[[], Awaitable[Seen]], *, within: float, what: str = "") -> Seen:
    """The same for a running event loop."""
    deadline = time.monotonic() + within
    while True:
        seen: Seen | None
        why_not: AssertionError | None = None
        try:
            seen = await look()
        except AssertionError as failed:
            seen, why_not = None, failed
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(_message(look, within, what, seen, why_not)) from why_not
        await asyncio.sleep(PAUSE_SECONDS)


def _try(look: Callable[[], Seen]) -> tuple[Seen | None, AssertionError | None]:
    try:
        return look(), None
    except AssertionError as failed:
        return None, failed


def _message(look: object, within: float, what: str, seen: object, why_not: AssertionError | None) -> str:
    name = what or getattr(look, "__qualname__", repr(look))
    return f"not within {within:g} s: {name}; last seen: {why_not or repr(seen)}"
