# SPDX-License-Identifier: Apache-2.0
"""From the texts of Podman, its runtime and its registries to faults. Nothing else in Perdure looks into an error's text.

Podman answers 500 for nearly everything, a user's mistake as well as a full disk, and 200 with an error line for every
failed pull: only the text tells. Each table is read from its top, and the first pattern found wins; named groups of a
pattern become the words of the hint. A text that no pattern knows is transient, since a wrong guess in the other
direction would park a workload that only had to wait.

Texts are those of Podman 4.3 to 5, runc and crun.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from activities.engine import EngineFault
from perdure.model.catalogue import make_fault
from perdure.model.faults import FaultKind, Phase
from perdure.policy.redact import redact
from perdure.policy.shorten import shorten


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a table."""

    pattern: re.Pattern[str]
    kind: FaultKind


def _table(*rows: tuple[FaultKind, tuple[str, ...]]) -> tuple[Rule, ...]:
    return tuple(Rule(re.compile(pattern, re.IGNORECASE), kind) for kind, patterns in rows for pattern in patterns)


_NAMES: Final = (
    (
        FaultKind.INVALID_IMAGE_NAME,
        (
            r"invalid reference format",
            r"repository name must (?:be lowercase|not be longer|have at least one component)",
            r"invalid checksum digest|unsupported digest",
            r"normalizing (?:image|name)",
        ),
    ),
    (FaultKind.SHORT_IMAGE_NAME, (r"did not resolve to an alias", r"short-name resolution enforced")),
)
_DISK: Final = ((FaultKind.DISK_FULL, (r"no space left on device", r"disk quota exceeded")),)

PULL_RULES: Final = _table(
    *_NAMES,
    (
        FaultKind.WRONG_ARCHITECTURE,
        (r"no image found in (?:image index|manifest list).*architecture \"?(?P<architecture>\w+)",),
    ),
    (FaultKind.RATE_LIMITED, (r"toomanyrequests|too many requests", r"status(?: code from registry|:) 429")),
    (
        FaultKind.PLAIN_HTTP_REGISTRY,
        (r"server gave HTTP response to HTTPS client", r"first record does not look like a TLS handshake"),
    ),
    (FaultKind.TLS_NOT_TRUSTED, (r"x509:", r"tls: (?!.*timeout)", r"certs\.d.*(?:certificate|permission)")),
    (
        FaultKind.UNAUTHORIZED,
        (r"unauthorized|authentication required|invalid username/password", r"status(?: code from registry|:) 401"),
    ),
    (FaultKind.ACCESS_DENIED, (r"\bdenied:|access .*denied", r"status(?: code from registry|:) 403")),
    *_DISK,
    (
        FaultKind.REGISTRY_NAME_NOT_RESOLVED,
        (r"no such host|server misbehaving", r"temporary failure in name resolution", r"dial tcp: lookup"),
    ),
    (
        FaultKind.CORRUPT_IMAGE,
        (
            r"digest did not match|digest mismatch|does not match provided manifest digest",
            r"happened during read: unexpected EOF|unexpected EOF$",
            r"invalid character .* looking for|unexpected end of JSON|unsupported (?:manifest|schema)",
            r"invalid tar header|gzip: invalid|archive/tar",
        ),
    ),
    (FaultKind.REGISTRY_ERROR, (r"status(?: code from registry|:) 5\d\d", r"StatusCode: 5\d\d")),
    (
        FaultKind.IMAGE_NOT_FOUND,
        (
            r"manifest unknown|name unknown|repository .*not found",
            r"status(?: code from registry|:) 404|StatusCode: 404",
        ),
    ),
    (
        FaultKind.REGISTRY_UNREACHABLE,
        (
            r"connection (?:refused|reset|timed out)|broken pipe|\bEOF\b|server closed idle connection",
            r"no route to host|network is unreachable|host is down",
            r"i/o timeout|handshake timeout|context deadline exceeded|request canceled",
            r"pinging container registry",
        ),
    ),
    (FaultKind.ENGINE_UNREACHABLE, (r"context canceled",)),
)
"""For the error that ends a pull."""

