# SPDX-License-Identifier: Apache-2.0
"""Names, paths and addresses that a manifest may hold, each with its rule in words.

The rules are those of the things named: a workload's name becomes part of a workflow id, of a container's name and of a host
name, so it keeps to what all three take. Podman refuses many a wrong name only after the image was pulled, or takes it silently.
"""

from __future__ import annotations

import difflib
import ipaddress
import posixpath
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from perdure.model.rules import Matching, refusal, shown
from perdure.model.shortforms import check_device
from perdure.model.values import integer_as_text, is_printable

Key = Annotated[
    str, AfterValidator(is_printable), Matching(r"[^=\s][^=]*", "a text that is not empty and holds no =", "key")
]
"""The key of a label, an annotation or a tag."""

VariableName = Annotated[
    str, AfterValidator(is_printable), Matching(r"[^=\s]+", "a text without spaces and =", "variable name", ("PORT",))
]
"""The name of an environment variable."""

_LABEL_RULE = "1 to 63 lower-case letters a-z, digits and hyphens, with a letter or digit first and last"
Name = Annotated[str, Matching(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", _LABEL_RULE, "name", ("web",))]
"""The name of a manifest or a workload."""

HostName = Annotated[str, Matching(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", _LABEL_RULE, "host name", ("edge-1",))]
"""The name of a host, as its worker was started with."""

PODMAN_NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}"
_PODMAN_RULE = "at most 128 letters, digits, and _ . - with a letter or digit first"
NetworkName = Annotated[
    str, Matching(PODMAN_NAME, f"the name of a Podman network ({_PODMAN_RULE}), host or none", "network", ("shop",))
]
VolumeName = Annotated[str, Matching(PODMAN_NAME, _PODMAN_RULE, "volume name", ("cache",))]
SecretName = Annotated[str, Matching(PODMAN_NAME, _PODMAN_RULE, "secret name", ("db-password",))]

_HOST_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
DnsName = Annotated[
    str,
    Matching(
        rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*",
        "letters, digits and hyphens, in parts joined by dots",
        "host name",
        ("db.shop",),
        limit=253,
    ),
]
ContainerHostname = Annotated[
    str,
    Matching(
        rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*",
        "at most 63 letters, digits, hyphens and dots",
        "hostname",
        ("web",),
        limit=63,
    ),
]
"""What a container calls itself; the kernel takes 64 bytes."""

User = Annotated[
    str,
    BeforeValidator(integer_as_text, json_schema_input_type=str | int),
    Matching(
        r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*\$?(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?",
        "USER or USER:GROUP, by name or by number",
        "user",
        ("1000:1000",),
        limit=128,
    ),
]

SysctlName = Annotated[
    str,
    Matching(r"[a-z0-9_]+(?:[./][a-zA-Z0-9_:-]+)+", "a kernel parameter", "sysctl", ("net.core.somaxconn",), limit=255),
]


def _is_absolute(path: str) -> str:
    if not path.startswith("/"):
        raise refusal(f"{shown(path)} is not an absolute path", "write a path that begins with /")
    if ".." in path.split("/"):
        raise refusal(f"{shown(path)} goes up by ..", "write the path without ..")
    return path


def _is_below_root(path: str) -> str:
    if posixpath.normpath(path).strip("/") == "":
        raise refusal("it is the container's whole file system", "write a path below /, such as /data")
    return path


_PATH_SCHEMA = Field(json_schema_extra={"pattern": "^/"}, max_length=4096)
AbsolutePath = Annotated[str, AfterValidator(is_printable), AfterValidator(_is_absolute), _PATH_SCHEMA]
"""A path from the root, without ``..``."""

MountPoint = Annotated[AbsolutePath, AfterValidator(_is_below_root)]
"""A path in the container where something is put."""


def _is_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise refusal(f"{shown(text)} is not an IP address", "write one such as 192.0.2.7 or 2001:db8::7") from None


IpAddress = Annotated[
    str, AfterValidator(_is_address), Field(json_schema_extra={"examples": ["192.0.2.7", "2001:db8::7"]})
]

_CAPABILITIES = (
    "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN",
    "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE",
    "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST",
    "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT",
    "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG",
    "WAKE_ALARM", "ALL",
)  # fmt: skip


def _is_capability(text: str) -> str:
    name = text.upper().removeprefix("CAP_")
    if name not in _CAPABILITIES:
        near = difflib.get_close_matches(name, _CAPABILITIES, 1)
        raise refusal(
            f"{shown(text)} is not a Linux capability", f"did you mean {near[0]}?" if near else "see capabilities(7)"
        )
    return name


Capability = Annotated[
    str,
    AfterValidator(_is_capability),
    Field(json_schema_extra={"pattern": "^[A-Za-z_]+$", "examples": ["NET_ADMIN", "ALL"]}),
]

Device = Annotated[
    str,
    AfterValidator(check_device),
    Field(json_schema_extra={"pattern": "^/", "examples": ["/dev/ttyUSB0", "/dev/fuse:rw"]}),
]

_LIMITS = "as core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack"
UlimitName = Annotated[str, Matching(_LIMITS.replace(" ", "|"), f"one of {_LIMITS.replace(' ', ', ')}", "limit")]
