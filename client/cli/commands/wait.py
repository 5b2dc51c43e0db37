# SPDX-License-Identifier: Apache-2.0
"""``perdure wait``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, render, session

if TYPE_CHECKING:
    from client.api import Reconciler


class Condition(StrEnum):
    """What can be waited for."""

    RUNNING = "running"
    HEALTHY = "healthy"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PAUSED = "paused"
    REMOVED = "removed"


def wait(
    workload: session.Workload,
    condition: Annotated[Condition, typer.Option("--for", help="What to wait for.")] = Condition.RUNNING,
    timeout: session.Timeout = session.DEFAULT_TIMEOUT,
    generation: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Wait for this generation; a newer one ends the wait with 4.")
    ] = None,
) -> None:
    """Wait until a workload gets somewhere, for the manifest that was applied last.

    Ends at once with 1 where it will not get there by itself, with 5 where nobody does the work, and with 6 after the timeout.
    """
    from client.waiting import Condition as Aim

    async def act(fleet: Reconciler) -> None:
        host, name = await fleet.find(workload)
        status = await fleet.wait(host, name, Aim(condition.value), timeout=timeout, generation=generation)
        text = render.state_text(status.state, status.substate) if status is not None else "Removed"
        console.out(f"{host}/{name} {text}")

    session.on_fleet(act)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(wait)
