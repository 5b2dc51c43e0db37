# SPDX-License-Identifier: Apache-2.0
"""The catalogue of faults: for each kind whether trying again can help, where it is met, what it means and what to do.

It is the only place that says so. The engine makes its faults from it, ``docs/reference/faults.md`` is written from it, and
the tests provoke every row of it.

A kind is transient if it can vanish without a new manifest: somebody may push the tag, renew the credentials, install the
authority, free the port. It is permanent only if the manifest itself asks for what can never be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.model.faults import Fault, FaultClass, FaultKind, Phase

_T, _P = FaultClass.TRANSIENT, FaultClass.PERMANENT
_PULL, _START, _STOP = Phase.PULL, Phase.START, Phase.STOP
_ANY = (_PULL, _START, _STOP)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one kind of fault."""

    fault_class: FaultClass
    phases: tuple[Phase, ...]
    meaning: str
    hint: str
    """With names in braces that are filled from the error's text, or from ``WORDS`` where the text does not tell."""


WORDS: Mapping[str, str] = {
    "image": "the image",
    "registry": "the registry",
    "architecture": "the host's architecture",
    "name": "that name",
    "port": "the port",
    "address": "the address",
    "path": "the path",
    "network": "the network",
    "secret": "the secret",
    "command": "the command",
    "user": "the user",
    "socket": "the Podman socket",
    "limit": "the limit",
}
"""What a hint says where the text of an error does not tell more."""

