# SPDX-License-Identifier: Apache-2.0
"""How statuses look. Pure: statuses and the time in, text out."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from client.cli.tables import Cell, Row, table
from perdure.model.observation import Health
from perdure.model.states import State, Substate

if TYPE_CHECKING:
    from rich.text import Text

    from perdure.model.faults import LastError
    from perdure.model.status import WorkloadStatus

_STYLES: Final = {
    State.RUNNING: "green",
    State.SUCCEEDED: "green",
    State.FAILED: "bold red",
    State.PENDING: "yellow",
    State.STOPPING: "yellow",
    State.PAUSED: "cyan",
    State.UNKNOWN: "bold magenta",
    State.REMOVED: "dim",
}
_ENDED: Final = (Substate.RESTART_BACKOFF, Substate.EXITED)
"""The container did start, and how it ended explains the state."""
_BETWEEN_TRIES: Final = (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.STOP_BACKOFF)
_PARKED: Final = (Substate.REJECTED, Substate.GAVE_UP)


class Format(StrEnum):
    """Forms of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def statuses(found: Sequence[WorkloadStatus], form: Format, *, now: datetime, width: int | None) -> list[Text]:
    """Statuses as lines of a form."""
    from rich.text import Text

    match form:
        case Format.JSON:
            return [Text(json.dumps([_data(status) for status in found], indent=2, ensure_ascii=False))]
        case Format.YAML:
            return [Text(to_yaml([_data(status) for status in found]).rstrip("\n"))]
        case Format.NAME:
            return [Text(f"{status.host}/{status.name}") for status in found]
        case Format.TABLE | Format.WIDE:
            is_wide = form is Format.WIDE
            return table(header(is_wide), [row(status, now, is_wide=is_wide) for status in found], width)


def one(status: WorkloadStatus, form: Format, *, now: datetime, ui_url: str = "") -> str:
    """One status, whole."""
    match form:
        case Format.JSON:
            return json.dumps(_data(status), indent=2, ensure_ascii=False)
        case Format.YAML:
            return to_yaml(_data(status)).rstrip("\n")
    return description(status, now, ui_url)


def header(is_wide: bool) -> tuple[str, ...]:
    """The columns."""
    more = ("IMAGE", "MANIFEST", "LIVE", "RESTARTS", "LAST EXIT") if is_wide else ()
    return ("HOST", "NAME", "STATE", "GEN", "SINCE", "ATTEMPT", "NEXT TRY", *more, "LAST ERROR")


def row(status: WorkloadStatus, now: datetime, *, is_wide: bool = False) -> Row:
    """A workload in the table. An error that is over is not shown as if it were not."""
    cause = _cause(status, now) or ("" if is_over(status) else one_line(status.last_error))
    is_trying = status.next_attempt_at is None and status.substate in _BETWEEN_TRIES
    cells = [
        Cell(status.host),
        Cell(status.name),
        Cell(state_text(status.state, status.substate), _STYLES[status.state]),
        Cell(str(status.generation) if status.generation else "-"),
        Cell(ago(status.since, now)),
        Cell(str(status.attempt) if status.attempt else "-"),
        Cell("trying" if is_trying else _next_try(status, now)),
    ]
    if is_wide:
        cells += [
            Cell(status.image or "-"),
            Cell(status.manifest or "-"),
            Cell(f"generation {status.live.generation}" if status.live else "-"),
            Cell(str(status.restarts)),
            Cell(_exit_text(status) or "-"),
        ]
    return (*cells, Cell(cause or status.warning or "-"))


def description(status: WorkloadStatus, now: datetime, ui_url: str) -> str:
    """Everything about one workload, for people."""
    live, error = status.live, status.last_error
    facts: list[tuple[str, str]] = [
        (
            "State",
            f"{state_text(status.state, status.substate)} for {ago(status.since, now)}, since {stamp(status.since)}",
        ),
        ("Last known", _last_known(status)),
        ("Image", status.image),
        ("Manifest", status.manifest + (f", revision {status.revision}" if status.revision is not None else "")),
        ("Generation", str(status.generation) if status.generation else "none accepted yet"),
        ("Live", f"generation {live.generation}, container {live.container_id[:12]}" if live else "no container"),
        ("Digest", live.image_digest if live else ""),
        ("Started", stamp(live.started_at) if live and live.started_at else ""),
        ("Health", live.health.value if live and live.health.value != "none" else ""),
        ("Attempt", str(status.attempt) if status.attempt else ""),
        (
            "Next try",
            f"{stamp(status.next_attempt_at)}, {next_try(status.next_attempt_at, now)}"
            if status.next_attempt_at and status.state is not State.UNKNOWN
            else "",
        ),
        ("Waits for", "; ".join(status.waiting_on)),
        ("Gives up", stamp(status.give_up_at) if status.give_up_at else ""),
        ("Restarts", str(status.restarts)),
        ("Last exit", _exit_text(status)),
        (
            "Host seen",
            f"{stamp(status.host_seen_at)}, {ago(status.host_seen_at, now)} ago" if status.host_seen_at else "",
        ),
        ("Host lost", f"since {stamp(status.host_lost_at)}" if status.host_lost_at else ""),
        ("Warning", status.warning),
        ("Web UI", ui_url),
    ]
    lines = [f"{status.host}/{status.name}", *(f"  {name:<12}{value}" for name, value in facts if value)]
    if error is not None:
        lines += ["", *_error_lines(error, is_past=is_over(status))]
    if status.history:
        lines += ["", "History"]
        states = [state_text(change.state, change.substate) for change in status.history]
        wide = max(map(len, states))
        for change, text in zip(reversed(status.history), reversed(states), strict=True):
            lines.append(f"  {stamp(change.at)}  {text:<{wide}}  gen {change.generation:<4} {change.reason}".rstrip())
    return "\n".join(lines)