START_RULES: Final = _table(
    (FaultKind.NAME_CONFLICT, (r"that name is already in use",)),
    (FaultKind.IMAGE_MISSING, (r"image not known", r"no such image")),
    *_NAMES,
    (FaultKind.INIT_MISSING, (r"container-init binary not found",)),
    (FaultKind.NETWORK_MISSING, (r"network with name or ID (?P<network>\S+?):", r"network not found")),
    (FaultKind.SECRET_MISSING, (r"no secret with name or id \"?(?P<secret>[^\"\s:]+)", r"no such secret")),
    *_DISK,
    # A sysctl, a program and a mount that do not exist all end in the same words, so the order matters.
    (
        FaultKind.INVALID_OPTION,
        (r"open /proc/sys/\S+: no such file", r"sysctl .* (?:is not in a separate|not allowed|unknown)"),
    ),
    (
        FaultKind.COMMAND_NOT_EXECUTABLE,
        (
            r"exec: \"(?P<command>[^\"]*)\": (?:permission denied|is a directory)",
            r"exec format error|open executable: permission denied|executable path is a directory",
        ),
    ),
    (
        FaultKind.MOUNT_SOURCE_MISSING,
        (
            r"statfs (?P<path>.+?): no such file or directory",
            r"mount(?:ing)? [\"`](?P<path>[^\"`]+)[\"`] to .*no such file or directory",
            r"cannot stat [\"`](?P<path>[^\"`]+)[\"`]: no such file",
        ),
    ),
    (FaultKind.DEVICE_MISSING, (r"\bl?stat (?P<path>/dev/.+?): no such file or directory",)),
    (
        FaultKind.COMMAND_NOT_FOUND,
        (
            r"exec: \"(?P<command>[^\"]*)\": (?:stat .*no such file|executable file not found|no such file)",
            r"executable file [\"`]?(?P<command>[^\"`\s]+)[\"`]? not found",
            r"command that was not found",
        ),
    ),
    (FaultKind.PORT_IN_USE, (r"listen \w+ \S*:(?P<port>\d+): bind: address already in use", r"address already in use")),
    (
        FaultKind.ADDRESS_NOT_AVAILABLE,
        (
            r"listen \w+ (?P<address>\S+):\d+: bind: cannot assign requested address",
            r"cannot assign requested address",
        ),
    ),
    (
        FaultKind.USER_NOT_FOUND,
        (r"unable to find (?:user|group) (?P<user>\S+?):", r"no matching entries in (?:passwd|group)"),
    ),
    (
        FaultKind.WORKING_DIR_NOT_FOUND,
        (r"workdir \"(?P<path>[^\"]+)\" does not exist", r"chdir to cwd .*\"(?P<path>[^\"]+)\".*no such file"),
    ),
    (
        FaultKind.ULIMIT_TOO_HIGH,
        (r"setting rlimits? .*type (?P<limit>\d+): operation not permitted", r"setrlimit .*operation not permitted"),
    ),
    (
        FaultKind.INVALID_OPTION,
        (
            r"cannot unmarshal|invalid config|create option: .*invalid argument|names must match",
            r"must be an absolute path|duplicate mount destination|invalid mount option",
            r"to rootfs at .*(?:invalid argument|not a directory|no such device)|not a directory: unknown",
            r"unknown capability|invalid IP address|no command or entrypoint provided|contain null",
            r"cfs quota|CPUs are not available|failed to write .*cgroup.*invalid argument",
            r"unable to set memory limit|memory limit too low|minimum memory limit|sethostname",
            r"wrong rlimit value|setting rlimits? .*invalid argument|healthcheck.*(?:must|cannot|invalid)",
        ),
    ),
    (FaultKind.RUNTIME_ERROR, (r"OCI (?:runtime|permission)|\brunc:|\bcrun:|netavark|conmon",)),
)
"""For a refused create or start."""

START_IS_WEDGED: Final = re.compile(
    r"container with given ID already exists|container state improper|must be in Created or Stopped state"
    r"|does not exist in database|runc start .*failed|no such container|cannot start a container that has stopped"
    r"|container \S+ is not in runtime|error loading state|already being removed",
    re.IGNORECASE,
)
"""Texts of a start that say: this container is broken, make it again."""

