# SPDX-License-Identifier: Apache-2.0
"""Everything that can go wrong with a pull, provoked for real: its kind, its class, and the root cause in its text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from activities.podman_engine import PodmanEngine
from perdure.model.faults import MESSAGE_LIMIT_BYTES, FaultClass, FaultKind, Phase
from tests.engine.workload import pull, pull_fault
from tests.support.fault_registry import (
    FaultRegistry,
    Sabotage,
    bad_manifest,
    corrupt_blob,
    half_a_blob,
    hang,
    status,
    trickle,
    truncated_blob,
)
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.registry import Registry

REPOSITORY = "faults/app"


@pytest.fixture(scope="module")
def pushed(images: Images, registry: Registry) -> str:
    """An image in the registry that the host does not have: its layer must really come."""
    local = images.make("app:1", extra={"ballast": b"some ballast " * 1000})
    images.push(local, registry.reference(REPOSITORY))
    images.forget(local)
    return REPOSITORY


@pytest.fixture
def front(fault_registry: FaultRegistry, pushed: str, images: Images) -> Iterator[FaultRegistry]:
    """The misbehaving front of the registry; nothing pulled through it stays."""
    yield fault_registry
    fault_registry.recover()
    images.forget(fault_registry.reference(REPOSITORY))


@pytest.mark.parametrize(
    ("sabotage", "kind", "cause"),
    [
        (status(401), FaultKind.UNAUTHORIZED, "unauthorized"),
        (status(403), FaultKind.ACCESS_DENIED, "denied"),
        (status(403, "blob"), FaultKind.ACCESS_DENIED, "403 (Forbidden)"),
        (status(404), FaultKind.IMAGE_NOT_FOUND, "manifest unknown"),
        (status(404, "blob"), FaultKind.IMAGE_NOT_FOUND, "404 (Not Found)"),
        (status(500), FaultKind.REGISTRY_ERROR, "500 Internal Server Error"),
        (status(502), FaultKind.REGISTRY_ERROR, "502 Bad Gateway"),
        (status(503), FaultKind.REGISTRY_ERROR, "503 Service Unavailable"),
        (status(504), FaultKind.REGISTRY_ERROR, "504 Gateway Timeout"),
        (status(500, "blob"), FaultKind.REGISTRY_ERROR, "500 (Internal Server Error)"),
        (bad_manifest(), FaultKind.CORRUPT_IMAGE, "invalid character 'n'"),
        (corrupt_blob(), FaultKind.CORRUPT_IMAGE, "Digest did not match"),
        (truncated_blob(), FaultKind.CORRUPT_IMAGE, "unexpected EOF"),
    ],
    ids=str,
)
async def test_trouble_with_an_image(
    engine: PodmanEngine, front: FaultRegistry, sabotage: Sabotage, kind: FaultKind, cause: str
) -> None:
    """Each is transient, names the image, keeps the root cause, hints at the registry, and heals by itself."""
    image = front.reference(REPOSITORY)
    front.sabotage(REPOSITORY, sabotage)
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class, fault.phase) == (kind, FaultClass.TRANSIENT, Phase.PULL)
    assert cause in fault.message
    assert image in fault.message
    assert front.address in fault.hint
    assert len(fault.message.encode()) <= MESSAGE_LIMIT_BYTES
    assert "\n" not in fault.message
    front.recover()
    assert (await pull(engine, image)).digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("sabotage", "cause"),
    [
        (half_a_blob(), "no progress for 2 s"),
        (hang("manifest"), "the registry was silent for 2 s"),
        (hang("blob"), "the registry was silent for 2 s"),
        (trickle(10), "for 2 s"),
    ],
    ids=["half a blob", "no manifest", "no blob", "trickle"],
)
async def test_a_pull_without_progress(
    engine: PodmanEngine, impatient_engine: PodmanEngine, front: FaultRegistry, sabotage: Sabotage, cause: str
) -> None:
    """L1: cut off after the window, transient, and it heals by itself."""
    image = front.reference(REPOSITORY)
    front.sabotage(REPOSITORY, sabotage)
    started = time.monotonic()
    fault = (await pull_fault(impatient_engine, image)).fault
    assert 2 <= time.monotonic() - started < 15
    assert (fault.kind, fault.fault_class) == (FaultKind.PULL_STALLED, FaultClass.TRANSIENT)
    assert cause in fault.message
    assert image in fault.message
    assert front.address in fault.hint
    front.recover()
    await pull(engine, image)


@pytest.mark.parametrize(
    ("trouble", "kind", "cause"),
    [
        (lambda front: front.refuse(), FaultKind.REGISTRY_UNREACHABLE, "connection refused"),
        (lambda front: front.hang_up(), FaultKind.REGISTRY_UNREACHABLE, "EOF"),
        (lambda front: front.hang_up(reset=True), FaultKind.REGISTRY_UNREACHABLE, "connection reset by peer"),
        (lambda front: front.fail_ping(503), FaultKind.REGISTRY_ERROR, "503 (Service Unavailable)"),
        (lambda front: front.fail_ping(500), FaultKind.REGISTRY_ERROR, "500 (Internal Server Error)"),
    ],
    ids=["refused", "eof", "reset", "ping 503", "ping 500"],
)
async def test_trouble_with_the_whole_registry(
    engine: PodmanEngine,
    front: FaultRegistry,
    trouble: Callable[[FaultRegistry], None],
    kind: FaultKind,
    cause: str,
) -> None:
    """Each is transient, keeps the root cause, and heals by itself."""
    image = front.reference(REPOSITORY)
    trouble(front)
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (kind, FaultClass.TRANSIENT)
    assert cause in fault.message
    front.recover()
    await pull(engine, image)


async def test_a_registry_that_accepts_and_stays_silent(impatient_engine: PodmanEngine, front: FaultRegistry) -> None:
    """L1: Podman would wait for ever."""
    front.silence()
    fault = (await pull_fault(impatient_engine, front.reference(REPOSITORY))).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.PULL_STALLED, FaultClass.TRANSIENT)
    assert "silent for 2 s" in fault.message


async def test_a_name_that_dns_does_not_know(engine: PodmanEngine) -> None:
    """L3: transient, as the name may be known later."""
    fault = (await pull_fault(engine, "registry.nowhere.invalid/app:1")).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.REGISTRY_NAME_NOT_RESOLVED, FaultClass.TRANSIENT)
    assert "no such host" in fault.message
    assert "registry.nowhere.invalid" in fault.hint


async def test_too_many_requests_are_told_from_silence(impatient_engine: PodmanEngine, front: FaultRegistry) -> None:
    """Podman waits two minutes by itself without a word: the deadline fires, and the registry is asked once."""
    front.sabotage(REPOSITORY, status(429, retry_after=7))
    raised = await pull_fault(impatient_engine, front.reference(REPOSITORY))
    assert (raised.fault.kind, raised.fault.fault_class) == (FaultKind.RATE_LIMITED, FaultClass.TRANSIENT)
    assert raised.retry_after == timedelta(seconds=7)
    assert "429" in raised.fault.message


async def test_a_short_spell_of_too_many_requests_is_sat_out(engine: PodmanEngine, front: FaultRegistry) -> None:
    """Podman honours Retry-After itself: no fault where the wait is shorter than our patience."""
    front.sabotage(REPOSITORY, status(429, retry_after=1, times=1))
    await pull(engine, front.reference(REPOSITORY))


async def test_an_authority_that_nobody_trusts(engine: PodmanEngine, tls_registry: Registry) -> None:
    """L4: transient, with a loud hint that names the file."""
    fault = (await pull_fault(engine, f"{tls_registry.address}/app:1")).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.TLS_NOT_TRUSTED, FaultClass.TRANSIENT)
    assert "certificate signed by unknown authority" in fault.message
    assert f"/etc/containers/certs.d/{tls_registry.address}/ca.crt" in fault.hint


async def test_a_registry_without_tls_where_tls_is_wanted(engine: PodmanEngine, registry: Registry) -> None:
    """The host's configuration decides; the hint says what to write there."""
    secure = f"127.0.0.1:{registry.port}"
    fault = (await pull_fault(engine, f"{secure}/{REPOSITORY}:1")).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.PLAIN_HTTP_REGISTRY, FaultClass.TRANSIENT)
    assert "HTTP response to HTTPS client" in fault.message
    assert "insecure = true" in fault.hint
    assert secure in fault.hint


