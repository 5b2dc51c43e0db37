# SPDX-License-Identifier: Apache-2.0
"""``perdure describe``: everything about one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, render, session
from client.cli.render import Format

if TYPE_CHECKING:
    from client.api import Reconciler


class Output(StrEnum):
    """Forms of output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def describe(
    workload: session.Workload,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the output.")] = Output.TEXT,
) -> None:
    """Show everything about one workload: its state, its whole last error, and what happened to it."""

    async def act(fleet: Reconciler) -> None:
        host, name = await fleet.find(workload)
        status = await fleet.status(host, name)
        form = Format.TABLE if output is Output.TEXT else Format(output.value)
        console.out(render.one(status, form, now=session.now(), ui_url=fleet.ui_url(host, name)))

    session.on_fleet(act)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(describe)
