# SPDX-License-Identifier: Apache-2.0
"""Pulls that go well, are shared, or are called off."""

from __future__ import annotations

import asyncio
import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from activities.engine import PullProgress
from activities.podman_engine import PodmanEngine
from perdure.model.faults import FaultClass, FaultKind
from perdure.policy.progress import Patience
from tests.engine.workload import Workload, ignore, pull, pull_fault
from tests.support.certificates import Certificate
from tests.support.fault_registry import FaultRegistry, half_a_blob, trickle
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.registry import Registry
from tests.support.waiting import eventually_async

REPOSITORY = "pulls/large"
MEBIBYTES = 4


@dataclass(frozen=True)
class Pushed:
    """An image in the registry that the host does not have."""

    digest: str
    image_id: str


@pytest.fixture(scope="module")
def pushed(images: Images, registry: Registry, podman: IsolatedPodman) -> Pushed:
    """An image of some size."""
    local = images.large(MEBIBYTES)
    image_id = podman.cli("image", "inspect", "--format={{.Id}}", local)
    digest = images.push(local, registry.reference(REPOSITORY))
    images.forget(image_id)
    return Pushed(digest, image_id)


@pytest.fixture
def front(fault_registry: FaultRegistry, pushed: Pushed, images: Images) -> Iterator[FaultRegistry]:
    """A front of the registry; nothing pulled through it stays, by whatever name."""
    yield fault_registry
    fault_registry.recover()
    images.forget(pushed.image_id)


async def is_busy(front: FaultRegistry) -> bool:
    return front.in_flight(REPOSITORY) > 0


async def hangs(front: FaultRegistry) -> bool:
    """Whether a layer has been asked for, and is being sent."""
    return await is_busy(front) and len(front.requests(REPOSITORY, "blob")) > 1


async def is_idle(front: FaultRegistry) -> bool:
    return front.in_flight(REPOSITORY) == 0


async def test_a_pulled_image_is_local(engine: PodmanEngine, front: FaultRegistry, pushed: Pushed) -> None:
    """The answer tells which one, and it can be found by its name."""
    image = front.reference(REPOSITORY)
    assert not await engine.has_image(image)
    pulled = await pull(engine, image)
    assert pulled.digest == pushed.digest
    assert len(pulled.image_id) == 64
    assert await engine.has_image(image)


@pytest.mark.parametrize("form", ["{repository}@{digest}", "{repository}:1@{digest}"])
async def test_a_pull_by_digest(engine: PodmanEngine, front: FaultRegistry, pushed: Pushed, form: str) -> None:
    """With and without a tag beside it; both forms are found again afterwards."""
    image = form.format(repository=f"{front.address}/{REPOSITORY}", digest=pushed.digest)
    assert (await pull(engine, image)).digest == pushed.digest
    assert await engine.has_image(image)


async def test_bytes_are_told_on_the_way(engine: PodmanEngine, front: FaultRegistry) -> None:
    """A user sees how far it is."""
    front.sabotage(REPOSITORY, trickle(2 << 20))
    told: list[PullProgress] = []
    await engine.pull(front.reference(REPOSITORY), told.append)
    sizes = [progress for progress in told if progress.total_bytes]
    assert sizes
    assert all(progress.done_bytes <= progress.total_bytes for progress in sizes)
    assert sizes[-1].total_bytes >= MEBIBYTES << 20


async def test_a_slow_pull_succeeds_as_long_as_bytes_come(
    new_engine: Callable[..., PodmanEngine], front: FaultRegistry
) -> None:
    """L1: much longer than the window, at a rate well above the least."""
    front.sabotage(REPOSITORY, trickle(1 << 20))
    engine = new_engine(Patience(window=timedelta(seconds=2), bytes_per_second=100_000))
    try:
        await pull(engine, front.reference(REPOSITORY))
    finally:
        await engine.close()


async def test_a_trickle_is_cut_off(new_engine: Callable[..., PodmanEngine], front: FaultRegistry) -> None:
    """L1: bytes come, but fewer than the least."""
    front.sabotage(REPOSITORY, trickle(50_000))
    engine = new_engine(Patience(window=timedelta(seconds=3), bytes_per_second=200_000))
    try:
        fault = (await pull_fault(engine, front.reference(REPOSITORY))).fault
    finally:
        await engine.close()
    assert fault.kind is FaultKind.PULL_STALLED
    assert "no progress for 3 s" in fault.message