@pytest.mark.parametrize("what", ["repository", "tag", "digest"])
async def test_an_image_that_is_not_there(engine: PodmanEngine, registry: Registry, pushed: str, what: str) -> None:
    """Repository, tag and digest look alike to Podman; each may still be pushed."""
    image = {
        "repository": registry.reference("faults/nothing"),
        "tag": registry.reference(pushed, "never-pushed"),
        "digest": f"{registry.address}/{pushed}@sha256:{'0a' * 32}",
    }[what]
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.IMAGE_NOT_FOUND, FaultClass.TRANSIENT)
    assert image in fault.hint


async def test_an_image_that_was_to_be_made_on_the_host(engine: PodmanEngine) -> None:
    """Podman asks for a registry at localhost, which nobody has: that is not what is missing."""
    fault = (await pull_fault(engine, "localhost/never-made:1")).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.IMAGE_NOT_FOUND, FaultClass.TRANSIENT)
    assert "this host has no image of that name" in fault.message
    assert "connection refused" in fault.message
    assert "podman load" in fault.hint


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("localhost:5000/App:1", FaultKind.INVALID_IMAGE_NAME),
        ("localhost:5000/app:bad tag", FaultKind.INVALID_IMAGE_NAME),
        ("localhost:5000/app@sha256:1234", FaultKind.INVALID_IMAGE_NAME),
        ("localhost:5000/äpp:1", FaultKind.INVALID_IMAGE_NAME),
        ("", FaultKind.INVALID_IMAGE_NAME),
        ("app:1", FaultKind.SHORT_IMAGE_NAME),
        ("team/app:1", FaultKind.SHORT_IMAGE_NAME),
    ],
)
async def test_names_that_no_registry_can_have(engine: PodmanEngine, image: str, kind: FaultKind) -> None:
    """Permanent: only a new manifest can cure them. Docker Hub is never asked for a short name."""
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (kind, FaultClass.PERMANENT)


