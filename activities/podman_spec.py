# SPDX-License-Identifier: Apache-2.0
"""From our ContainerSpec to the JSON that Podman makes a container from (its ``SpecGenerator``).

Written out by hand instead of by ``podman.containers.create()``, which drops or changes what it does not like without a
word: a reset entrypoint, one volume at two targets, ``cpus``, the caller's own dictionaries.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from activities.engine import EngineFault, Ownership
from activities.podman_facts import labels_of
from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.workload import (
    BindMount,
    ContainerSpec,
    Healthcheck,
    Resources,
    TmpfsMount,
    Ulimit,
    VolumeMount,
)

CPU_PERIOD_US: Final = 100_000
SECRETS_FOLDER: Final = "/run/secrets"
_RELABEL: Final = {"shared": "z", "private": "Z"}
_MODES: Final = ("host", "none")


def create_spec(
    name: str,
    spec: ContainerSpec,
    owner: Ownership,
    files: Sequence[tuple[str, str]] = (),
    more_ulimits: Mapping[str, Ulimit] | None = None,
) -> dict[str, Any]:
    """The body of ``/containers/create``.

    Args:
        name: of the container.
        spec: what the manifest says.
        owner: written into the labels, which a user's own labels cannot replace.
        files: paths on the host and in the container of ``spec.files``.
        more_ulimits: besides ``spec.ulimits``, see ``activities.podman_ulimits``.
    """
    body: dict[str, Any] = {
        "name": name,
        "image": spec.image,
        "env": dict(spec.environment),
        "labels": {**spec.labels, **labels_of(owner)},
        "annotations": dict(spec.annotations),
        # The restart policy is ours: Podman's own would start containers behind our back.
        "restart_policy": "no",
        "stop_signal": _signal_number(spec.stop.signal, name),
        "stop_timeout": max(0, round(spec.stop.timeout.total_seconds())),
        "mounts": [
            *_mounts(spec),
            *_room_for_secrets(spec),
            *(_file_mount(source, target) for source, target in files),
        ],
        "volumes": [_volume(mount) for mount in spec.mounts if isinstance(mount, VolumeMount)],
        "secrets": [
            # Without a mode nobody but root could read it, unlike on Podman's command line.
            {"Source": secret.name, "Target": secret.target or secret.name, "Mode": 0o444}
            for secret in spec.secrets
            if not secret.env
        ],
        "secret_env": {secret.env: secret.name for secret in spec.secrets if secret.env},
        "portmappings": [
            {"container_port": port.container, "host_port": port.host, "protocol": port.protocol, "host_ip": port.ip}
            for port in spec.ports
        ],
        "cap_add": list(spec.cap_add),
        "cap_drop": list(spec.cap_drop),
        "devices": [{"path": device} for device in spec.devices],
        "sysctl": dict(spec.sysctls),
        "hostadd": [f"{host}:{address}" for host, address in spec.extra_hosts.items()],
        "dns_server": list(spec.dns),
        "init": spec.init,
        "read_only_filesystem": spec.read_only,
        "privileged": spec.privileged,
        "resource_limits": _limits(spec.resources),
        "r_limits": _ulimits({**(more_ulimits or {}), **spec.ulimits}),
        **_network(spec.networks),
    }
    if spec.entrypoint is not None:
        # An empty list would mean the image's own; one empty word means none.
        body["entrypoint"] = list(spec.entrypoint) or [""]
    if spec.command is not None:
        body["command"] = list(spec.command)
    if spec.healthcheck is not None:
        body["healthconfig"] = _healthcheck(spec.healthcheck)
    words = {"user": spec.user, "work_dir": spec.working_dir, "hostname": spec.hostname}
    return body | {key: word for key, word in words.items() if word}


def _network(networks: Sequence[str]) -> dict[str, Any]:
    match tuple(networks):
        case ():
            return {}
        case (mode,) if mode in _MODES:
            return {"netns": {"nsmode": mode}}
    return {"netns": {"nsmode": "bridge"}, "networks": {network: {} for network in networks}}


def _mounts(spec: ContainerSpec) -> list[dict[str, Any]]:
    found = []
    for mount in spec.mounts:
        match mount:
            case BindMount():
                options = ["rbind", "ro" if mount.read_only else "rw"]
                if mount.relabel:
                    options.append(_RELABEL[mount.relabel])
                found.append({"type": "bind", "source": mount.source, "destination": mount.target, "options": options})
            case TmpfsMount():
                options = [] if mount.size is None else [f"size={mount.size}"]
                if mount.mode is not None:
                    options.append(f"mode={mount.mode:04o}")
                found.append({"type": "tmpfs", "source": "tmpfs", "destination": mount.target, "options": options})
    return found


def _room_for_secrets(spec: ContainerSpec) -> list[dict[str, Any]]:
    """Podman 4.3 cannot put a secret into a read-only container unless something is mounted where secrets go."""
    wanted = any(not secret.env and not secret.target.startswith("/") for secret in spec.secrets)
    taken = any(mount.target.rstrip("/") == SECRETS_FOLDER for mount in spec.mounts)
    if not spec.read_only or not wanted or taken:
        return []
    options = ["size=1m", "mode=0755"]
    return [{"type": "tmpfs", "source": "tmpfs", "destination": SECRETS_FOLDER, "options": options}]


def _file_mount(source: str, target: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "destination": target, "options": ["rbind", "ro"]}


def _volume(mount: VolumeMount) -> dict[str, Any]:
    return {"Name": mount.source, "Dest": mount.target, "Options": ["ro" if mount.read_only else "rw"]}


def _limits(resources: Resources) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if resources.memory is not None:
        limits["memory"] = {"limit": resources.memory}
    if resources.cpus is not None:
        limits["cpu"] = {"period": CPU_PERIOD_US, "quota": round(resources.cpus * CPU_PERIOD_US)}
    if resources.pids is not None:
        limits["pids"] = {"limit": resources.pids}
    return limits


def _ulimits(limits: Mapping[str, Ulimit]) -> list[dict[str, Any]]:
    return [{"type": name, "soft": limit.soft, "hard": limit.hard} for name, limit in limits.items()]


def _healthcheck(check: Healthcheck) -> dict[str, Any]:
    return {
        "Test": list(check.test),
        "Interval": _nanoseconds(check.interval),
        "Timeout": _nanoseconds(check.timeout),
        "Retries": check.retries,
        "StartPeriod": _nanoseconds(check.start_period),
    }


def _nanoseconds(duration: timedelta) -> int:
    return round(duration / timedelta(microseconds=1)) * 1000


def _signal_number(name: str, container: str) -> int:
    """Podman's JSON wants a number."""
    text = name.strip().upper()
    try:
        return int(text) if text.isdigit() else int(signal.Signals[text if text.startswith("SIG") else f"SIG{text}"])
    except KeyError:
        raise _unknown_signal(name, container) from None


def _unknown_signal(name: str, container: str) -> EngineFault:
    return engine_fault(
        FaultKind.INVALID_OPTION, Phase.START, f"create container {container}", f"there is no signal {name!r}"
    )