CATALOGUE: Mapping[FaultKind, Entry] = {
    FaultKind.REGISTRY_UNREACHABLE: Entry(
        _T,
        (_PULL,),
        "No connection to the registry, or it broke off.",
        "check that {registry} is up and that this host reaches it; it is tried again by itself",
    ),
    FaultKind.REGISTRY_NAME_NOT_RESOLVED: Entry(
        _T,
        (_PULL,),
        "DNS does not know the registry's name, or does not answer.",
        "check the spelling of {registry} and the host's DNS (/etc/resolv.conf); it is tried again by itself",
    ),
    FaultKind.REGISTRY_ERROR: Entry(
        _T,
        (_PULL,),
        "The registry answered with a server error (5xx).",
        "look into the logs of {registry}; it is tried again by itself",
    ),
    FaultKind.RATE_LIMITED: Entry(
        _T,
        (_PULL,),
        "The registry answered that there were too many requests (429).",
        "wait, or log in to {registry} on the host (podman login), as most registries allow more to known users",
    ),
    FaultKind.PULL_STALLED: Entry(
        _T,
        (_PULL,),
        "The pull was cut off because it made no progress for too long.",
        "check {registry} and the link to it; it is tried again by itself",
    ),
    FaultKind.IMAGE_NOT_FOUND: Entry(
        _T,
        (_PULL,),
        "The registry has no such repository, tag or digest.",
        "check the spelling of {image}, or push it: it is tried again by itself",
    ),
    FaultKind.UNAUTHORIZED: Entry(
        _T,
        (_PULL,),
        "The registry wants credentials, or refuses those of the host (401).",
        "log in on the host as the user that runs Podman: podman login {registry}; then `perdure retry`, or wait for the next",
    ),
    FaultKind.ACCESS_DENIED: Entry(
        _T,
        (_PULL,),
        "The registry knows the user but denies access to the image (403).",
        "give the host's user of {registry} the right to pull {image}",
    ),
    FaultKind.TLS_NOT_TRUSTED: Entry(
        _T,
        (_PULL,),
        "The registry's certificate is not trusted, or does not fit its name.",
        "put the authority's certificate into /etc/containers/certs.d/{registry}/ca.crt on the host; it is tried again by itself",
    ),
    FaultKind.PLAIN_HTTP_REGISTRY: Entry(
        _T,
        (_PULL,),
        "The registry speaks plain HTTP, and the host's configuration wants HTTPS.",
        "if plain HTTP is meant, say so in /etc/containers/registries.conf on the host: "
        '[[registry]] with location = "{registry}" and insecure = true',
    ),
    FaultKind.CORRUPT_IMAGE: Entry(
        _T,
        (_PULL,),
        "What the registry sent is damaged or incomplete.",
        "check proxies and caches between the host and {registry}; if it stays, push {image} again",
    ),
    FaultKind.INVALID_IMAGE_NAME: Entry(
        _P,
        (_PULL, _START),
        "The image's name is none that any registry can have.",
        "correct the name: REGISTRY/REPOSITORY:TAG, lower-case but for the tag",
    ),
    FaultKind.SHORT_IMAGE_NAME: Entry(
        _P,
        (_PULL, _START),
        "The image's name does not say its registry.",
        "write the full name, for example docker.io/library/nginx:1.27 or localhost:5000/web:1.2",
    ),
    FaultKind.WRONG_ARCHITECTURE: Entry(
        _P,
        (_PULL, _START),
        "The image is not made for the host's architecture.",
        "name an image that is made for {architecture}",
    ),
    FaultKind.IMAGE_MISSING: Entry(
        _T,
        (_START,),
        "The image is not on the host.",
        "it is pulled next; with pullPolicy never, load {image} on the host (podman load, podman pull)",
    ),
    FaultKind.NAME_CONFLICT: Entry(
        _T,
        (_START,),
        "A container that is not ours has the name that ours needs. It is never touched.",
        "remove or rename it on the host: podman rename {name} NEW-NAME; it is tried again by itself",
    ),
    FaultKind.PORT_IN_USE: Entry(
        _T,
        (_START,),
        "Another process or container of the host holds the port.",
        "see who holds port {port} on the host (ss -lntup) and end it, or publish another port; it is tried again by itself",
    ),
    FaultKind.ADDRESS_NOT_AVAILABLE: Entry(
        _T,
        (_START,),
        "The host has no such address to publish a port on.",
        "give the host the address {address}, or publish on another; it is tried again by itself",
    ),
    FaultKind.MOUNT_SOURCE_MISSING: Entry(
        _T,
        (_START,),
        "A file or directory of the host that should be mounted does not exist. Perdure never creates it.",
        "make {path} on the host, or mount what it should be on; it is tried again by itself",
    ),
    FaultKind.DEVICE_MISSING: Entry(
        _T,
        (_START,),
        "The host has no such device.",
        "plug it in or load its driver, so that {path} exists on the host; it is tried again by itself",
    ),
    FaultKind.NETWORK_MISSING: Entry(
        _T,
        (_START,),
        "The host's Podman has no such network.",
        "make it on the host: podman network create {network}; it is tried again by itself",
    ),
    FaultKind.SECRET_MISSING: Entry(
        _T,
        (_START,),
        "The host's Podman has no such secret.",
        "make it on the host: podman secret create {secret} FILE; it is tried again by itself",
    ),
    FaultKind.COMMAND_NOT_FOUND: Entry(
        _P,
        (_START,),
        "The image has no such program.",
        "correct command or entrypoint: {command} is not in the image",
    ),
    FaultKind.COMMAND_NOT_EXECUTABLE: Entry(
        _P,
        (_START,),
        "What should be run is no executable file.",
        "correct command or entrypoint: {command} is a directory or has no execute permission in the image",
    ),
    FaultKind.USER_NOT_FOUND: Entry(
        _P,
        (_START,),
        "The image has no such user or group.",
        "use a number, or a name from the image's /etc/passwd and /etc/group, instead of {user}",
    ),
    FaultKind.WORKING_DIR_NOT_FOUND: Entry(
        _P,
        (_START,),
        "The working directory does not exist in the image.",
        "correct workingDir: {path} is not in the image",
    ),
    FaultKind.INVALID_OPTION: Entry(
        _P,
        (_START,),
        "Podman or the kernel refuses a setting of the manifest as impossible.",
        "correct the setting that the message names, and apply again",
    ),
    FaultKind.INIT_MISSING: Entry(
        _T,
        (_START,),
        "The manifest says init: true, and the host has no init program for containers.",
        "install catatonit on the host (apt-get install catatonit), or leave init out",
    ),
    FaultKind.ULIMIT_TOO_HIGH: Entry(
        _T,
        (_START,),
        "A resource limit is above what the host's Podman may give.",
        "lower {limit} in the manifest or in default_ulimits of the host's containers.conf, or raise that of the Podman service",
    ),
    FaultKind.RUNTIME_ERROR: Entry(
        _T,
        (_START,),
        "The container runtime failed for a reason that is not known to be permanent.",
        "read the message; if it names a setting of the manifest, correct it. It is tried again by itself",
    ),
    FaultKind.DISK_FULL: Entry(
        _T,
        _ANY,
        "A disk of the host is full.",
        "free space on the host (podman system df, podman image prune); it is tried again by itself",
    ),
    FaultKind.ENGINE_UNREACHABLE: Entry(
        _T,
        _ANY,
        "Podman's API does not answer.",
        "check the service behind {socket} (systemctl status podman.socket); its containers go on; it is tried again by itself",
    ),
    FaultKind.ENGINE_ERROR: Entry(
        _T,
        _ANY,
        "Podman failed for a reason that is not known.",
        "read the message and the host's journal; it is tried again by itself",
    ),
    FaultKind.STOP_FAILED: Entry(
        _T,
        (_START, _STOP),
        "A container could not be stopped or removed.",
        "look at it on the host: podman inspect {name}; it is tried again by itself",
    ),
    FaultKind.SUPERSEDED: Entry(
        _P,
        _ANY,
        "A newer generation took the place of this one.",
        "nothing, where a newer one is under way; else perdure delete, then apply it again",
    ),
    FaultKind.WORKER_LOST: Entry(
        _T,
        _ANY,
        "The host's worker vanished in the middle of a try.",
        "check perdure-worker on the host; it is tried again as soon as it is back",
    ),
    FaultKind.WORKER_SHUTDOWN: Entry(
        _T,
        _ANY,
        "The host's worker was stopped in the middle of a try, which does not count.",
        "nothing: it goes on when the worker is back",
    ),
    FaultKind.TIMED_OUT: Entry(
        _T,
        _ANY,
        "A step took longer than it may.",
        "check the load of the host; it is tried again by itself",
    ),
    FaultKind.INTERNAL: Entry(
        _T,
        _ANY,
        "A defect of Perdure.",
        "please report it, with the message and the worker's log; it is tried again by itself",
    ),
}


