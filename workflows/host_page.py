# SPDX-License-Identifier: Apache-2.0
"""What a host shows of itself in Temporal: its state, its worker, and what the latest resync found. Pure."""

from __future__ import annotations

import textwrap
from typing import Any

from perdure.model.host import HostState, HostStatus, HostTransition, ResyncReport
from perdure.model.values import format_duration
from perdure.wire import names
from temporalio.common import SearchAttributeUpdate

from workflows import wording
from workflows.display import Page

CHANGES_SHOWN = 10
DIFFERENCES_SHOWN = 10
"""In the details: those travel in an address, and stay below 4 KB."""


def page(status: HostStatus) -> Page:
    """The whole status, and beside it what a person looks for first."""
    return Page(_memo(status), _attributes(status), details(status), sign(status))


def _memo(status: HostStatus) -> dict[str, object]:
    return {
        names.MEMO_STATE: status.state.value,
        names.MEMO_HINT: advice(status),
        names.MEMO_STATUS: status.model_dump(mode="json"),
    }


def _attributes(status: HostStatus) -> dict[str, SearchAttributeUpdate[Any]]:
    return {
        "host": names.SA_HOST.value_set(status.host),
        "state": names.SA_STATE.value_set(status.state.value),
    }


def advice(status: HostStatus) -> str:
    """What a person can do. Empty where nothing has to be done."""
    if status.state is not HostState.LOST:
        return ""
    return (
        f"check host {status.host}, its link and its worker; it goes on by itself. "
        f"If it will never be back: perdure forget {status.host}"
    )


def sign(status: HostStatus) -> str:
    """One line for the first page, which by itself does not show the state."""
    if status.state is not HostState.LOST:
        return ""
    return textwrap.shorten(f"Lost: {_latest_reason(status)}", wording.SIGN_WIDTH, placeholder=" ...")


def details(status: HostStatus) -> str:
    """The whole story as Markdown: flat lists, since the Web UI's tables and code blocks cannot be read."""
    worker, resync = status.worker, status.last_resync
    facts = [
        ("Why", wording.part(_latest_reason(status))),
        ("What helps", wording.code(advice(status))),
        ("Since", wording.stamp(status.since)),
        ("Last sign known here", wording.stamp(status.seen_at) if status.seen_at else ""),
        ("Worker", wording.code(f"{worker.identity}, version {worker.version}") if worker else "none was ever started"),
        ("Engine", wording.code(f"{worker.engine} {worker.engine_version}".strip()) if worker else ""),
        ("Latest resync known here", _resync(resync) if resync else ""),
    ]
    lines = [f"### {status.state}", ""]
    lines += [f"- **{name}:** {fact}" for name, fact in facts if fact]
    if (telling := status.last_differences) is not None:
        lines += ["", f"**What the resync of {wording.stamp(telling.at)} found**", ""]
        lines += [
            f"- {wording.part(f'{one.workload}: {one.found}; {one.done}')}"
            for one in telling.differences[:DIFFERENCES_SHOWN]
        ]
    if status.history:
        lines += ["", "**Latest changes**", "", *map(_change, reversed(status.history[-CHANGES_SHOWN:]))]
    return "\n".join(lines)


def _resync(report: ResyncReport) -> str:
    differences = len(report.differences) + report.more_differences
    return (
        f"{wording.stamp(report.at)} ({report.reason}), took {format_duration(report.took)}; "
        f"workloads: {report.workloads}, containers: {report.containers}, differences: {differences}, orphans: {report.orphans}"
    )


def _latest_reason(status: HostStatus) -> str:
    for change in reversed(status.history):
        if change.at == status.since and change.state is status.state:
            return change.reason
    return ""


def _change(change: HostTransition) -> str:
    return f"- {wording.stamp(change.at)}, {change.state}: {wording.part(change.reason)}"
