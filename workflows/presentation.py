# SPDX-License-Identifier: Apache-2.0
"""What a workload shows of itself in Temporal: memo, search attributes and current details. It never decides anything.

The memo holds everything, since it can be read while no worker is there; the details repeat it for people. A search attribute
of more than 2 KiB would end the workflow: only short words go there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.model.states import State
from perdure.model.status import WorkloadStatus
from perdure.wire import names
from temporalio.common import SearchAttributeUpdate


def memo(status: WorkloadStatus) -> Mapping[str, object]:
    """The whole status, and beside it what a person looks for first."""
    error = status.last_error
    return {
        names.MEMO_STATE: f"{status.state}/{status.substate}",
        names.MEMO_LAST_ERROR: error.message if error else "",
        names.MEMO_LAST_ERROR_KIND: error.kind.value if error else "",
        names.MEMO_LAST_ERROR_AT: f"{error.last_at:%Y-%m-%d %H:%M:%S} UTC" if error else "",
        names.MEMO_HINT: error.hint if error else "",
        names.MEMO_IMAGE: status.image,
        names.MEMO_STATUS: status.model_dump(mode="json"),
    }


def search_attributes(status: WorkloadStatus, before: WorkloadStatus | None) -> list[SearchAttributeUpdate[Any]]:
    """The attributes that differ from those of the status before."""
    now, then = _attributes(status), _attributes(before) if before else {}
    return [update for key, update in now.items() if before is None or then[key].value != update.value]


def _attributes(status: WorkloadStatus) -> dict[str, SearchAttributeUpdate[Any]]:
    fine = status.state in (State.RUNNING, State.SUCCEEDED, State.REMOVED)
    kind = None if fine or status.last_error is None else status.last_error.kind.value
    return {
        "host": names.SA_HOST.value_set(status.host),
        "workload": names.SA_WORKLOAD.value_set(status.name),
        "manifest": names.SA_MANIFEST.value_set(status.manifest),
        "state": names.SA_STATE.value_set(status.state.value),
        "substate": names.SA_SUBSTATE.value_set(status.substate.value),
        "kind": names.SA_ERROR_KIND.value_set(kind) if kind else names.SA_ERROR_KIND.value_unset(),
        "generation": names.SA_GENERATION.value_set(status.generation),
    }


def details(status: WorkloadStatus) -> str:
    """Markdown for the Web UI: flat lists, and error text as inline code, which alone stays as it is."""
    lines = [f"### {status.state} / {status.substate}", ""]
    lines.append(f"- Image: {_code(status.image)}, generation {status.generation}")
    lines.append(f"- Since: {status.since:%Y-%m-%d %H:%M:%S} UTC")
    if status.live is not None and status.state is not State.RUNNING:
        lines.append(f"- Running meanwhile: generation {status.live.generation}")
    if status.give_up_at is not None:
        lines.append(f"- Gives up: {status.give_up_at:%Y-%m-%d %H:%M:%S} UTC")
    if status.next_attempt_at is not None:
        lines.append(f"- Next try, as last reported: {status.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC")
    if status.warning:
        lines.append(f"- Warning: {_code(status.warning)}")
    error = status.last_error
    if error is not None:
        lines.append(f"- Last error: {error.kind} ({error.fault_class}), {error.last_at:%Y-%m-%d %H:%M:%S} UTC")
        if error.hint:
            lines.append(f"- Hint: {error.hint}")
        lines += ["", _code(error.message)]
    return "\n".join(lines)


def _code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("\n", " ") + "`"
