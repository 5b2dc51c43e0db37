# SPDX-License-Identifier: Apache-2.0
"""What all tests share: real servers, each started when the first test asks for it, and all of them removed at the end.

``--temporal`` says which server the tests of workflows run on: ``time-skipping`` (the default), ``dev``, or the address of one
that runs already, as HOST:PORT.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.wire.converter import data_converter
from tests.support.certificates import Certificate, issue_certificate
from tests.support.fault_registry import FaultRegistry
from tests.support.images import Images
from tests.support.leftovers import sweep
from tests.support.podman import IsolatedPodman
from tests.support.registry import Registry
from tests.support.temporal import TemporalServer, time_skipping


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--temporal",
        default="time-skipping",
        metavar="dev|time-skipping|HOST:PORT",
        help="the server that workflow tests run on (default: %(default)s)",
    )


def pytest_sessionstart() -> None:
    # SIGTERM, too, lets pytest end its fixtures; what SIGKILL leaves is swept away by the next session.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sweep()


@pytest.fixture(scope="session")
def podman() -> Iterator[IsolatedPodman]:
    """The Podman of this session. Tests may kill it; it is started again for the next one."""
    with IsolatedPodman() as podman:
        yield podman


@pytest.fixture
def clean_podman(podman: IsolatedPodman) -> Iterator[IsolatedPodman]:
    """The session's Podman, running, and without containers before and after the test."""
    podman.start()
    podman.remove_containers()
    yield podman
    podman.start()
    podman.remove_containers()


@pytest.fixture(scope="session")
def images(podman: IsolatedPodman) -> Images:
    """Makes and pushes images."""
    return Images(podman)


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """A registry for everybody, without TLS, at localhost."""
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for the loopback address, by an authority that nobody trusts."""
    return issue_certificate(tmp_path_factory.mktemp("certificate"))


USERS = {"alice": "p^s s%41"}


@pytest.fixture(scope="session")
def private_registry() -> Iterator[Registry]:
    """A registry that wants a name and a password: alice, ``p^s s%41``."""
    with Registry(users=USERS) as registry:
        yield registry


@pytest.fixture(scope="session")
def tls_registry(certificate: Certificate) -> Iterator[Registry]:
    """A registry whose certificate nobody trusts, at 127.0.0.1."""
    with Registry(certificate=certificate) as registry:
        yield registry


@pytest.fixture
def fault_registry(registry: Registry) -> Iterator[FaultRegistry]:
    """A front of the registry that misbehaves on demand; a new one, on a new port, for each test."""
    with FaultRegistry(registry) as front:
        yield front


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[TemporalServer]:
    """The Temporal dev server of this session, with a file for its state. Tests that kill it start it again."""
    with TemporalServer() as server:
        yield server


@pytest.fixture
async def temporal(request: pytest.FixtureRequest) -> AsyncIterator[WorkflowEnvironment]:
    """Where workflow tests run: as ``--temporal`` says. A time-skipping server is a new one for each test."""
    choice: str = request.config.getoption("--temporal")
    if choice == "time-skipping":
        async with time_skipping() as environment:
            yield environment
        return
    if choice == "dev":
        server: TemporalServer = request.getfixturevalue("temporal_server")
        server.start()
        address = server.address
    else:
        address = choice
    yield WorkflowEnvironment.from_client(await Client.connect(address, data_converter=data_converter()))


@pytest.fixture
async def dev_client(temporal_server: TemporalServer) -> Client:
    """A client of the real dev server, whatever ``--temporal`` says."""
    temporal_server.start()
    return await temporal_server.connect()


@pytest.fixture(autouse=True)
def no_thread_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test ends the threads that it started: one that is left would disturb the next tests."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in left:
        thread.join(timeout=5)
    assert not [thread.name for thread in left if thread.is_alive()], "threads are left"