async def test_an_image_for_another_architecture(engine: PodmanEngine, images: Images, registry: Registry) -> None:
    """C4: Podman pulls it without an error; the text names both architectures."""
    image = registry.reference("faults/foreign")
    images.push(images.foreign(), image)
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.WRONG_ARCHITECTURE, FaultClass.PERMANENT)
    assert "arm64" in fault.message
    assert "amd64" in fault.message


async def test_an_index_without_our_architecture(engine: PodmanEngine, images: Images, registry: Registry) -> None:
    """Podman names ours only; the text names what the index offers, too."""
    power = images.make("power:1", architecture="ppc64le", extra={"tag": b"ppc64le"})
    image = registry.reference("faults/index")
    images.push_index([images.foreign(), power], image)
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.WRONG_ARCHITECTURE, FaultClass.PERMANENT)
    for architecture in ("arm64", "ppc64le", "amd64"):
        assert architecture in fault.message


async def test_a_service_that_dies_in_the_middle_of_a_pull(
    engine: PodmanEngine, front: FaultRegistry, podman: IsolatedPodman
) -> None:
    """Transient, and the next pull is as good as any."""
    front.sabotage(REPOSITORY, half_a_blob())
    image = front.reference(REPOSITORY)
    task = asyncio.create_task(pull_fault(engine, image))
    await asyncio.sleep(1)
    await asyncio.to_thread(podman.restart)
    fault = (await task).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.ENGINE_UNREACHABLE, FaultClass.TRANSIENT)
    assert str(podman.socket) in fault.hint
    front.recover()
    await pull(engine, image)
