# SPDX-License-Identifier: Apache-2.0
"""Which settings Podman needs on this machine: facts are probed, and a pure function decides.

A normal host keeps its own settings untouched. Only what is known not to work gets an override, for example ulimits
that a process without CAP_SYS_RESOURCE may not raise (Podman asks for them by default, and then no container starts).
Podman before 4.6 has no file that is read on top of the host's own ones: ``CONTAINERS_CONF`` replaces them all. So for
such a version the host's files are merged with the override here.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

Config = dict[str, dict[str, Any]]
"""The tables of a containers.conf."""

CAP_SYS_RESOURCE: Final = 1 << 24
PODMAN_ULIMIT: Final = 1048576
"""What Podman asks for by default, for open files and for processes."""
LAYERED_CONFIG_SINCE: Final = (4, 6)
"""The first Podman that reads CONTAINERS_CONF_OVERRIDE on top of the host's own files."""
LIBRARIES: Final = ("/usr/libexec", "/usr/lib", "/usr/local/libexec", "/usr/local/lib", "/opt")
"""Below these Podman looks for its network backends."""


class CgroupLayout(StrEnum):
    """How control groups are mounted."""

    V1 = "v1"
    HYBRID = "hybrid"
    """Version 1 controllers, with an empty version 2 tree beside them."""
    V2 = "v2"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What decides about Podman's settings."""

    podman_version: tuple[int, ...] | None
    """None where Podman is not installed."""
    is_root: bool = True
    may_raise_limits: bool = True
    cgroups: CgroupLayout = CgroupLayout.V2
    has_systemd: bool = True
    runtimes: frozenset[str] = frozenset({"crun"})
    has_netavark: bool = True
    has_cni: bool = False
    has_iptables: bool = True
    open_files_limit: int = PODMAN_ULIMIT
    processes_limit: int = PODMAN_ULIMIT
    """Podman lowers its own one to the kernel's pid_max, and cannot raise it again."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What differs from Podman's own settings, and why."""

    override: Config = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    """One sentence for each override."""
    warnings: tuple[str, ...] = ()
    """What will not work whatever we set, and what the user can do."""
    problem: str = ""
    """Why no service can run at all; empty where one can."""


def service_settings(facts: MachineFacts, *, private: bool = False) -> ServiceSettings:
    """Decide what Podman needs on a machine.

    Args:
        facts: what is known of the machine.
        private: the storage is our own. Then its locks are kept in files beside it, because the default ones lie in one
            memory that all Podman instances of a machine share, and are leaked when a storage is deleted.
    """
    if facts.podman_version is None:
        return ServiceSettings(problem="Podman is not installed")
    override: Config = {}
    reasons: list[str] = []
    warnings: list[str] = []

    def put(table: str, key: str, value: object, reason: str) -> None:
        override.setdefault(table, {})[key] = value
        reasons.append(reason)

    if facts.is_root and not facts.may_raise_limits:
        limits = {"nofile": facts.open_files_limit, "nproc": facts.processes_limit}
        if any(limit < PODMAN_ULIMIT for limit in limits.values()):
            value = [f"{name}={limit}:{limit}" for name, limit in limits.items()]
            put("containers", "default_ulimits", value, "this process may not raise limits, so containers get its own")
    unmanaged_hybrid = facts.cgroups is CgroupLayout.HYBRID and not facts.has_systemd
    if "runc" in facts.runtimes and (not facts.may_raise_limits or unmanaged_hybrid):
        put("engine", "runtime", "runc", "crun fails without CAP_SYS_RESOURCE, and on hybrid cgroups without systemd")
    if not facts.has_systemd:
        put("engine", "cgroup_manager", "cgroupfs", "no systemd runs here to manage cgroups")
        put("engine", "events_logger", "file", "no journal runs here to keep events")
    if facts.has_netavark and (private or not facts.has_cni):
        put("network", "network_backend", "netavark", "netavark is the network backend that is installed")
    if private:
        put("engine", "lock_type", "file", "a private storage keeps its locks to itself")
    if not facts.runtimes:
        warnings.append("no OCI runtime found: install crun or runc, or no container can start")
    if not facts.has_netavark and not facts.has_cni:
        warnings.append("no network backend found: install netavark, or only the networks 'none' and 'host' work")
    elif facts.is_root and not facts.has_iptables:
        warnings.append("neither iptables nor nft found: install one, or only the networks 'none' and 'host' work")
    return ServiceSettings(override, tuple(reasons), tuple(warnings))


