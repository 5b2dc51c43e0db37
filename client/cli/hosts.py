# SPDX-License-Identifier: Apache-2.0
"""How hosts look. Pure: what the client knows of them and the time in, text out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from client.cli.render import Format, ago, stamp, to_yaml
from client.cli.tables import Cell, Row, table
from perdure.model.host import HostState

if TYPE_CHECKING:
    from rich.text import Text

    from client.hosts import HostView
    from perdure.model.base import Model
    from perdure.model.host import ResyncReport

_STYLES: Final = {
    HostState.READY: "green",
    HostState.WAITING: "yellow",
    HostState.LOST: "bold magenta",
    HostState.NEVER_SEEN: "yellow",
}
_HINTS: Final = {
    HostState.LOST: "look at the machine, its link and its `perdure-worker --host {host}`; it is back by itself",
    HostState.NEVER_SEEN: "start `perdure-worker --host {host}` there, or correct the name in the manifest",
}
"""What to do where a host does not answer. One that was never seen has no page in the Web UI."""


def hosts(found: Sequence[HostView], form: Format, *, now: datetime, width: int | None) -> list[Text]:
    """Hosts as lines of a form."""
    from rich.text import Text

    match form:
        case Format.JSON:
            return [Text(json.dumps([_data(host) for host in found], indent=2, ensure_ascii=False))]
        case Format.YAML:
            return [Text(to_yaml([_data(host) for host in found]).rstrip("\n"))]
        case Format.NAME:
            return [Text(host.host) for host in found]
        case Format.TABLE | Format.WIDE:
            is_wide = form is Format.WIDE
            return table(header(is_wide), [row(host, now, is_wide=is_wide) for host in found], width)


def header(is_wide: bool) -> tuple[str, ...]:
    """The columns."""
    more = ("SINCE", "IDENTITY", "STARTED") if is_wide else ()
    return ("HOST", "STATE", "SEEN", "WORKER", "PODMAN", *more, "WORKLOADS", "RESYNC")


def row(host: HostView, now: datetime, *, is_wide: bool = False) -> Row:
    """A host in the table."""
    worker = host.worker
    cells = [
        Cell(host.host),
        Cell(host.state.value, _STYLES[host.state]),
        Cell(f"{ago(host.seen_at, now)} ago" if host.seen_at else "never"),
        Cell(worker.version if worker else "-"),
        Cell((worker.engine_version if worker else "") or "-"),
    ]
    if is_wide:
        cells += [
            Cell(ago(host.since, now) if host.since else "-"),
            Cell(worker.identity if worker else "-"),
            Cell(f"{ago(worker.started_at, now)} ago" if worker else "-"),
        ]
    resync = host.last_resync
    looked = (
        f"{ago(resync.at, now)} ago" + (f", {difference_count(resync)}" if resync.differences else "") if resync else ""
    )
    return (*cells, Cell(counts(host) or "-"), Cell(host.warning or looked or "-"))


def one(host: HostView, form: Format, *, now: datetime, ui_url: str = "") -> str:
    """One host, whole."""
    match form:
        case Format.JSON:
            return json.dumps(_data(host), indent=2, ensure_ascii=False)
        case Format.YAML:
            return to_yaml(_data(host)).rstrip("\n")
    return description(host, now, ui_url)


def description(host: HostView, now: datetime, ui_url: str) -> str:
    """Everything about one host, for people."""
    worker, since = host.worker, host.since
    facts: list[tuple[str, str]] = [
        ("State", host.state.value + (f" for {ago(since, now)}, since {stamp(since)}" if since else "")),
        ("Seen", f"{stamp(host.seen_at)}, {ago(host.seen_at, now)} ago" if host.seen_at else "never"),
        ("Worker", f"{worker.version}, {worker.identity}, started {stamp(worker.started_at)}" if worker else ""),
        ("Engine", f"{worker.engine} {worker.engine_version}".strip() if worker else ""),
        ("Workloads", counts(host) or "none"),
        ("Warning", host.warning),
        ("Hint", _HINTS.get(host.state, "").format(host=host.host)),
        ("Web UI", "" if host.state is HostState.NEVER_SEEN else ui_url),
    ]
    lines = [host.host, *(f"  {name:<12}{value}" for name, value in facts if value)]
    if host.last_resync is not None:
        lines += ["", _latest(host.last_resync, now)]
        lines += differences(host.last_resync)
    if host.last_differences is not None and host.last_differences != host.last_resync:
        lines += ["", f"Last differences, found at {stamp(host.last_differences.at)}"]
        lines += differences(host.last_differences)
    if host.history:
        lines += ["", "History"]
        for change in reversed(host.history):
            lines.append(f"  {stamp(change.at)}  {change.state.value:<10} {change.reason}".rstrip())
    return "\n".join(lines)


def _latest(report: ResyncReport, now: datetime) -> str:
    return f"Last resync, {ago(report.at, now)} ago ({report.reason.value}): {summary(report)}"


def resynced(host: str, report: ResyncReport, form: Format) -> str:
    """What a resync found and did."""
    match form:
        case Format.JSON:
            return json.dumps(_data(report), indent=2, ensure_ascii=False)
        case Format.YAML:
            return to_yaml(_data(report)).rstrip("\n")
    return "\n".join([f"{host}: {summary(report)}", *differences(report)])


def summary(report: ResyncReport) -> str:
    """A resync in one line."""
    seen = f"{_count(report.containers, 'container')} and {_count(report.workloads, 'workload')} in {_seconds(report.took)}"
    found = difference_count(report) if report.differences else "nothing differed"
    orphans = f", {_count(report.orphans, 'orphan')} to be removed" if report.orphans else ""
    strangers = f", left {_count(report.strangers, 'container')} of another server alone" if report.strangers else ""
    return f"{seen}: {found}{orphans}{strangers}"


def differences(report: ResyncReport) -> list[str]:
    """What a resync found to differ, a line for each."""
    wide = max((len(difference.workload) for difference in report.differences), default=0)
    lines = [f"  {each.workload:<{wide}}  {each.found}: {each.done}" for each in report.differences]
    return lines + ([f"  and {report.more_differences} more"] if report.more_differences else [])


def difference_count(report: ResyncReport) -> str:
    """How many differences a resync found, in words."""
    return _count(len(report.differences) + report.more_differences, "difference")


def counts(host: HostView) -> str:
    """How many workloads a host has, and in which states, those first of which there are most: ``12: 11 Running, 1 Pending``."""
    states = sorted(host.workloads.items(), key=lambda item: (-item[1], item[0]))
    in_words = ", ".join(f"{count} {state.value}" for state, count in states)
    return f"{sum(host.workloads.values())}: {in_words}" if states else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _seconds(took: timedelta) -> str:
    return f"{took.total_seconds():.2f} s"


def _data(value: Model) -> dict[str, object]:
    return value.model_dump(mode="json", by_alias=True)
