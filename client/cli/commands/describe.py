# SPDX-License-Identifier: Apache-2.0
"""``perdure describe``: everything about one workload, or one host."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from client.cli import console, hosts, render, session
from client.cli.render import Format

if TYPE_CHECKING:
    from client.api import Reconciler

KINDS: Final = ("workload", "host")


class Output(StrEnum):
    """Forms of output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def describe(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[HOST/]NAME|KIND", help="A workload; or one of the words host and workload, and then NAME."
        ),
    ],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name of what KIND says.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the output.")] = Output.TEXT,
) -> None:
    """Show everything about one workload: its state, its whole last error, and what happened to it.

    Of a host: its worker, how its workloads are, and what its latest resync found.
    """
    kind, wanted = ("workload", what) if name is None else (what, name)
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is neither workload nor host", param_hint="'KIND'")
    form = Format.TABLE if output is Output.TEXT else Format(output.value)

    async def act(fleet: Reconciler) -> None:
        show = _host if kind == "host" else _workload
        console.out(await show(fleet, wanted, form))

    session.on_fleet(act)


async def _workload(fleet: Reconciler, text: str, form: Format) -> str:
    host, name = await _found(fleet, text)
    status = await fleet.status(host, name)
    return render.one(status, form, now=session.now(), ui_url=fleet.ui_url(host, name))


async def _found(fleet: Reconciler, text: str) -> tuple[str, str]:
    """Host and name of a workload. Who gave the name of a host is told how to see that."""
    from client.errors import NotFound
    from client.hosts import HostFilters

    try:
        return await fleet.find(text)
    except NotFound as error:
        if not await fleet.hosts(HostFilters(names=(text,))):
            raise
        raise NotFound(error.message, f"There is a host of that name: `perdure describe host {text}`.") from error


async def _host(fleet: Reconciler, name: str, form: Format) -> str:
    from client.errors import NotFound
    from client.hosts import HostFilters

    found = await fleet.hosts(HostFilters(names=(name,)))
    if not found:
        raise NotFound.host(name)
    return hosts.one(found[0], form, now=session.now(), ui_url=fleet.host_ui_url(name))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(describe)