def probe_machine() -> MachineFacts:
    """Look at the machine that this process runs on. Changes nothing."""
    status = Path("/proc/self/status").read_text()
    return MachineFacts(
        podman_version=_podman_version(),
        is_root=os.geteuid() == 0,
        may_raise_limits=bool(effective_capabilities(status) & CAP_SYS_RESOURCE),
        cgroups=cgroup_layout(Path("/proc/mounts").read_text()),
        has_systemd=Path("/run/systemd/system").is_dir(),
        runtimes=frozenset(name for name in ("crun", "runc") if _which(name)),
        has_netavark=any(Path(place, "podman/netavark").exists() for place in LIBRARIES),
        has_cni=any(Path(place, cni, "bridge").exists() for place in LIBRARIES for cni in ("cni", "cni/bin")),
        has_iptables=any(_which(name) for name in ("iptables", "nft")),
        open_files_limit=_hard_limit(resource.RLIMIT_NOFILE),
        processes_limit=min(_hard_limit(resource.RLIMIT_NPROC), int(Path("/proc/sys/kernel/pid_max").read_text())),
    )


def effective_capabilities(proc_status: str) -> int:
    """The CapEff mask of a /proc/PID/status."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", proc_status, re.MULTILINE)
    return int(found[1], 16) if found else 0


def cgroup_layout(proc_mounts: str) -> CgroupLayout:
    """The layout that a /proc/mounts shows."""
    kinds = {fields[2] for line in proc_mounts.splitlines() if len(fields := line.split()) > 2}
    match "cgroup" in kinds, "cgroup2" in kinds:
        case True, True:
            return CgroupLayout.HYBRID
        case True, False:
            return CgroupLayout.V1
        case False, True:
            return CgroupLayout.V2
    return CgroupLayout.NONE


def merged(*configs: Config) -> Config:
    """Lay configurations over each other, as Podman does: the last one that sets a key wins."""
    result: Config = {}
    for config in configs:
        for table, entries in config.items():
            result[table] = {**result.get(table, {}), **entries}
    return result


def host_config(environment: Mapping[str, str], *, is_root: bool) -> Config:
    """What Podman's own configuration files say on this machine."""
    if explicit := environment.get("CONTAINERS_CONF"):
        files = [Path(explicit)]
    else:
        files = [Path("/usr/share/containers/containers.conf"), Path("/etc/containers/containers.conf")]
        files += sorted(Path("/etc/containers/containers.conf.d").glob("*.conf"))
        if not is_root:
            home = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config", "containers")
            files += [home / "containers.conf", *sorted((home / "containers.conf.d").glob("*.conf"))]
    return merged(*(tomllib.loads(file.read_text()) for file in files if file.is_file()))


def to_toml(config: Config) -> str:
    """Write a configuration in the subset of TOML that containers.conf uses."""
    lines: list[str] = []

    def write(path: str, entries: Mapping[str, Any]) -> None:
        plain = {key: value for key, value in entries.items() if not isinstance(value, dict)}
        if plain:
            lines.append(f"[{path}]")
            lines.extend(f"{_key(key)} = {_value(value)}" for key, value in plain.items())
        for key, value in entries.items():
            if isinstance(value, dict):
                write(f"{path}.{_key(key)}", value)

    for table, entries in config.items():
        write(_key(table), entries)
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def _value(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _which(name: str) -> str | None:
    """Find a program, also where the system keeps those of root, which a plain user's PATH leaves out."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/sbin")


def _hard_limit(which: int) -> int:
    hard = resource.getrlimit(which)[1]
    return PODMAN_ULIMIT if hard == resource.RLIM_INFINITY else min(hard, PODMAN_ULIMIT)


def _podman_version() -> tuple[int, ...] | None:
    if (podman := _which("podman")) is None:
        return None
    answer = subprocess.run([podman, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return tuple(int(part) for part in re.findall(r"\d+", answer)[:3])
