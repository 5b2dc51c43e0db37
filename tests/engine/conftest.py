# SPDX-License-Identifier: Apache-2.0
"""The engine under test, on the session's private Podman, with deadlines short enough for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from activities.podman_engine import PodmanEngine
from perdure.policy.progress import Patience
from tests.engine.workload import Workload
from tests.support.images import Images
from tests.support.podman import IsolatedPodman

SHORT = Patience(window=timedelta(seconds=2), unpacking=timedelta(seconds=20))
LONG = Patience(window=timedelta(seconds=20))
"""Podman itself tries a refused connection for three seconds, and a busy machine needs longer for everything."""


@pytest.fixture
def new_engine(podman: IsolatedPodman, files_dir: Path) -> Callable[..., PodmanEngine]:
    """Engines on the session's Podman, each as of a worker of its own; the caller closes them."""

    def make(patience: Patience = LONG) -> PodmanEngine:
        return PodmanEngine(podman.url, files_dir=files_dir, patience=patience, call_timeout=timedelta(seconds=30))

    return make


@pytest.fixture
async def engine(podman: IsolatedPodman, new_engine: Callable[..., PodmanEngine]) -> AsyncIterator[PodmanEngine]:
    """Podman as the worker sees it."""
    podman.start()
    engine = new_engine()
    yield engine
    await engine.close()


@pytest.fixture
async def impatient_engine(
    podman: IsolatedPodman, new_engine: Callable[..., PodmanEngine]
) -> AsyncIterator[PodmanEngine]:
    """The same with little patience for pulls, for those that should be cut off."""
    podman.start()
    engine = new_engine(SHORT)
    yield engine
    await engine.close()


@pytest.fixture(scope="session")
def obedient(images: Images) -> str:
    """An image that runs until it is asked to end."""
    return images.obedient()


@pytest.fixture(scope="session")
def stubborn(images: Images) -> str:
    """An image that ignores SIGTERM."""
    return images.stubborn()


@pytest.fixture
async def workload(engine: PodmanEngine, obedient: str, podman: IsolatedPodman) -> AsyncIterator[Workload]:
    """A workload that is removed at the end, whatever the test did to it."""
    workload = Workload(engine, obedient)
    yield workload
    podman.start()
    await workload.remove()


@pytest.fixture
def files_dir(tmp_path: Path) -> Path:
    """Where the engine writes the files of manifests."""
    return tmp_path / "files"
