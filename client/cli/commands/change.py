# SPDX-License-Identifier: Apache-2.0
"""``perdure delete``, ``retry``, ``pause`` and ``resume``: signals to workloads, each followed until it was taken note of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, exits, render, session
from client.cli.exits import Exit

if TYPE_CHECKING:
    from datetime import timedelta

    from client.api import Reconciler


def delete(
    workloads: session.Workloads,
    wait: Annotated[bool, typer.Option(help="Return when nothing of it is left, or at once.")] = True,
    timeout: session.Timeout = session.DEFAULT_TIMEOUT,
    force: Annotated[
        bool, typer.Option("--force", help="Without the word of its host, which is gone for good, or never was.")
    ] = False,
) -> None:
    """Stop containers and remove everything of their workloads, but for named volumes.

    With --force no host is waited for: what is left there is removed at once if it answers, else when it is back.
    """

    async def remove(fleet: Reconciler, host: str, name: str) -> str:
        await fleet.remove(host, name, force=force)
        if not wait:
            return "is being removed"
        await until_removed(fleet, host, name, timeout)
        if force:
            await _clear_away(fleet, host, timeout)
        return "removed"

    _each(workloads, remove)


async def until_removed(fleet: Reconciler, host: str, name: str, timeout: timedelta) -> None:
    """Wait until a workload that was told to go is gone. It may be so before the first look."""
    from client.errors import NotFound
    from client.waiting import Condition

    with suppress(NotFound):
        await fleet.wait(host, name, Condition.REMOVED, timeout=timeout)


async def _clear_away(fleet: Reconciler, host: str, timeout: timedelta) -> None:
    """Have a host that answers look for what it has of a workload that is gone: it would run on until its next look by itself."""
    from client.errors import ReconcilerError
    from client.hosts import HostFilters
    from perdure.model.host import HostState

    if await fleet.hosts(HostFilters(names=(host,), states=(HostState.READY,))):
        with suppress(ReconcilerError):  # then that look by itself does it
            await fleet.resync(host, timeout=timeout)


def retry(
    workloads: session.Workloads,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")] = "",
) -> None:
    """Try again now, parked workloads too. The waits between tries go on from where they were."""

    async def again(fleet: Reconciler, host: str, name: str) -> str:
        await fleet.retry(host, name, reason)
        return await _settled(fleet, host, name)

    _each(workloads, again)


def pause(workloads: session.Workloads) -> None:
    """Leave workloads alone: what runs goes on running, nothing is tried or healed."""

    async def suspend(fleet: Reconciler, host: str, name: str) -> str:
        await fleet.pause(host, name)
        return await _settled(fleet, host, name)

    _each(workloads, suspend)


def resume(workloads: session.Workloads) -> None:
    """Take care of paused workloads again."""

    async def take_up(fleet: Reconciler, host: str, name: str) -> str:
        await fleet.resume(host, name)
        return await _settled(fleet, host, name)

    _each(workloads, take_up)


async def _settled(fleet: Reconciler, host: str, name: str) -> str:
    status = await fleet.settle(host, name)
    return render.state_text(status.state, status.substate) if status is not None else "removed"


def _each(workloads: list[str], act: Callable[[Reconciler, str, str], Awaitable[str]]) -> None:
    """Act on each, go on after a failure, and end with the worst exit code."""

    async def one(fleet: Reconciler, text: str) -> Exit:
        try:
            host, name = await fleet.find(text)
            console.out(f"{host}/{name} {await act(fleet, host, name)}")
        except Exception as error:
            if (code := exits.of_error(error)) is None:
                raise
            console.error(str(error), getattr(error, "hint", ""))
            return code
        return Exit.DONE

    async def all_of_them(fleet: Reconciler) -> Exit:
        return exits.worst([await one(fleet, text) for text in dict.fromkeys(workloads)])

    raise typer.Exit(session.on_fleet(all_of_them))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (delete, retry, pause, resume):
        app.command()(command)
