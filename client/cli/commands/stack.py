# SPDX-License-Identifier: Apache-2.0
"""``perdure up`` and ``down``: the embedded stack of this machine."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client.cli import console

if TYPE_CHECKING:
    from perdure.runtime.settings import Settings
    from perdure.runtime.stack import Stack
    from perdure.runtime.stack_record import StackRecord


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is ready, and leave it running.")
    ] = False,
    temporal_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Where Temporal listens; 7233 if not given, 0: any free."),
    ] = None,
    ui_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="Where the Web UI listens; Temporal's port + 1000 if not given."
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of this host; the machine's own name if not given.")
    ] = None,
    is_supervisor: Annotated[bool, typer.Option("--supervisor", hidden=True)] = False,
) -> None:
    """Run a stack on this machine: a durable Temporal server with its Web UI, and the workers.

    Its state is in PERDURE_HOME; with another home and other ports a second one runs beside it. Can be repeated: what
    runs already is kept, what is missing is started.
    """
    import asyncio

    from perdure.runtime.settings import Settings

    options: dict[str, Any] = {"temporal_port": temporal_port, "ui_port": ui_port, "host": host}
    settings = Settings.load(**{name: value for name, value in options.items() if value is not None})
    asyncio.run(_detached(settings) if detach else _foreground(settings, tells=not is_supervisor))


def down(
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Also remove the containers of its workloads, and all state. Cannot be undone."),
    ] = False,
) -> None:
    """Stop the stack of this machine. Containers go on running, unless --purge is given."""
    import asyncio

    from perdure.runtime.settings import Settings

    asyncio.run(_down(Settings.load(), purge=purge))


async def _foreground(settings: Settings, *, tells: bool) -> None:
    """Supervise the stack until a signal asks to stop it, and tell when it is ready where somebody listens."""
    import asyncio

    from perdure.runtime import logs
    from perdure.runtime.stack import AlreadyUp, Stack

    logs.configure(settings)
    stack = Stack(settings)
    me = asyncio.current_task()
    asked: list[int] = []

    def ask(number: int) -> None:
        asked.append(number)
        if me is not None:
            me.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask, number)
    try:
        async with stack.running() as record:
            if tells:
                from perdure.runtime.readiness import until_ready

                await until_ready(stack, record)
                _show(stack, record)
                console.note("ready; stop it by Ctrl-C, or from elsewhere by `perdure down`")
            await asyncio.Event().wait()
    except AlreadyUp:
        if (other := stack.record) is None:
            raise
        _show(stack, other)
        console.note("it was up already")
    except asyncio.CancelledError:
        if not asked:
            raise
        if signal.SIGINT in asked:
            raise KeyboardInterrupt from None


async def _detached(settings: Settings) -> None:
    """Start a supervisor that outlives us, and wait until all works."""
    from perdure.runtime.entry_points import command_of
    from perdure.runtime.launch import launch
    from perdure.runtime.readiness import until_ready
    from perdure.runtime.stack import Stack

    stack = Stack(settings)
    record = await launch(stack, [*command_of("perdure", "client.cli.app"), "up", "--supervisor"])
    await until_ready(stack, record)
    _show(stack, record)


def _show(stack: Stack, record: StackRecord) -> None:
    console.out(f"Temporal  {record.temporal_address}")
    console.out(f"Web UI    {record.ui_url}")
    console.out(f"Host      {record.host}, with Podman at {record.podman_url}")
    console.out(f"Home      {stack.home}")


async def _down(settings: Settings, *, purge: bool) -> None:
    from perdure.runtime.stack import Stack

    stack = Stack(settings)
    stopped = await stack.down()
    console.out(f"stopped: {', '.join(stopped)}" if stopped else f"nothing was running in {stack.home}")
    if purge:
        removed = await stack.purge()
        console.out(f"removed: {removed} containers, and all state in {stack.home}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(down)
