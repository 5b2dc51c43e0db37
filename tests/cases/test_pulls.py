# SPDX-License-Identifier: Apache-2.0
"""L: registries that are silent, broken, private or away, and disks that are full."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.model.faults import FaultClass, FaultKind
from perdure.model.messages import Outcome
from perdure.model.states import Substate
from perdure.model.status import WorkloadStatus
from tests.cases import secret
from tests.cases.case import Case, took
from tests.cases.patience import patience
from tests.cases.stage import Stage
from tests.support.certificates import Certificate
from tests.support.images import Images
from tests.support.registry import Registry
from tests.support.sabotage import corrupt_blob, hang, status, truncated_blob
from tests.support.waiting import eventually_async

TROUBLES = {
    "500": (status(500), FaultKind.REGISTRY_ERROR, "500 Internal Server Error"),
    "502": (status(502), FaultKind.REGISTRY_ERROR, "502 Bad Gateway"),
    "503": (status(503), FaultKind.REGISTRY_ERROR, "503 Service Unavailable"),
    "504": (status(504), FaultKind.REGISTRY_ERROR, "504 Gateway Timeout"),
    "corrupt": (corrupt_blob(), FaultKind.CORRUPT_IMAGE, "Digest did not match"),
    "truncated": (truncated_blob(), FaultKind.CORRUPT_IMAGE, "unexpected EOF"),
}


async def test_l2_a_missing_tag_is_asked_for_until_it_is_deleted(case: Case) -> None:
    """ImageNotFound, with few tries, and not one request after the removal."""
    web = case.workload()
    answer = await web.apply(case.image("missing"), retry={"initialInterval": "500ms", "maximumInterval": "300s"})
    assert answer.error is not None
    assert (answer.outcome, answer.error.kind) == (Outcome.RETRYING, FaultKind.IMAGE_NOT_FOUND)
    status = await web.has("was tried again", lambda status: status.attempt >= 3)
    assert status.last_error is not None
    assert (status.last_error.kind, status.last_error.count) == (FaultKind.IMAGE_NOT_FOUND, status.last_error.attempt)
    assert len(case.front.requests(case.repository("missing"), "manifest", "GET")) <= status.attempt + 1
    await web.remove()
    case.front.forget_requests()
    # The rest is for the fixture: it goes on listening until the last case is over.
    assert case.front.requests() == []


async def test_l3_a_broken_registry_is_waited_for(case: Case) -> None:
    """Whatever it does wrong is transient and told with its root cause; each runs within one interval after it is healed."""
    workloads = {case.workload(name): trouble for name, trouble in TROUBLES.items()}
    images = [await case.push(name) for name in TROUBLES]
    for name, (sabotage, _, _) in TROUBLES.items():
        case.front.sabotage(case.repository(name), sabotage)
    entries = {workload: {"image": image} for workload, image in zip(workloads, images, strict=True)}
    answers = await case.apply(entries)
    for workload, (_, kind, cause) in workloads.items():
        answer = answers[workload]
        assert answer is not None
        assert answer.outcome is Outcome.RETRYING
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (kind, FaultClass.TRANSIENT)
        assert cause in answer.error.message
        assert case.front.address in answer.error.hint
    case.front.recover()
    for workload in workloads:
        await workload.runs(within=10)


async def test_l3_a_registry_that_cannot_be_reached_is_waited_for(case: Case) -> None:
    """Refused, EOF, reset: each is told, the substate never flickers, and it runs soon after the registry is back."""
    web = case.workload()
    image = await case.push()
    case.front.refuse()
    await web.apply(image, retry={"maximumInterval": "2s"})
    await web.has("tells of the refusal", _tells("connection refused"))
    case.front.accept()
    case.front.hang_up()
    await web.has("tells of the end", _tells("EOF"))
    case.front.hang_up(reset=True)
    await web.has("tells of the reset", _tells("connection reset by peer"))
    case.front.recover()
    status = await web.runs(within=15)
    assert [step.substate for step in status.history].count(Substate.PULL_BACKOFF) == 1
    assert len({kind for kind in (seen.last_error and seen.last_error.kind for seen in web.statuses) if kind}) == 1


def _tells(cause: str) -> Callable[[WorkloadStatus], bool]:
    return lambda status: status.last_error is not None and cause in status.last_error.message


async def test_l4_an_authority_that_becomes_trusted(
    case: Case, tls_registry: Registry, certificate: Certificate, images: Images
) -> None:
    """The hint names the file; it runs by the next try after the file is there."""
    web = case.workload()
    image = tls_registry.reference(case.repository())
    images.push(images.obedient(), image, ca=certificate.ca)
    answer = await web.apply(image)
    assert answer.error is not None
    assert (answer.error.kind, answer.error.fault_class) == (FaultKind.TLS_NOT_TRUSTED, FaultClass.TRANSIENT)
    file = Path("/etc/containers/certs.d") / tls_registry.address / "ca.crt"
    assert str(file) in answer.error.hint
    file.parent.mkdir(parents=True)
    try:
        file.write_bytes(certificate.ca.read_bytes())
        await web.runs(within=10)
    finally:
        file.unlink(missing_ok=True)
        file.parent.rmdir()


@pytest.mark.parametrize("heal", ["by itself", "by retry"])
async def test_l4_u7_credentials_that_come_later(
    case: Case, stage: Stage, private: Registry, private_image: str, heal: str
) -> None:
    """None, then wrong ones: Unauthorized, with a hint; the status shows that until the right ones are there."""
    web = case.workload()
    slow: dict[str, Any] = (
        {"retry": {"initialInterval": "60s", "maximumInterval": "300s"}} if heal == "by retry" else {}
    )
    secret.log_out(stage.host.configuration, private.address)
    await case.podman.forget(private_image)
    try:
        answer = await web.apply(private_image, **slow)
        assert answer.error is not None
        assert (answer.error.kind, answer.error.fault_class) == (FaultKind.UNAUTHORIZED, FaultClass.TRANSIENT)
        assert f"podman login {private.address}" in answer.error.hint
        if heal == "by itself":
            secret.log_in(stage.host.configuration, private.address, password="wr^ng s%41")
            asked = len(private.requests("team/app"))
            await eventually_async(lambda: _asked_again(private, asked), within=patience(20), what="it is tried again")
            await web.has("shows the 401", _tells("unauthorized"))
    finally:
        secret.log_in(stage.host.configuration, private.address)
    if heal == "by retry":
        assert (await web.status()).substate == "PullBackoff"
        await case.fleet.retry(case.host.name, web.name)
    await web.runs(within=10)


async def _asked_again(registry: Registry, before: int) -> bool:
    return len(registry.requests()) > before


@pytest.fixture
def small_disk(stage: Stage) -> Iterator[Path]:
    """A disk of 1 MiB where Podman puts what it downloads, full but for a little."""
    folder = stage.host.podman.service.home / "copies"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(900_000))
    yield ballast
    subprocess.run(["umount", "-l", folder], check=True)


def make_room(ballast: Path) -> None:
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", ballast.parent], check=True)


async def test_l5_a_disk_that_is_full(case: Case, small_disk: Path) -> None:
    """DiskFull, few requests, and it runs when there is room."""
    web = case.workload()
    image = await case.push(mebibytes=4)
    answer = await web.apply(image, retry={"initialInterval": "500ms", "maximumInterval": "2s"})
    assert answer.error is not None
    assert (answer.error.kind, answer.error.fault_class) == (FaultKind.DISK_FULL, FaultClass.TRANSIENT)
    assert "no space left on device" in answer.error.message
    status = await web.has("was tried again", lambda status: status.attempt >= 3)
    blobs = case.front.requests(case.repository(), "blob", "GET")
    assert len(blobs) <= 2 * (status.attempt + 1), "each try asks for the configuration and the layer once"
    await asyncio.to_thread(make_room, small_disk)
    await web.runs(within=15)


async def test_l6_a_registry_that_is_down_while_the_image_is_local(case: Case) -> None:
    """With missing it starts and nobody is asked; with newer it starts and warns; with always it waits."""
    first, missing, newer, always = (case.workload(name) for name in ("first", "missing", "newer", "always"))
    image = await case.push()
    assert (await first.apply(image)).outcome is Outcome.RUNNING
    case.front.refuse()
    answers = await case.apply(
        {
            missing: {"image": image},
            newer: {"image": image, "pullPolicy": "newer"},
            always: {"image": image, "pullPolicy": "always"},
        }
    )
    outcomes = [answer and answer.outcome for answer in answers.values()]
    assert outcomes == [Outcome.RUNNING, Outcome.RUNNING, Outcome.RETRYING]
    assert (await missing.runs()).warning == ""
    warning = (await newer.runs()).warning
    assert "could not be refreshed, the local one is used: RegistryUnreachable" in warning
    assert "connection refused" in warning


async def test_l7_one_hung_pull_holds_up_nobody(case: Case) -> None:
    """Twenty others on the same host, each of which needs a pull, run within 30 s."""
    hung, *good = case.several(21)
    stuck = await case.push("stuck")
    image = await case.push("good")
    case.front.sabotage(case.repository("stuck"), hang("manifest"))
    await hung.send(stuck)
    await case.is_asking("stuck")
    seconds, answers = await took(case.apply({workload: {"image": image} for workload in good}))
    assert {answer and answer.outcome for answer in answers.values()} == {Outcome.RUNNING}
    assert seconds < patience(30)
    assert (await hung.status()).substate == "Pulling"


async def test_l7_many_starts_of_one_image_pull_it_once(case: Case) -> None:
    """One pull on the wire, however many want it at once. A hundred containers would tell no more than thirty."""
    crowd = case.several(30)
    image = await case.push(shell="exit 0")
    answers = await case.apply({workload: {"image": image, "restart": "never"} for workload in crowd})
    assert {answer and answer.outcome for answer in answers.values()} == {Outcome.RUNNING}
    assert len(case.front.requests(case.repository(), "manifest", "GET")) == 1
    assert len(case.front.requests(case.repository(), "blob", "GET")) == 2, "the configuration and the layer"
    for workload in crowd[::10]:
        await workload.until("Succeeded/Ok")
