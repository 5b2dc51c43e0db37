# SPDX-License-Identifier: Apache-2.0
"""What Podman says of a container, read into our words, and checked against the kernel where Podman is known to be wrong."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from activities.engine import Managed, Ownership
from activities.podman_processes import Processes
from perdure.model.observation import ContainerState, Health, LastExit, Live

LABELS: Final = "dev.perdure."
FLEET, HOST, WORKLOAD = f"{LABELS}fleet", f"{LABELS}host", f"{LABELS}workload"

_STATES: Final = {
    "running": ContainerState.RUNNING,
    "paused": ContainerState.PAUSED,
    "stopping": ContainerState.STOPPING,
    "removing": ContainerState.MISSING,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.EXITED,
}
"""Everything else (``created``, ``configured``, ``initialized``, ``unknown``) has not run since the host was started. A removal
that was begun is never taken back, so a container that is ``removing`` is missing already."""
_HAS_PROCESS: Final = (ContainerState.RUNNING, ContainerState.PAUSED, ContainerState.STOPPING)


def labels_of(owner: Ownership) -> dict[str, str]:
    """The labels that say whose a container is."""
    return {
        FLEET: owner.fleet,
        HOST: owner.host,
        WORKLOAD: owner.workload,
        f"{LABELS}incarnation": owner.incarnation,
        f"{LABELS}generation": str(owner.generation),
        f"{LABELS}spec": owner.spec_hash,
        f"{LABELS}restart": owner.restart,
        f"{LABELS}manifest": owner.manifest,
        f"{LABELS}fleet-id": owner.fleet_id,
    }


def owner_of(labels: Mapping[str, str] | None) -> Ownership | None:
    """Whose a container is, or None where its labels are not ours."""
    known = {name.removeprefix(LABELS): value for name, value in (labels or {}).items() if name.startswith(LABELS)}
    try:
        return Ownership(
            fleet=known["fleet"],
            host=known["host"],
            workload=known["workload"],
            incarnation=known["incarnation"],
            generation=int(known["generation"]),
            spec_hash=known["spec"],
            restart=known.get("restart", ""),
            manifest=known.get("manifest", ""),
            fleet_id=known.get("fleet-id", ""),
        )
    except (KeyError, ValueError):
        return None


def listed(entry: Mapping[str, Any], processes: Processes) -> Managed | None:
    """One entry of Podman's sparse list, or None where the container is not ours."""
    owner = owner_of(entry.get("Labels"))
    if owner is None:
        return None
    container_id, pid = str(entry["Id"]), int(entry.get("Pid") or 0)
    said = str(entry.get("State", ""))
    state = _state(said, container_id, pid, processes)
    ended = state is ContainerState.EXITED
    return Managed(
        container_id=container_id,
        name=(entry.get("Names") or [""])[0],
        owner=owner,
        state=state,
        pid=pid,
        started_at=_from_epoch(entry.get("StartedAt")),
        exit=exit_from(int(entry.get("ExitCode") or 0), _from_epoch(entry.get("ExitedAt"))) if ended else None,
        health=_health(str(entry.get("Status") or "")),
        being_stopped=said.lower() == "stopping",
    )


def needs_closer_look(managed: Managed, processes: Processes) -> bool:
    """Whether the list does not tell enough of a container. That is seldom, so that a list is one call as a rule."""
    if managed.state is ContainerState.STOPPING:
        return True
    return managed.state in _HAS_PROCESS and processes.strange_parent(managed.pid) > 0


def looked_at(managed: Managed, container: Mapping[str, Any], processes: Processes) -> Managed:
    """What inspection adds to an entry of the list."""
    state = inspected_state(container, processes) if managed.state in _HAS_PROCESS else managed.state
    return replace(managed, state=state, stop_timeout=stop_timeout_of(container))


def inspected_state(container: Mapping[str, Any], processes: Processes) -> ContainerState:
    """The state of a container as it really is."""
    pid = pid_of(container)
    state = _state(str(container["State"].get("Status", "")), container["Id"], pid, processes)
    if state in _HAS_PROCESS:
        parent, monitor = processes.strange_parent(pid), int(container["State"].get("ConmonPid") or 0)
        if parent and monitor and parent != monitor:
            return ContainerState.UNMONITORED
    return state


def _state(said: str, container_id: str, pid: int, processes: Processes) -> ContainerState:
    state = _STATES.get(said.lower(), ContainerState.CREATED)
    if state in _HAS_PROCESS and processes.is_gone(container_id, pid):
        return ContainerState.DEAD
    return state


def inspected_exit(container: Mapping[str, Any]) -> LastExit | None:
    """How a container ended; None where it runs or has never run."""
    seen = container["State"]
    if _STATES.get(str(seen.get("Status", "")).lower()) is not ContainerState.EXITED:
        return None
    ended_at = parse_time(str(seen.get("FinishedAt", "")))
    return exit_from(int(seen.get("ExitCode") or 0), ended_at, oom=bool(seen.get("OOMKilled")))


def inspected_health(container: Mapping[str, Any]) -> Health:
    """What the last healthcheck said."""
    seen = container["State"]
    return _health(str((seen.get("Health") or seen.get("Healthcheck") or {}).get("Status") or ""))


def inspected_live(container: Mapping[str, Any], processes: Processes, generation: int) -> Live | None:
    """A container that runs, or has run to its end already, which is no fault of its start; None where it never ran."""
    started_at = parse_time(str(container["State"].get("StartedAt", "")))
    if started_at is None and inspected_state(container, processes) is ContainerState.CREATED:
        return None
    return Live(
        generation=generation,
        container_id=str(container["Id"]),
        image_digest=str(container.get("ImageDigest") or ""),
        started_at=started_at,
        health=inspected_health(container),
        pid=pid_of(container),
    )


def stop_timeout_of(container: Mapping[str, Any]) -> timedelta:
    """How long it may take to end by itself, as it was made."""
    return timedelta(seconds=int(container["Config"].get("StopTimeout") or 0))


def pid_of(container: Mapping[str, Any]) -> int:
    """The main process, 0 where there is none."""
    return int(container["State"].get("Pid") or 0)


def exit_from(code: int, ended_at: datetime | None, *, oom: bool = False) -> LastExit:
    """An exit code in words: above 128 it is the number of the signal that ended the process."""
    name = None
    if 128 < code <= 128 + signal.NSIG:
        with suppress(ValueError):
            name = signal.Signals(code - 128).name
    return LastExit(code=code, signal=name, oom=oom, at=ended_at)


def parse_time(text: str) -> datetime | None:
    """Podman's RFC 3339 with nanoseconds; its zero, the first second of year 1, is None."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if found is None or text.startswith("0001-01-01"):
        return None
    whole, fraction, zone = found.groups()
    return datetime.fromisoformat(f"{whole}{(fraction or '')[:7]}{zone.replace('Z', '+00:00')}")


def _from_epoch(seconds: object) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) and seconds > 0 else None


def _health(status: str) -> Health:
    """From ``healthy`` as well as from ``Up 2 minutes (healthy)``, as versions differ."""
    found = re.search(r"unhealthy|healthy|starting", status.lower())
    return Health(found[0]) if found else Health.NONE