def make_fault(kind: FaultKind, phase: Phase, message: str, **found: str) -> Fault:
    """Make a fault of a kind; ``found`` are the words for its hint. The message must be free of secrets and short already."""
    entry = CATALOGUE[kind]
    words = {**WORDS, **{name: value for name, value in found.items() if value}}
    return Fault(
        kind=kind, fault_class=entry.fault_class, phase=phase, message=message, hint=entry.hint.format_map(words)
    )


def as_markdown() -> str:
    """The page ``docs/reference/faults.md``."""
    lines = [
        "# Faults",
        "",
        "What can go wrong, as `perdure describe` and `perdure get workloads` name it. This page is written from",
        "`perdure/model/catalogue.py` by `make docs`.",
        "",
        "A *transient* fault can vanish without a new manifest: Perdure tries again for ever, with growing waits of at most",
        "300 s, or until `retry.giveUpAfter`. A *permanent* one needs a new manifest: the workload is parked as",
        "`Failed(Rejected)` until one comes, until `perdure retry`, or until its host's worker is started again.",
        "",
        "| kind | class | phase | what it means | what to do |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind, entry in CATALOGUE.items():
        phases = "any" if entry.phases == _ANY else ", ".join(entry.phases)
        hint = entry.hint.format_map(_Placeholders())
        lines.append(f"| `{kind}` | {entry.fault_class} | {phases} | {entry.meaning} | {hint} |")
    return "\n".join(lines) + "\n"


class _Placeholders(dict[str, str]):
    """Shows every name of a hint as a placeholder."""

    def __missing__(self, name: str) -> str:
        return name.upper()
