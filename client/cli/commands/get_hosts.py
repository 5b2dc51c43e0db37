# SPDX-License-Identifier: Apache-2.0
"""``perdure get hosts``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, hosts, session
from client.cli.commands.get import get, out_rows
from client.cli.exits import Exit
from client.cli.render import Format
from perdure.model.host import HostState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.api import Reconciler
    from client.hosts import HostFilters, HostView


def _state(text: str) -> HostState:
    """A state by its name, in any case."""
    known = {state.value.lower(): state for state in HostState}
    try:
        return known[text.lower()]
    except KeyError:
        names = ", ".join(HostState)
        raise typer.BadParameter(f"{text!r} is no state of a host; those are {names}", param_hint="'--state'") from None


def get_hosts(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these.")] = None,
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only those in this state, for example Lost.")
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="The form of the output.")] = Format.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show each again when it changes.")] = False,
) -> None:
    """Show hosts: whether each can be believed, when it was seen last, its versions, and how its workloads are.

    With -o json one array of all, with --watch one array for each change. A host that no worker ever served is shown where
    a workload names it.
    """
    from client.hosts import HostFilters

    wanted = tuple(dict.fromkeys(names or ()))
    filters = HostFilters(names=wanted, states=tuple(_state(text) for text in state or ()))

    async def act(fleet: Reconciler) -> Exit:
        if watch:
            return await _watch(fleet, filters, output)
        found = await fleet.hosts(filters)
        _show(found, output)
        missing = [name for name in wanted if name not in {host.host for host in found}]
        for name in missing:
            console.error(f"there is no host {name}" + (" that matches" if state else ""))
        return Exit.NOT_FOUND if missing else Exit.DONE

    raise typer.Exit(session.on_fleet(act))


async def _watch(fleet: Reconciler, filters: HostFilters, output: Format) -> Exit:
    """Show all, then what changes, until interrupted."""
    before: dict[str, HostView] | None = None
    async for found in fleet.watch_hosts(filters):
        lasting = {host.host: host.lasting for host in found}
        if before is None:
            _show(found, output)
        else:
            for name in before.keys() - lasting.keys():
                console.note(f"host {name} is not there any more, or no longer matches")
            _show([host for host in found if before.get(host.host) != lasting[host.host]], output, with_header=False)
        before = lasting
    return Exit.DONE


def _show(found: Sequence[HostView], output: Format, *, with_header: bool = True) -> None:
    lines = hosts.hosts(found, output, now=session.now(), width=console.width())
    out_rows(lines, output, if_none="" if found else "no hosts", with_header=with_header)


def register(_: typer.Typer) -> None:
    """Add the command to ``get``."""
    get.command(name="hosts")(get_hosts)
