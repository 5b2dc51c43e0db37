# SPDX-License-Identifier: Apache-2.0
"""What commands share: a fleet to talk to, and options that are written the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from client.api import Reconciler

T = TypeVar("T")
DEFAULT_TIMEOUT: Final = timedelta(seconds=60)


def on_fleet(action: Callable[[Reconciler], Awaitable[T]]) -> T:
    """Connect to the fleet of the settings, act, and return what came of it."""
    import asyncio

    from client.api import Reconciler

    async def act() -> T:
        async with await Reconciler.connect() as fleet:
            return await action(fleet)

    return asyncio.run(act())


def now() -> datetime:
    """The time, to tell ages by."""
    return datetime.now(UTC)


def duration(text: str | timedelta) -> timedelta:
    """Read a duration of the command line; a bare number is seconds. A default comes as it is."""
    from perdure.model.values import parse_duration

    if isinstance(text, timedelta):
        return text
    if re.fullmatch(r"\d+", text.strip()):
        text = f"{text.strip()}s"
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Files = Annotated[
    list[str],
    typer.Option("-f", "--file", metavar="FILE", help="A manifest, a directory of them, or - for standard input."),
]
Timeout = Annotated[
    timedelta,
    typer.Option(
        "--timeout",
        parser=duration,
        metavar="DURATION",
        show_default="60s",
        help="How long to wait, for example 90s or 5m.",
    ),
]
Host = Annotated[str, typer.Argument(metavar="HOST", help="The name of the host.")]
Workload = Annotated[
    str, typer.Argument(metavar="[HOST/]NAME", help="The host may be left out where only one has the name.")
]
Workloads = Annotated[
    list[str], typer.Argument(metavar="[HOST/]NAME...", help="The host may be left out where only one has the name.")
]
