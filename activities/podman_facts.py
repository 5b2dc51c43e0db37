# SPDX-License-Identifier: Apache-2.0
"""What Podman says of a container, read into our words, and checked against the kernel where Podman is known to be wrong.

The one fact that surprises: a container whose monitor (conmon) was killed is ``running`` for Podman for ever, also after
its process is gone. Only ``/proc`` tells. That needs the host's process ids, so it is done only where we see the same
ones as Podman does.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from activities.engine import Managed, Ownership
from perdure.model.observation import ContainerState, Health, LastExit, Live

LABELS: Final = "dev.perdure."
FLEET, HOST, WORKLOAD = f"{LABELS}fleet", f"{LABELS}host", f"{LABELS}workload"

_STATES: Final = {
    "running": ContainerState.RUNNING,
    "paused": ContainerState.PAUSED,
    "stopping": ContainerState.STOPPING,
    "removing": ContainerState.STOPPING,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.EXITED,
}
"""Everything else (``created``, ``configured``, ``initialized``, ``unknown``) has not run."""
_CGROUP_ID: Final = re.compile(r"libpod-([0-9a-f]{64})")


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


class Processes:
    """The kernel's word on the processes of containers.

    Args:
        socket_path: of Podman's API; its peer tells whether we see the same process ids.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._visible: bool | None = None

    async def learn(self) -> None:
        """Find out whether Podman's process ids mean the same to us. Until then nothing is said to be gone."""
        if self._visible is None:
            self._visible = await asyncio.to_thread(_shares_our_pids, self._socket_path)

    def is_gone(self, container_id: str, pid: int) -> bool:
        """Whether the main process of a container has certainly ended, whatever Podman says."""
        if not self._visible:
            return False
        if pid <= 0:
            return True
        proc = Path(f"/proc/{pid}")
        try:
            if (proc / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
            others = _CGROUP_ID.findall((proc / "cgroup").read_text())
            if others:
                return container_id not in others
            # Our containers have process ids of their own: a process with ours took over an old number.
            return (proc / "ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
        except PermissionError:
            return False
        except OSError:
            return True

    def kill(self, container_id: str, pid: int) -> None:
        """End the main process of a container whose monitor is lost. Never anybody else's: its cgroup must name the container."""
        if not self._visible or pid <= 1:
            return
        with suppress(OSError):
            handle = os.pidfd_open(pid)
            try:
                if container_id in (Path(f"/proc/{pid}") / "cgroup").read_text():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


def _shares_our_pids(socket_path: str) -> bool | None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        try:
            peer.connect(socket_path)
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    except OSError:
        return False


def listed(entry: Mapping[str, Any], processes: Processes) -> Managed | None:
    """One entry of Podman's sparse list, or None where the container is not ours."""
    owner = owner_of(entry.get("Labels"))
    if owner is None:
        return None
    state = _STATES.get(str(entry.get("State", "")).lower(), ContainerState.CREATED)
    container_id, pid = str(entry["Id"]), int(entry.get("Pid") or 0)
    if state in (ContainerState.RUNNING, ContainerState.PAUSED) and processes.is_gone(container_id, pid):
        state = ContainerState.DEAD
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
    )


def inspected_state(container: Mapping[str, Any], processes: Processes) -> ContainerState:
    """The state of a container as it really is."""
    seen = container["State"]
    state = _STATES.get(str(seen.get("Status", "")).lower(), ContainerState.CREATED)
    if state in (ContainerState.RUNNING, ContainerState.PAUSED) and processes.is_gone(
        container["Id"], pid_of(container)
    ):
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