def is_over(status: WorkloadStatus) -> bool:
    """Whether the last error is not why the workload is in its state.

    While it is paused, or its host lost, nobody can tell, unless a container was started after the error.
    """
    if status.state in (State.PAUSED, State.UNKNOWN):
        return _ran_since(status)
    return status.substate not in (*_BETWEEN_TRIES, *_PARKED)


def _ran_since(status: WorkloadStatus) -> bool:
    live, error = status.live, status.last_error
    return bool(live and live.started_at and error and live.started_at > error.last_at)


def state_text(state: State, substate: Substate) -> str:
    """``Pending(PullBackoff)``; a substate that says nothing more is left out."""
    return state.value if substate.value in (Substate.OK.value, state.value) else f"{state.value}({substate.value})"


def ago(then: datetime, now: datetime) -> str:
    """How long ago, in at most two units: ``3m12s``."""
    seconds = max(0, int((now - then).total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    first = next((index for index, (count, _) in enumerate(parts) if count), 3)
    return "".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"


def next_try(at: datetime | None, now: datetime) -> str:
    """When the next try is: ``in 12s``, or ``now`` where it is due."""
    if at is None:
        return "-"
    wait = at - now
    return "now" if wait < timedelta(seconds=1) else f"in {ago(now, at)}"


def _next_try(status: WorkloadStatus, now: datetime) -> str:
    """While a host is lost nothing is tried on it, however long a try is due."""
    return "-" if status.state is State.UNKNOWN else next_try(status.next_attempt_at, now)


def stamp(at: datetime) -> str:
    """A time, to the second, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def to_yaml(data: object) -> str:
    """Data as YAML."""
    from ruamel.yaml import YAML

    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # its stub says None
    writer.allow_unicode = True
    stream = io.StringIO()
    writer.dump(data, stream)
    return stream.getvalue()


def _data(status: WorkloadStatus) -> dict[str, object]:
    return status.model_dump(mode="json", by_alias=True)


def _error_lines(error: LastError, *, is_past: bool) -> list[str]:
    times = f"{error.count} times, from {stamp(error.first_at)} to {stamp(error.last_at)}"
    seen = times if error.count > 1 else f"at {stamp(error.last_at)}"
    title = "Last error, over by now" if is_past else "Last error"
    lines = [f"{title}: {error.kind.value}"]
    lines.append(
        f"  {error.fault_class.value}, {error.phase.value}, attempt {error.attempt} of generation {error.generation}, {seen}"
    )
    lines += [f"  | {line}" for line in error.message.splitlines()]
    return lines + ([f"  Hint: {error.hint}"] if error.hint else [])


def _cause(status: WorkloadStatus, now: datetime) -> str:
    """What explains a state that no error explains: how the container ended, that its host is away, what it waits for."""
    match status.substate:
        case Substate.HOST_LOST:
            return f"host {status.host} does not answer, {_last_seen(status, now)}"
        case Substate.WAITING_FOR_HOST if status.history:
            latest = status.history[-1]
            return latest.reason if latest.substate is status.substate else ""
        case Substate.WAITING_FOR_DEPENDENCIES:
            return "; ".join(status.waiting_on)
    if (
        status.substate is Substate.RESTART_BACKOFF
        and status.live is not None
        and status.live.health is Health.UNHEALTHY
    ):
        return "the container is unhealthy"
    if status.substate in _ENDED and status.last_exit is not None:
        return (
            "the container vanished" if status.last_exit.code is None else f"the container ended: {_exit_text(status)}"
        )
    return ""


def _last_known(status: WorkloadStatus) -> str:
    """What it was when its host was heard last, as a state is written here."""
    state, _, substate = status.last_known.partition("/")
    return state_text(State(state), Substate(substate)) if substate else ""


def _last_seen(status: WorkloadStatus, now: datetime) -> str:
    return f"last seen {ago(status.host_seen_at, now)} ago" if status.host_seen_at else "never seen"


def _exit_text(status: WorkloadStatus) -> str:
    last = status.last_exit
    if last is None:
        return ""
    code = "vanished" if last.code is None else f"code {last.code}"
    return code + (f" ({last.signal})" if last.signal else "") + (" out of memory" if last.oom else "")


def one_line(error: LastError | None) -> str:
    """Kind and message of an error, without line breaks."""
    return "" if error is None else " ".join(f"{error.kind.value}: {error.message}".split())
