# SPDX-License-Identifier: Apache-2.0
"""The registries that other tests stand on: what they are told to do wrong, they do, and nothing else."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.conftest import USERS
from tests.support.certificates import Certificate
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
from tests.support.registry import Registry
from tests.support.waiting import eventually

REPOSITORY = "team/probe"
MANIFEST = f"/v2/{REPOSITORY}/manifests/1"
ACCEPT = {"Accept": "application/vnd.oci.image.manifest.v1+json"}


@pytest.fixture(scope="module")
def layer(registry: Registry, images: Images) -> str:
    """The path of the layer of an image that was pushed."""
    images.push(images.obedient(), registry.reference(REPOSITORY))
    manifest = httpx.get(f"http://{registry.address}{MANIFEST}", headers=ACCEPT).json()
    return f"/v2/{REPOSITORY}/blobs/{manifest['layers'][0]['digest']}"


@pytest.fixture
def client(fault_registry: FaultRegistry) -> Iterator[httpx.Client]:
    """Speaks to the front; gives up after half a second of silence."""
    with httpx.Client(base_url=f"http://{fault_registry.address}", timeout=0.5, headers=ACCEPT) as client:
        yield client


def test_without_trouble_it_is_the_registry_behind_it(
    fault_registry: FaultRegistry, client: httpx.Client, layer: str
) -> None:
    """Ping, manifest and blob come through, and are recorded."""
    assert client.get("/v2/").status_code == 200
    assert client.get(MANIFEST).json()["layers"][0]["digest"] in layer
    assert len(client.get(layer).content) > 100_000
    assert [request.stage for request in fault_registry.requests()] == ["ping", "manifest", "blob"]
    assert len(fault_registry.requests(REPOSITORY)) == 2
    fault_registry.forget_requests()
    assert fault_registry.requests() == []


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500, 502, 503, 504])
def test_errors_hit_their_stage_alone(
    fault_registry: FaultRegistry, client: httpx.Client, layer: str, code: int
) -> None:
    """A manifest that fails leaves pings, blobs and other repositories as they are."""
    fault_registry.sabotage(REPOSITORY, status(code, retry_after=7))
    failed = client.get(MANIFEST)
    assert failed.status_code == code
    assert failed.headers["Retry-After"] == "7"
    assert client.get(layer).status_code == 200
    assert client.get("/v2/other/manifests/1").status_code == 404
    fault_registry.heal(REPOSITORY)
    assert client.get(MANIFEST).status_code == 200


def test_an_error_can_end_by_itself(fault_registry: FaultRegistry, client: httpx.Client, layer: str) -> None:
    """For tests of a single try."""
    fault_registry.sabotage(REPOSITORY, status(503, times=2))
    assert [client.get(MANIFEST).status_code for _ in range(3)] == [503, 503, 200]


def test_a_failing_ping_fails_everything(fault_registry: FaultRegistry, client: httpx.Client, layer: str) -> None:
    """As a registry that is overloaded does."""
    fault_registry.fail_ping(503)
    assert [client.get(path).status_code for path in ("/v2/", MANIFEST, layer)] == [503, 503, 503]


@pytest.mark.parametrize("trouble", [hang("manifest"), hang("blob"), half_a_blob()], ids=["manifest", "blob", "half"])
def test_who_hangs_is_counted_and_let_go_by_recovery(
    fault_registry: FaultRegistry, layer: str, trouble: Sabotage
) -> None:
    """A hanging request is in flight until the trouble ends, and then breaks off."""
    fault_registry.sabotage(REPOSITORY, trouble)
    path = MANIFEST if trouble.stage == "manifest" else layer
    broken = threading.Event()

    def ask() -> None:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{fault_registry.address}{path}", headers=ACCEPT, timeout=30)
        broken.set()

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: fault_registry.in_flight(REPOSITORY) == 1, within=5)
    assert not broken.is_set()
    fault_registry.recover()
    asking.join(5)
    assert broken.is_set()
    eventually(lambda: fault_registry.in_flight(REPOSITORY) == 0, within=5)


def test_who_goes_away_no_longer_hangs(fault_registry: FaultRegistry, client: httpx.Client, layer: str) -> None:
    """So that tests can see that a pull was really cancelled."""
    fault_registry.sabotage(REPOSITORY, hang("blob"))
    with pytest.raises(httpx.ReadTimeout):
        client.get(layer)
    eventually(lambda: fault_registry.in_flight(REPOSITORY) == 0, within=5)


def test_a_trickle_is_as_slow_as_it_says(fault_registry: FaultRegistry, client: httpx.Client, layer: str) -> None:
    """Half a second of a slow layer brings half a second's bytes."""
    fault_registry.sabotage(REPOSITORY, trickle(100_000))
    started, received = time.monotonic(), 0
    with client.stream("GET", layer) as response:
        for chunk in response.iter_raw():
            received += len(chunk)
            if received >= 50_000:
                break
    assert time.monotonic() - started > 0.3