async def test_a_cancelled_pull_is_aborted_in_podman(engine: PodmanEngine, front: FaultRegistry) -> None:
    """S2: its connections to the registry close within a moment, and the image never appears."""
    image = front.reference(REPOSITORY)
    front.sabotage(REPOSITORY, half_a_blob())
    task = asyncio.create_task(engine.pull(image, ignore))
    await eventually_async(lambda: is_busy(front), within=5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually_async(lambda: is_idle(front), within=2)
    front.recover()
    front.forget_requests()
    await asyncio.sleep(0.5)
    assert front.requests(REPOSITORY) == []
    assert not await engine.has_image(image)


async def test_many_who_want_one_image_share_one_pull(engine: PodmanEngine, front: FaultRegistry) -> None:
    """L7: one on the wire; all get it, and all see its progress."""
    image = front.reference(REPOSITORY)
    told: dict[int, list[PullProgress]] = {number: [] for number in range(100)}
    pulled = await asyncio.gather(*(engine.pull(image, told[number].append) for number in told))
    assert len({one.image_id for one in pulled}) == 1
    gets = front.requests(REPOSITORY, "manifest", "GET")
    assert len(gets) == 1, gets
    assert all(told.values())


async def test_a_shared_pull_survives_until_the_last_one_leaves(engine: PodmanEngine, front: FaultRegistry) -> None:
    """Whoever leaves takes nobody else's pull away, the one who began it included."""
    image = front.reference(REPOSITORY)
    front.sabotage(REPOSITORY, trickle(3 << 20))
    first, second, third = (asyncio.create_task(engine.pull(image, ignore)) for _ in range(3))
    await eventually_async(lambda: is_busy(front), within=5)
    first.cancel()
    third.cancel()
    assert (await second).image_id
    assert [task.cancelled() for task in (first, third)] == [True, True]


async def test_a_new_pull_begins_while_the_old_one_is_called_off(engine: PodmanEngine, front: FaultRegistry) -> None:
    """Superseded and wanted again at once: the new one is not ended by the old one's end."""
    image = front.reference(REPOSITORY)
    front.sabotage(REPOSITORY, half_a_blob())
    old = asyncio.create_task(engine.pull(image, ignore))
    await eventually_async(lambda: hangs(front), within=5)
    front.heal(REPOSITORY)
    old.cancel()
    await asyncio.sleep(0)
    assert (await pull(engine, image)).image_id
    assert old.cancelled()


async def test_sharers_get_their_own_copy_of_a_fault(engine: PodmanEngine, front: FaultRegistry) -> None:
    """All are told, and no exception is shared between tasks."""
    front.refuse()
    image = f"{front.address}/Upper:1"
    raised = await asyncio.gather(*(engine.pull(image, ignore) for _ in range(3)), return_exceptions=True)
    assert len({id(one) for one in raised}) == 3
    assert len({str(one) for one in raised}) == 1


async def test_a_local_image_starts_while_its_registry_is_down(
    engine: PodmanEngine, front: FaultRegistry, workload: Workload
) -> None:
    """L6: the registry is asked for nothing."""
    image = front.reference(REPOSITORY)
    await pull(engine, image)
    front.refuse()
    workload.image = image
    spec = workload.spec(command=("sleep", "100"))
    await workload.ensure(spec)
    assert len(await workload.running()) == 1
    await workload.remove()


@pytest.fixture
def no_room(podman: IsolatedPodman) -> Iterator[Callable[[], None]]:
    """One megabyte for the copies of layers under way, until it is called."""
    folder = podman.service.home / "copies"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    with ExitStack() as mounted:
        mounted.callback(lambda: subprocess.run(["umount", "-l", folder], check=True))
        yield mounted.close


async def test_a_full_disk_heals_when_there_is_room(
    engine: PodmanEngine, front: FaultRegistry, no_room: Callable[[], None]
) -> None:
    """L5: a fault of its own, which no retry against the registry is to blame for."""
    image = front.reference(REPOSITORY)
    fault = (await pull_fault(engine, image)).fault
    assert (fault.kind, fault.fault_class) == (FaultKind.DISK_FULL, FaultClass.TRANSIENT)
    assert "no space left on device" in fault.message
    no_room()
    await pull(engine, image)


PASSWORD = "p^s s%41"


def log_in(folder: Path, address: str, password: str) -> None:
    """What ``podman login`` writes."""
    auth = b64encode(f"alice:{password}".encode()).decode()
    folder.mkdir(exist_ok=True)
    (folder / "auth.json").write_text(json.dumps({"auths": {address: {"auth": auth}}}))


async def test_credentials_are_those_of_the_hosts_login(
    tmp_path: Path, private_registry: Registry, images: Images, obedient: str
) -> None:
    """L4, U7: none is Unauthorized, wrong ones too, right ones work at the next try; no password is ever shown."""
    image = private_registry.reference("private/app")
    images.push(obedient, image, credentials=("alice", PASSWORD))
    login = tmp_path / "containers"
    with IsolatedPodman({"XDG_CONFIG_HOME": str(tmp_path)}) as podman:
        engine = PodmanEngine(podman.url, files_dir=tmp_path / "files")
        try:
            for password in (None, "wr^ng s%41"):
                if password is not None:
                    log_in(login, private_registry.address, password)
                raised = await pull_fault(engine, image)
                assert (raised.fault.kind, raised.fault.fault_class) == (FaultKind.UNAUTHORIZED, FaultClass.TRANSIENT)
                assert f"podman login {private_registry.address}" in raised.fault.hint
                shown = raised.fault.model_dump_json() + str(raised)
                for secret in ("wr^ng", quote("wr^ng s%41"), b64encode(b"alice:wr^ng s%41").decode()):
                    assert secret not in shown
            log_in(login, private_registry.address, PASSWORD)
            assert (await pull(engine, image)).image_id
        finally:
            await engine.close()


async def test_a_trusted_authority_heals_a_pull(
    engine: PodmanEngine, tls_registry: Registry, certificate: Certificate, images: Images, obedient: str
) -> None:
    """L4: as soon as the file is where the hint says, without a restart of anything."""
    image = tls_registry.reference("tls/app")
    images.push(obedient, image, ca=certificate.ca)
    assert (await pull_fault(engine, image)).fault.kind is FaultKind.TLS_NOT_TRUSTED
    folder = Path("/etc/containers/certs.d") / tls_registry.address
    folder.mkdir(parents=True)
    try:
        (folder / "ca.crt").write_bytes(certificate.ca.read_bytes())
        assert (await pull(engine, image)).image_id
    finally:
        (folder / "ca.crt").unlink(missing_ok=True)
        folder.rmdir()
