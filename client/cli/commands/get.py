# SPDX-License-Identifier: Apache-2.0
"""``perdure get``: the latest of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, render, session
from client.cli.exits import Exit
from client.cli.render import Format
from perdure.model.states import State, Substate

if TYPE_CHECKING:
    from rich.text import Text

    from client.api import Reconciler
    from client.listing import Filters
    from perdure.model.status import WorkloadStatus

get = typer.Typer(help="Show the latest of each.", no_args_is_help=True, rich_markup_mode=None)


def _state(text: str) -> State | Substate:
    """A state or substate by its name, in any case."""
    known: dict[str, State | Substate] = {value.value.lower(): value for value in (*Substate, *State)}
    try:
        return known[text.lower()]
    except KeyError:
        names = ", ".join(dict.fromkeys(value.value for value in (*State, *Substate)))
        raise typer.BadParameter(f"{text!r} is no state; the states are {names}", param_hint="'--state'") from None


@get.command()
def workloads(
    names: Annotated[list[str] | None, typer.Argument(metavar="[[HOST/]NAME...]", help="Only these.")] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Only those on this host.")] = "",
    manifest: Annotated[str, typer.Option(metavar="NAME", help="Only those of this manifest.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only those in this state or substate, for example Failed or PullBackoff."),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="The form of the output.")] = Format.TABLE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show each again when it changes.")] = False,
) -> None:
    """Show workloads: state, attempt, next try and last error of each.

    With -o json one array of all, with --watch one array for each change.
    """
    from client.listing import Filters

    bare = tuple(dict.fromkeys(name.rpartition("/")[2] for name in names or ()))
    filters = Filters(host=host, names=bare, states=tuple(_state(text) for text in state or ()), manifest=manifest)

    async def act(fleet: Reconciler) -> Exit:
        if watch:
            return await _watch(fleet, filters, names or [], output)
        found = await _find(fleet, filters, names or [])
        _show(found, output)
        missing = [name for name in names or () if not _named(found, [name])]
        for name in missing:
            console.error(f"there is no workload {name}" + (" that matches" if host or manifest or state else ""))
        return Exit.NOT_FOUND if missing else Exit.DONE

    raise typer.Exit(session.on_fleet(act))


async def _find(fleet: Reconciler, filters: Filters, names: list[str]) -> list[WorkloadStatus]:
    """Those that match. What was applied this moment may not be in the list yet, so full names are looked up on their own."""
    from client.errors import NotFound
    from client.listing import Filters as Only

    found = _named(await fleet.list(filters), names)
    if replace(filters, names=()) != Only():
        return found
    for host, slash, name in (full.partition("/") for full in names):
        if slash and not _named(found, [f"{host}/{name}"]):
            with suppress(NotFound):
                found.append(await fleet.status(host, name))
    return found


async def _watch(fleet: Reconciler, filters: Filters, names: list[str], output: Format) -> Exit:
    """Show all, then what changes, until interrupted."""
    before: dict[str, WorkloadStatus] | None = None
    async for matching in fleet.watch(filters):
        found = {f"{status.host}/{status.name}": status for status in _named(matching, names)}
        if before is None:
            _show(list(found.values()), output)
        else:
            gone = [_gone(status) for label, status in before.items() if label not in found]
            changed = [status for label, status in found.items() if before.get(label) != status]
            _show(gone + changed, output, with_header=False)
        before = found
    return Exit.DONE


def _named(found: Sequence[WorkloadStatus], names: list[str]) -> list[WorkloadStatus]:
    """Those of these names, each with or without its host; all where there are none."""
    return [status for status in found if not names or {status.name, f"{status.host}/{status.name}"} & set(names)]


def _gone(status: WorkloadStatus) -> WorkloadStatus:
    """The last that is shown of a workload that no longer matches."""
    return status.model_copy(
        update={"state": State.REMOVED, "substate": Substate.OK, "next_attempt_at": None, "attempt": 0}
    )


def _show(found: list[WorkloadStatus], output: Format, *, with_header: bool = True) -> None:
    lines = render.statuses(found, output, now=session.now(), width=console.width())
    out_rows(lines, output, if_none="" if found else "no workloads", with_header=with_header)


def out_rows(lines: list[Text], output: Format, *, if_none: str, with_header: bool) -> None:
    """Print what was found; a table of nothing is a remark, and one that goes on has no second header.

    Args:
        lines: of the whole output.
        output: its form.
        if_none: the remark, where nothing was found.
        with_header: whether this is the beginning of the table.
    """
    if output in (Format.TABLE, Format.WIDE):
        if if_none and with_header:
            console.note(if_none)
            return
        lines = lines if with_header else lines[1:]
    console.out_lines(lines)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(get, name="get")
