# SPDX-License-Identifier: Apache-2.0
"""What a workload says to people in the Web UI: why, what helps, since when, and when it is tried next. Pure.

The fact that surprises: the Web UI's Markdown makes typographic quotes and fractions. So whatever is not in words of this
module (an image, an error, a hint with a line for a configuration file in it) is written as inline code, which stays as it is.
"""

from __future__ import annotations

import re
import textwrap
from datetime import datetime

from perdure.model.faults import LastError
from perdure.model.states import State, Substate
from perdure.model.status import Transition, WorkloadStatus
from perdure.policy import dependencies
from perdure.policy.hosts import last_seen
from perdure.policy.shorten import shorten

SIGN_WIDTH = 110
"""Characters of a summary for which the Web UI has room. The server refuses more than 400 bytes."""
CHANGES_SHOWN = 5
"""Of the history, in the details: those travel in an address, and stay below 4 KB."""
PART_LIMIT_BYTES = 160
"""Of a reason, an image or a warning, there."""

_BETWEEN_TRIES = (Substate.PULL_BACKOFF, Substate.START_BACKOFF, Substate.STOP_BACKOFF)
_PARKED = (Substate.REJECTED, Substate.GAVE_UP)
_WANTS_ATTENTION = (
    *_BETWEEN_TRIES,
    *_PARKED,
    Substate.EXITED,
    Substate.WAITING_FOR_HOST,
    Substate.UNHEALTHY,
    Substate.HOST_LOST,
)


def error_in_effect(status: WorkloadStatus) -> LastError | None:
    """The last error, if it is why the workload is in its state; in other states it is over."""
    return status.last_error if status.substate in (*_BETWEEN_TRIES, *_PARKED) else None


def last_error(status: WorkloadStatus) -> str:
    """Kind, text and hint of the latest error, or nothing; says so where it is over."""
    error = status.last_error
    if error is None:
        return ""
    over = "" if error_in_effect(status) else "over by now: "
    return f"{over}{error.kind}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def advice(status: WorkloadStatus) -> str:
    """What a person can do. Empty where nothing has to be done."""
    label = f"{status.host}/{status.name}"
    error = error_in_effect(status)
    hint = f"{error.hint}; " if error and error.hint else ""
    if status.state is State.PAUSED:
        return f"perdure resume {label} takes it up again"
    match status.substate:
        case Substate.WAITING_FOR_DEPENDENCIES:
            return "look at what it waits for; it goes on by itself when that is as far"
        case Substate.REJECTED | Substate.GAVE_UP:
            return f"{hint}then apply a newer manifest, or perdure retry {label}"
        case Substate.PULL_BACKOFF | Substate.START_BACKOFF | Substate.STOP_BACKOFF:
            return f"{hint}perdure retry {label} saves the wait"
        case Substate.RESTART_BACKOFF if status.live is not None:
            return f"its healthcheck fails, and it is restarted for that; perdure retry {label} saves the wait"
        case Substate.RESTART_BACKOFF:
            return f"the container's own log tells why it ended; perdure retry {label} saves the wait"
        case Substate.EXITED:
            return f"the container's own log tells why it ended; perdure retry {label} runs it again"
        case Substate.WAITING_FOR_HOST | Substate.HOST_LOST:
            return f"check host {status.host}, its link and its worker; it goes on by itself"
        case Substate.UNHEALTHY:
            return "the container's own log and its health check tell more"
    return ""


def sign(status: WorkloadStatus) -> str:
    """One line for the workload's first page, which by itself shows neither state nor error. Empty where nobody has to look."""
    is_wanted = status.substate in _WANTS_ATTENTION or status.waiting_on or status.state is State.PAUSED
    return headline(status) if is_wanted else ""


def headline(status: WorkloadStatus) -> str:
    """State and cause in one line, for example ``PullBackoff, RegistryUnreachable: check that ...``."""
    error = error_in_effect(status)
    state = status.state if status.substate is Substate.OK else status.substate
    what = f"{state}, {error.kind}" if error else f"{state}"
    why = _reason(status) if error is None and status.state is not State.PAUSED else advice(status)
    return textwrap.shorten(shorten(f"{what}: {why}" if why else what, 3 * SIGN_WIDTH), SIGN_WIDTH, placeholder=" ...")


