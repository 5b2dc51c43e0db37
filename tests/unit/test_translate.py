# SPDX-License-Identifier: Apache-2.0
"""From texts to kinds: the texts of other versions and runtimes than those that the engine's tests provoke for real."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.failure.v1 import Failure

from activities.translate import (
    PULL_RULES,
    START_IS_WEDGED,
    START_RULES,
    classify,
    engine_fault,
    pull_fault,
    refusal_fault,
    registry_of,
    root_cause,
    unreachable_fault,
)
from perdure.model.catalogue import CATALOGUE
from perdure.model.faults import MESSAGE_LIMIT_BYTES, FaultClass, FaultKind, Phase
from perdure.wire import failures
from perdure.wire.converter import data_converter


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("dial tcp 10.0.0.1:5000: connect: no route to host", FaultKind.REGISTRY_UNREACHABLE),
        ("dial tcp 10.0.0.1:5000: i/o timeout", FaultKind.REGISTRY_UNREACHABLE),
        ("net/http: TLS handshake timeout", FaultKind.REGISTRY_UNREACHABLE),
        ("read tcp 10.0.0.2:4->10.0.0.1:5000: read: connection reset by peer", FaultKind.REGISTRY_UNREACHABLE),
        ('Get "https://r.example/v2/": EOF', FaultKind.REGISTRY_UNREACHABLE),
        (
            "dial tcp: lookup r.example on 10.0.0.1:53: read udp 10.0.0.2:4: i/o timeout",
            FaultKind.REGISTRY_NAME_NOT_RESOLVED,
        ),
        ("dial tcp: lookup r.example: Temporary failure in name resolution", FaultKind.REGISTRY_NAME_NOT_RESOLVED),
        ("dial tcp: lookup r.example on 10.0.0.1:53: server misbehaving", FaultKind.REGISTRY_NAME_NOT_RESOLVED),
        ("too many requests to registry", FaultKind.RATE_LIMITED),
        ("toomanyrequests: You have reached your pull rate limit", FaultKind.RATE_LIMITED),
        ("unable to retrieve auth token: invalid username/password: unauthorized", FaultKind.UNAUTHORIZED),
        ("denied: requested access to the resource is denied", FaultKind.ACCESS_DENIED),
        ("invalid status code from registry 403 (Forbidden)", FaultKind.ACCESS_DENIED),
        ("x509: certificate has expired or is not yet valid", FaultKind.TLS_NOT_TRUSTED),
        ("x509: certificate is valid for a.example, not b.example", FaultKind.TLS_NOT_TRUSTED),
        ("remote error: tls: handshake failure", FaultKind.TLS_NOT_TRUSTED),
        ("tls: first record does not look like a TLS handshake", FaultKind.PLAIN_HTTP_REGISTRY),
        ("writing blob: adding layer with blob: no space left on device", FaultKind.DISK_FULL),
        ("received unexpected HTTP status: 502 Bad Gateway", FaultKind.REGISTRY_ERROR),
        ("repository name not known to registry: name unknown", FaultKind.IMAGE_NOT_FOUND),
        (
            'short-name "bbb:1" did not resolve to an alias and no unqualified-search registries',
            FaultKind.SHORT_IMAGE_NAME,
        ),
        ("parsing reference: repository name must be lowercase", FaultKind.INVALID_IMAGE_NAME),
        ("unsupported manifest media type", FaultKind.CORRUPT_IMAGE),
        ("copying system image: context canceled", FaultKind.ENGINE_UNREACHABLE),
        ("something that nobody has seen before", FaultKind.ENGINE_ERROR),
    ],
)
def test_texts_of_pulls(text: str, kind: FaultKind) -> None:
    """The most telling part wins, wherever it stands in the text."""
    fault = pull_fault("r.example/app:1", f"initializing source docker://r.example/app:1: {text}").fault
    assert fault.kind is kind
    assert fault.fault_class is CATALOGUE[kind].fault_class
    assert text in fault.message


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("crun: executable file `nope` not found in $PATH: No such file or directory", FaultKind.COMMAND_NOT_FOUND, "nope"),
        ("crun: open executable: Permission denied: OCI permission denied", FaultKind.COMMAND_NOT_EXECUTABLE, ""),
        ("crun: cannot stat `/mnt/stick`: No such file or directory", FaultKind.MOUNT_SOURCE_MISSING, "/mnt/stick"),
        ('mounting "/mnt/stick" to rootfs at "/a": no such file or directory', FaultKind.MOUNT_SOURCE_MISSING, "/mnt/stick"),
        ("stat /dev/ttyUSB0: no such file or directory", FaultKind.DEVICE_MISSING, "/dev/ttyUSB0"),
        ("UDP port: listen udp4 127.0.0.1:53: bind: address already in use", FaultKind.PORT_IN_USE, "port 53 "),
        ("rootlessport listen tcp 0.0.0.0:8080: bind: address already in use", FaultKind.PORT_IN_USE, "port 8080 "),
        ("cannot listen on the TCP port: listen tcp4 :80: bind: address already in use", FaultKind.PORT_IN_USE, "port 80 "),
        ("listen tcp6 [fd00::1]:80: bind: cannot assign requested address", FaultKind.ADDRESS_NOT_AVAILABLE, "[fd00::1]"),
        ("unable to find network with name or ID shop: network not found", FaultKind.NETWORK_MISSING, "shop"),
        ('no secret with name or id "db-password": no such secret', FaultKind.SECRET_MISSING, "db-password"),
        ("setting rlimits: error setting rlimit type 7: operation not permitted", FaultKind.ULIMIT_TOO_HIGH, "nofile"),
        ("crun: write to `/sys/fs/cgroup/memory.max`: Device or resource busy: OCI runtime error", FaultKind.RUNTIME_ERROR, ""),
        ("netavark: failed to delete container veth eth0: No such device (os error 19)", FaultKind.RUNTIME_ERROR, ""),
        ("container init was OOM-killed (memory limit too low?): OCI runtime error", FaultKind.INVALID_OPTION, ""),
        ("creating container storage: mkdir /var/lib/containers/x: no space left on device", FaultKind.DISK_FULL, ""),
        ("something that nobody has seen before", FaultKind.ENGINE_ERROR, ""),
    ],
)  # fmt: skip
def test_texts_of_creates_and_starts(text: str, kind: FaultKind, word: str) -> None:
    """Also those of crun, which this machine does not have; the culprit is in the hint."""
    fault = refusal_fault(Phase.START, "start container web-g1", text).fault
    assert fault.kind is kind
    assert word in fault.hint
    assert text in fault.message


@pytest.mark.parametrize(
    "text",
    [
        "runc: runc create failed: container with given ID already exists: OCI runtime error",
        "container 0a must be in Created or Stopped state to be started: container state improper",
        "container 0a does not exist in database: no such container",
    ],
)
def test_texts_of_containers_to_make_again(text: str) -> None:
    """What a crash, or somebody who removes it at the same moment, leaves."""
    assert START_IS_WEDGED.search(text)


def test_what_nobody_knows_is_transient() -> None:
    """A wrong guess in the other direction would park a workload that only had to wait."""
    for rules in (PULL_RULES, START_RULES):
        kind, _ = classify(rules, "zzz", FaultKind.ENGINE_ERROR)
        assert CATALOGUE[kind].fault_class is FaultClass.TRANSIENT


@given(st.text(max_size=4000))
def test_a_message_is_short_and_one_line_whatever_podman_says(text: str) -> None:
    """Temporal replaces a long failure by a useless text."""
    for fault in (pull_fault("r.example/app:1", text).fault, refusal_fault(Phase.START, "start", text).fault):
        assert len(fault.message.encode()) <= MESSAGE_LIMIT_BYTES
        assert "\n" not in fault.message


def test_the_end_of_a_long_text_is_kept() -> None:
    """The root cause stands there."""
    fault = pull_fault("r.example/app:1", "x: " * 4000 + "connection refused").fault
    assert fault.message.startswith("cannot pull r.example/app:1: ")
    assert fault.message.endswith("connection refused")


def test_secrets_are_hidden_in_message_and_hint() -> None:
    """Also in the words that go into the hint."""
    raised = engine_fault(FaultKind.UNAUTHORIZED, Phase.PULL, "pull x", "alice:geheim@r.example", registry="a:geheim@r")
    assert "geheim" not in raised.fault.message + raised.fault.hint


def test_a_root_cause_is_dug_out() -> None:
    """The libraries wrap a refused connection several times, in arguments and causes."""
    inner = ConnectionRefusedError(111, "Connection refused")
    try:
        try:
            raise inner
        except OSError as error:
            raise RuntimeError("Connection aborted.") from error
    except RuntimeError as error:
        outer = ValueError("wrapped", error)
    assert root_cause(outer) == "Connection refused"
    fault = unreachable_fault(Phase.START, "list containers", outer, "/run/podman/podman.sock").fault
    assert fault.message == "cannot list containers on /run/podman/podman.sock: Connection refused"


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("localhost:5000/a/b:1", "localhost:5000"),
        ("localhost/a", "localhost"),
        ("docker.io/library/nginx", "docker.io"),
        ("team/app:1", ""),
        ("nginx:1.2", ""),
        ("", ""),
    ],
)
def test_the_registry_of_a_name(image: str, registry: str) -> None:
    """The first part is a registry only if it looks like one."""
    assert registry_of(image) == registry


@pytest.mark.parametrize("letter", ["x", '"', "ü", "\\", "👋", "\x01"])
async def test_a_fault_fits_into_what_temporal_keeps_of_a_pending_failure(letter: str) -> None:
    """Above 4 KiB its place is taken by a text that says nothing (case U1); a path alone may be as long as that."""
    long = letter * 4000
    raised = engine_fault(FaultKind.MOUNT_SOURCE_MISSING, Phase.START, "create container web", long, path=long)
    failure = Failure()
    await data_converter().encode_failure(failures.pack(raised.fault, 10**6), failure)
    assert failure.ByteSize() < 4096
    assert raised.fault.message.startswith("cannot create container web: ")
