# SPDX-License-Identifier: Apache-2.0
"""How the results of an apply look, and the plan of one. Pure, like ``client.cli.render``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from client.cli.render import one_line, state_text
from client.cli.tables import Cell, table
from perdure.model.states import State

if TYPE_CHECKING:
    from rich.text import Text

    from client.applying import ApplyResult
    from client.planning import Planned
    from perdure.model.faults import LastError

_OUTCOME_STYLES: Final = {
    "running": "green",
    "unchanged": "green",
    "updated": "green",
    "retrying": "yellow",
    "paused": "cyan",
    "waiting": "yellow",
    "superseded": "yellow",
}


def results(found: Sequence[ApplyResult], width: int | None) -> list[Text]:
    """What became of an apply."""
    rows = [
        (Cell(result.label), Cell(word, style), Cell(_generation(result)), Cell(detail))
        for result in found
        for word, style, detail in (_outcome(result),)
    ]
    return table(("WORKLOAD", "RESULT", "GEN", "DETAIL"), rows, width)


def plans(found: Sequence[Planned], width: int | None) -> list[Text]:
    """What an apply would do."""
    rows = [
        (
            Cell(f"{plan.host}/{plan.name}"),
            Cell(plan.change.value),
            Cell(str(plan.generation or "-")),
            Cell(plan.detail or "-"),
        )
        for plan in found
    ]
    return table(("WORKLOAD", "CHANGE", "GEN", "DETAIL"), rows, width)


def _generation(result: ApplyResult) -> str:
    return str(result.answer.generation) if result.answer is not None and result.answer.generation else "-"


def telling_error(result: ApplyResult) -> LastError | None:
    """The error that explains a result; one of an earlier generation explains nothing."""
    answer = result.answer
    if answer is None or answer.error is None or answer.error.generation != answer.generation:
        return None
    return answer.error if answer.state not in (State.RUNNING, State.SUCCEEDED) and not answer.message else None


def _outcome(result: ApplyResult) -> tuple[str, str, str]:
    """The word for a result, its style, and what more there is to say."""
    answer = result.answer
    if answer is None:
        return result.progress.value, "yellow" if result.is_accepted else "bold red", result.detail or "-"
    detail = one_line(telling_error(result)) or answer.message
    if not detail and answer.live is not None:
        detail = f"container {answer.live.container_id[:12]}"
    if answer.outcome.value in ("unchanged", "updated"):
        detail = f"{state_text(answer.state, answer.substate)} {detail}".strip()
    if not detail and answer.state is State.FAILED:
        detail = state_text(answer.state, answer.substate)
    return answer.outcome.value, _OUTCOME_STYLES.get(answer.outcome.value, "bold red"), detail or "-"
