# SPDX-License-Identifier: Apache-2.0
"""The parts of all cases, started once, and the promises that every case is watched for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.cases import secret
from tests.cases.case import Case
from tests.cases.long_cases import LongCases
from tests.cases.stage import Stage
from tests.cases.witness import Witness
from tests.support.certificates import Certificate
from tests.support.fault_registry import FaultRegistry
from tests.support.images import Images
from tests.support.registry import Registry


@pytest.fixture(scope="package")
def private() -> Iterator[Registry]:
    """A registry that wants the password which must not come to light."""
    with Registry(users={secret.USER: secret.PASSWORD}) as registry:
        yield registry


@pytest.fixture(scope="package")
def private_image(private: Registry, images: Images) -> str:
    """An image in the private registry. Pushed before any witness looks: ``podman push`` takes the password as an argument."""
    reference = private.reference("team/app")
    images.push(images.obedient(), reference, credentials=(secret.USER, secret.PASSWORD))
    return reference


@pytest.fixture(scope="package")
def stage(private: Registry, private_image: str) -> Iterator[Stage]:
    """A fleet of one host, whose user is logged in at the private registry."""
    with Stage() as stage:
        secret.log_in(stage.host.configuration, private.address)
        yield stage


@pytest.fixture(scope="package")
def removed() -> Iterator[list[tuple[FaultRegistry, float]]]:
    """The fronts of cases that are over. They go on listening until the last case is over: nobody may come back."""
    fronts: list[tuple[FaultRegistry, float]] = []
    yield fronts
    late = [request for front, removed_at in fronts for request in front.requests() if request.at > removed_at]
    for front, _ in fronts:
        front.close()
    assert late == [], "a registry was asked after everything was removed"


@pytest.fixture(scope="package")
def long_cases(stage: Stage, registry: Registry, certificate: Certificate, images: Images) -> Iterator[LongCases]:
    """The cases that take longer than a minute, under way."""
    with LongCases(stage, registry, certificate, images) as cases:
        yield cases


@pytest.fixture(scope="package", autouse=True)
def overture(request: pytest.FixtureRequest) -> None:
    """Begin the long cases before the others, where one of them is wanted at all."""
    if any("long_cases" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("long_cases")


@pytest.fixture
async def case(
    stage: Stage, images: Images, registry: Registry, removed: list[tuple[FaultRegistry, float]]
) -> AsyncIterator[Case]:
    """One case on the stage. At its end all is removed, and every promise was kept."""
    client = await stage.temporal.connect()
    front = FaultRegistry(registry)
    front.accept()
    with Witness(stage.host.service) as witness:
        case = Case(client, stage.host, witness, front, images)
        yield case
        removed.append((front, await case.end()))
    assert await case.broken_promises() == []
    assert witness.looks > 0


@pytest.fixture(scope="package")
def sleeper(stage: Stage) -> str:
    """An image that the host has: it sleeps, and ends at once when it is asked to."""
    return stage.host.images.obedient()


@pytest.fixture(scope="package")
def stubborn(stage: Stage) -> str:
    """An image that the host has: it ignores SIGTERM."""
    return stage.host.images.stubborn()
