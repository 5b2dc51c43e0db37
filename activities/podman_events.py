# SPDX-License-Identifier: Apache-2.0
"""Podman's stream of events, as hints that a container of ours should be looked at.

Hints only: in some set-ups Podman loses the end of a container. Of a healthcheck it tells the value from before the check, so
that is left out. It also takes several labels to mean any of them; so it is asked by one, and the rest is compared here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from activities.engine import Event, EventKind
from activities.podman_connection import LIBPOD, PodmanConnection, Refused, refusal_text
from activities.podman_facts import FLEET, HOST, WORKLOAD
from activities.translate import engine_fault, refusal_fault
from perdure.model.faults import FaultKind, Phase

_DOING: Final = "follow the events"
_KINDS: Final = {
    "start": EventKind.STARTED,
    "died": EventKind.ENDED,
    "die": EventKind.ENDED,
    "remove": EventKind.REMOVED,
    "pause": EventKind.PAUSED,
    "unpause": EventKind.RESUMED,
}


async def follow(connection: PodmanConnection, fleet: str, host: str) -> AsyncGenerator[Event, None]:
    """The events of our containers from now on, without a gap while the connection is made; a failure is the only end."""
    parameters = {
        "stream": "true",
        "since": f"{datetime.now(UTC).timestamp():.6f}",
        "filters": json.dumps({"type": ["container"], "label": [f"{FLEET}={fleet}"]}),
    }
    try:
        async with connection.stream("get", f"{LIBPOD}/events", parameters, phase=Phase.START, doing=_DOING) as answer:
            async for line in answer.aiter_lines():
                event = event_of(_parsed(line), fleet, host)
                if event is not None:
                    yield event
    except Refused as refused:
        raise refusal_fault(Phase.START, _DOING, refused.text) from refused
    raise engine_fault(FaultKind.ENGINE_UNREACHABLE, Phase.START, _DOING, "Podman ended the stream")


def event_of(entry: Mapping[str, Any], fleet: str, host: str) -> Event | None:
    """One entry of the stream, or None where it is nothing that we watch for."""
    kind = _KINDS.get(str(entry.get("Action")))
    actor = entry.get("Actor") or {}
    labels = actor.get("Attributes") or {}
    workload = labels.get(WORKLOAD)
    if kind is None or not workload or (labels.get(FLEET), labels.get(HOST)) != (fleet, host):
        return None
    return Event(workload=workload, container_id=str(actor.get("ID")), kind=kind)


def _parsed(line: str) -> dict[str, Any]:
    """One line of the stream. Podman answers 200 before it has looked at the question, so a line may be its refusal."""
    try:
        entry = dict(json.loads(line))
    except ValueError as error:
        raise engine_fault(FaultKind.ENGINE_ERROR, Phase.START, _DOING, f"a line is no JSON: {line}") from error
    if "response" in entry and "Action" not in entry:
        raise Refused(int(entry["response"]), refusal_text(line.encode()))
    return entry