WORD_LIMIT_BYTES: Final = 300
"""Of a word in a hint. A path may have 4 KiB, and Temporal replaces a failure of that size by a text that says nothing."""
LOCAL: Final = "localhost"
"""The registry in the name of an image that Podman built. With a port it is a real one."""
_LOCAL_HINT: Final = (
    "check its spelling by `podman images` on the host; build or load it there (podman build, podman load), or push it to a "
    "registry and name that one; it is tried again by itself"
)
_LIMITS: Final = {"0": "cpu", "1": "fsize", "4": "core", "6": "nproc", "7": "nofile", "8": "memlock"}


def classify(rules: Sequence[Rule], text: str, otherwise: FaultKind) -> tuple[FaultKind, dict[str, str]]:
    """The kind of a text, and the words for its hint that the text holds."""
    for rule in rules:
        if found := rule.pattern.search(text):
            words = {name: value for name, value in found.groupdict().items() if value}
            if "limit" in words:
                words["limit"] = f"the ulimit {_LIMITS.get(words['limit'], words['limit'])}"
            return rule.kind, words
    return otherwise, {}


def engine_fault(kind: FaultKind, phase: Phase, doing: str, cause: str, **words: str) -> EngineFault:
    """A failure of a kind: what was done, and why it failed, in one short line without secrets."""
    message = shorten(redact(f"cannot {doing}: {cause}"))
    found = {name: shorten(redact(word), WORD_LIMIT_BYTES) for name, word in words.items()}
    return EngineFault(make_fault(kind, phase, message, **found))


def pull_fault(image: str, text: str) -> EngineFault:
    """What a failed pull means."""
    kind, words = classify(PULL_RULES, text, FaultKind.ENGINE_ERROR)
    if registry_of(image) == LOCAL and kind in (FaultKind.REGISTRY_UNREACHABLE, FaultKind.IMAGE_NOT_FOUND):
        return _not_made_here(image, text)
    return engine_fault(
        kind, Phase.PULL, f"pull {image}", text, **{"image": image, "registry": registry_of(image), **words}
    )


def _not_made_here(image: str, text: str) -> EngineFault:
    """The name of an image that was built on a host. Nobody runs a registry there, so its absence is not the trouble."""
    cause = f"this host has no image of that name, and there is no registry at {LOCAL}: {text}"
    missing = engine_fault(FaultKind.IMAGE_NOT_FOUND, Phase.PULL, f"pull {image}", cause, image=image)
    return EngineFault(missing.fault.model_copy(update={"hint": _LOCAL_HINT}))


def refusal_fault(phase: Phase, doing: str, text: str, **words: str) -> EngineFault:
    """What it means that Podman refused a call."""
    kind, found = classify(START_RULES, text, FaultKind.ENGINE_ERROR)
    return engine_fault(kind, phase, doing, text, **{**words, **found})


def unreachable_fault(phase: Phase, doing: str, error: BaseException, socket: str) -> EngineFault:
    """What it means that a call did not get through to Podman."""
    return engine_fault(FaultKind.ENGINE_UNREACHABLE, phase, f"{doing} on {socket}", root_cause(error), socket=socket)


def root_cause(error: BaseException) -> str:
    """The innermost cause of a nest of exceptions, in words.

    The libraries below wrap a refused connection four times, and hide the errno in the arguments of the wrappers.
    """
    *_, last = _causes(error)
    text = str(last).strip() or type(last).__name__
    if isinstance(last, OSError) and last.strerror:
        # The event loop puts the address there, which says the same of every try in other words.
        return os.strerror(last.errno) if last.errno and last.errno > 0 else last.strerror
    return text


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        inner = [argument for argument in current.args if isinstance(argument, BaseException)]
        reason = getattr(current, "reason", None)
        if isinstance(reason, BaseException):
            inner.append(reason)
        if isinstance(current, BaseExceptionGroup):
            inner += current.exceptions
        current = current.__cause__ or current.__context__ or next(iter(inner), None)


def registry_of(image: str) -> str:
    """The registry in an image's name, or an empty text."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""
