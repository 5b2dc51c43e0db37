# SPDX-License-Identifier: Apache-2.0
"""``perdure apply``."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli import console, exits, results, session
from client.cli.exits import Exit

if TYPE_CHECKING:
    from client.api import Reconciler
    from client.applying import ApplyResult
    from perdure.model.manifest import Manifest


class Wait(StrEnum):
    """How long to stay."""

    FIRST_ATTEMPT = "first-attempt"
    RUNNING = "running"
    NONE = "none"


def apply(
    files: session.Files,
    wait: Annotated[
        Wait, typer.Option(help="Return after the first attempt, when all run, or at once.")
    ] = Wait.FIRST_ATTEMPT,
    timeout: session.Timeout = session.DEFAULT_TIMEOUT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and send nothing.")] = False,
    expect_generation: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Refuse each workload that is not at generation N now; 0: must not exist."
        ),
    ] = None,
) -> None:
    """Make workloads be as manifests say. Returns after the first attempt; the tries go on without it.

    Nothing is sent if anything in any file is wrong. With several workloads the exit code is the worst one:
    1, 4, 3, 5, 6, 7, 0 in this order.
    """
    from client import manifests

    wanted = [loaded.manifest for loaded in manifests.load(files)]

    async def act(fleet: Reconciler) -> Exit:
        if dry_run:
            console.out_lines(results.plans(await fleet.plan(wanted), console.width()))
            return Exit.DONE
        return await _apply(fleet, wanted, wait, timeout, expect_generation)

    raise typer.Exit(session.on_fleet(act))


async def _apply(
    fleet: Reconciler, wanted: list[Manifest], wait: Wait, timeout: timedelta, expect_generation: int | None
) -> Exit:
    from client.api import Wait as Stay

    found = await fleet.apply(wanted, wait=Stay(wait.value), timeout=timeout, expect_generation=expect_generation)
    console.out_lines(results.results(found, console.width()))
    _explain(found)
    return exits.worst(exits.of_result(result) for result in found)


def _explain(found: tuple[ApplyResult, ...]) -> None:
    """Say what the table cannot: hints, and what was sent when the server failed in the middle."""
    accepted = sum(result.is_accepted for result in found)
    if accepted < len(found):
        console.error(
            f"the server failed in the middle: {accepted} of {len(found)} workloads were accepted",
            "Apply the same files again: what was accepted already is not changed by that.",
        )
    hints = {
        error.hint: result.label
        for result in found
        if (error := results.telling_error(result)) is not None and error.hint
    }
    for host in dict.fromkeys(result.host for result in found if is_without_worker(result)):
        hints[f"start `perdure-worker --host {host}` on {host}, or correct the host; it is kept until then"] = host
    for hint, label in hints.items():
        console.note(f"hint: {label}: {hint}")


def is_without_worker(result: ApplyResult) -> bool:
    """Whether its host has no worker, as the message of the answer says, unlike that of a missing control worker."""
    answer = result.answer
    return answer is not None and answer.outcome.value == "noWorker" and "control" not in answer.message


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(apply)