def test_spoilt_content(fault_registry: FaultRegistry, client: httpx.Client, layer: str) -> None:
    """Corrupt blobs keep their length, truncated ones break off, a bad manifest is not JSON."""
    good = client.get(layer).content
    fault_registry.sabotage(REPOSITORY, corrupt_blob())
    spoilt = client.get(layer).content
    assert (len(spoilt), spoilt == good) == (len(good), False)
    fault_registry.sabotage(REPOSITORY, truncated_blob())
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(layer)
    fault_registry.sabotage(REPOSITORY, bad_manifest())
    with pytest.raises(ValueError, match="property name"):
        client.get(MANIFEST).json()


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (FaultRegistry.refuse, httpx.ConnectError),
        (FaultRegistry.silence, httpx.ReadTimeout),
        (FaultRegistry.hang_up, httpx.RemoteProtocolError),
        (lambda front: front.hang_up(reset=True), httpx.ReadError),
    ],
    ids=["refused", "silent", "eof", "reset"],
)
def test_trouble_with_the_line(
    fault_registry: FaultRegistry,
    client: httpx.Client,
    layer: str,
    trouble: Callable[[FaultRegistry], None],
    error: type[httpx.HTTPError],
) -> None:
    """Each way of not answering, and back again, also for a connection that was open before."""
    assert client.get("/v2/").status_code == 200
    trouble(fault_registry)
    with pytest.raises(error):
        httpx.get(f"http://{fault_registry.address}/v2/", timeout=0.5)
    with pytest.raises(httpx.HTTPError):
        client.get("/v2/")
    fault_registry.recover()
    assert client.get("/v2/").status_code == 200


def test_a_certificate_that_only_the_tests_know(registry: Registry, certificate: Certificate) -> None:
    """Unknown to everybody, and good for who knows the authority."""
    with FaultRegistry(registry, certificate) as front:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"https://{front.address}/v2/")
        trusting = ssl.create_default_context(cafile=str(certificate.ca))
        assert httpx.get(f"https://{front.address}/v2/", verify=trusting).status_code == 200


def test_a_private_registry_wants_a_password(private_registry: Registry) -> None:
    """No name, a wrong password, the right one."""
    url = f"http://{private_registry.address}/v2/"
    name, password = next(iter(USERS.items()))
    answers = [httpx.get(url, auth=auth).status_code for auth in (None, (name, "wrong"), (name, password))]
    assert answers == [401, 401, 200]


def test_a_registry_comes_back_with_its_images_on_its_port(images: Images) -> None:
    """Killed and started again, and its requests still counted."""
    with Registry() as registry:
        images.push(images.obedient(), registry.reference("team/kept"))
        registry.restart()
        answer = httpx.get(f"http://{registry.address}/v2/team/kept/manifests/1", headers=ACCEPT)
        assert answer.status_code == 200
        assert len(registry.requests("team/kept", "GET")) == 1
        registry.stop()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://{registry.address}/v2/")
