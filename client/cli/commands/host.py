# SPDX-License-Identifier: Apache-2.0
"""``perdure resync`` and ``forget``: what is done to hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, hosts, session
from client.cli.commands.describe import Output
from client.cli.render import Format

if TYPE_CHECKING:
    from client.api import Reconciler


def resync(
    host: session.Host,
    timeout: session.Timeout = session.DEFAULT_TIMEOUT,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the output.")] = Output.TEXT,
) -> None:
    """Have a host drop all that it believes and look again, and tell what differed and what was done.

    Hosts do so by themselves, at each start and reconnect and every few minutes.
    """

    async def act(fleet: Reconciler) -> None:
        report = await fleet.resync(host, timeout=timeout)
        form = Format.TABLE if output is Output.TEXT else Format(output.value)
        console.out(hosts.resynced(host, report, form))

    session.on_fleet(act)


def forget(
    host: session.Host,
    force: Annotated[
        bool, typer.Option("--force", help="Also where it has workloads. They stay, and wait for a host of this name.")
    ] = False,
    timeout: session.Timeout = session.DEFAULT_TIMEOUT,
) -> None:
    """Strike a host off the list that is gone for good. It is back if its worker is ever started again."""

    async def act(fleet: Reconciler) -> None:
        await fleet.forget(host, force=force, timeout=timeout)
        console.out(f"{host} forgotten")

    session.on_fleet(act)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(resync)
    app.command()(forget)