def details(status: WorkloadStatus) -> str:
    """The whole story as Markdown: flat lists, and one paragraph for the error."""
    error, past = error_in_effect(status), status.last_error
    over = "" if past is None or error is not None else f"{past.kind}, at {stamp(past.last_at)}"
    facts = [
        ("Why", _why(status, error)),
        ("What helps", code(advice(status))),
        ("Since", stamp(status.since)),
        ("Known before", status.last_known.replace("/", " / ")),
        ("Next try", _next_try(status)),
        ("Gives up", stamp(status.give_up_at) if status.give_up_at else ""),
        ("Runs meanwhile", _runs_meanwhile(status)),
        ("Image", f"{part(status.image)}, generation {status.generation}"),
        ("Last exit", _last_exit(status)),
        ("Warning", part(status.warning)),
        ("Last error, over by now", over),
    ]
    lines = [f"### {status.state} / {status.substate}", ""]
    lines += [f"- **{name}:** {fact}" for name, fact in facts if fact]
    if error is not None:
        lines += ["", code(error.message)]
    if status.history:
        lines += ["", "**Latest changes**", "", *map(_change, reversed(status.history[-CHANGES_SHOWN:]))]
    return "\n".join(lines)


def stamp(at: datetime) -> str:
    """A time, to the second, as the Web UI shows its own."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _why(status: WorkloadStatus, error: LastError | None) -> str:
    if status.waiting_on:
        return code(_reason(status))
    if error is None:
        return part(_reason(status))
    times = f" {error.count} times since {stamp(error.first_at)}" if error.count > 1 else f" at {stamp(error.last_at)}"
    match status.substate:
        case Substate.REJECTED:
            follows = "trying again would not help"
        case Substate.GAVE_UP:
            follows = "the time limit of the manifest (giveUpAfter) passed"
        case _:
            follows = "it is tried again by itself"
    return f"{error.kind} in {error.phase}, met{times}; {follows}"


def _reason(status: WorkloadStatus) -> str:
    """Why the present state was entered; what was only noted since, such as a refused apply, is not meant."""
    if status.substate is Substate.HOST_LOST:
        return f"its host does not answer, {last_seen(status.host_seen_at)}"
    if status.waiting_on:
        return dependencies.listed(status.waiting_on)
    for change in status.history:
        if (change.at, change.state, change.substate) == (status.since, status.state, status.substate):
            return change.reason
    return ""


def _next_try(status: WorkloadStatus) -> str:
    """Always answered where it does not run. What the server counts down is not repeated: here it would soon be old."""
    if status.state is State.PAUSED:
        return "none before it is resumed"
    if status.substate in (*_PARKED, Substate.EXITED):
        return "none before somebody acts"
    if status.substate in _BETWEEN_TRIES:
        return "see Pending Activities, which counts the attempts, and down to the next one"
    if status.substate is Substate.WAITING_FOR_DEPENDENCIES:
        return "as soon as what it waits for is as far"
    if status.substate in (Substate.WAITING_FOR_HOST, Substate.QUEUED):
        return f"as soon as host {status.host} takes it up"
    return stamp(status.next_attempt_at) if status.next_attempt_at else ""


def _runs_meanwhile(status: WorkloadStatus) -> str:
    live = status.live
    if live is None or status.state in (State.RUNNING, State.UNKNOWN):
        return ""
    return f"generation {live.generation}, container {live.container_id[:12]}"


def _last_exit(status: WorkloadStatus) -> str:
    last = status.last_exit
    if last is None:
        return ""
    code = "unknown code" if last.code is None else f"code {last.code}"
    return f"{code}{', out of memory' if last.oom else ''}{f', {stamp(last.at)}' if last.at else ''}; restarts: {status.restarts}"


def _change(change: Transition) -> str:
    reason = f": {part(change.reason)}" if change.reason else ""
    return f"- {stamp(change.at)}, {change.state} / {change.substate}, generation {change.generation}{reason}"


def part(text: str) -> str:
    """One of several parts of the details, as inline code."""
    return code(shorten(text, PART_LIMIT_BYTES))


def code(text: str) -> str:
    """Inline code, fenced by more backticks than the text has in a row."""
    if not text:
        return ""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{' '.join(text.splitlines())}{pad}{fence}"
