# SPDX-License-Identifier: Apache-2.0
"""Servers in containers: images are built on the spot from this machine's own programs, and testcontainers starts them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy, PortWaitStrategy

from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.temporal import arguments, binary

REGISTRY_PORT = 5000
TEMPORAL_PORT = 7233
REGISTRY_CONFIG = {
    "version": 0.1,
    "log": {"level": "error"},
    "storage": {"filesystem": {"rootdirectory": "/tmp/data"}},
    "http": {"addr": f":{REGISTRY_PORT}", "relativeurls": True},
}


@pytest.fixture(scope="session")
def server_images() -> Iterator[Images]:
    """The images of a Podman for servers alone, which testcontainers speaks to; the one of workloads gets killed."""
    with IsolatedPodman() as podman, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", podman.url)
        patch.setattr(testcontainers_config, "ryuk_disabled", True)
        # Where this machine is itself a container, testcontainers would look for its gateway.
        patch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)
        yield Images(podman)


@pytest.fixture(scope="session")
def registry_in_container(server_images: Images) -> Iterator[str]:
    """The address of a registry that runs in a container."""
    program = Path(shutil.which("docker-registry") or "docker-registry")
    config = json.dumps(REGISTRY_CONFIG).encode()
    image = server_images.server(
        "registry:1", program, ["serve", "/config.yml"], port=REGISTRY_PORT, extra={"config.yml": config}
    )
    with running(image, HttpWaitStrategy(REGISTRY_PORT, "/v2/").for_status_code(200), REGISTRY_PORT) as port:
        yield f"localhost:{port}"


@pytest.fixture(scope="session")
def temporal_in_container(server_images: Images) -> Iterator[str]:
    """The address of a Temporal server that runs in a container."""
    command = [*arguments(Path("/tmp/state.db")), "--ip", "0.0.0.0", "--headless"]
    image = server_images.server("temporal:1", binary("temporal"), command, port=TEMPORAL_PORT, extra={})
    with running(image, PortWaitStrategy(TEMPORAL_PORT), TEMPORAL_PORT) as port:
        yield f"127.0.0.1:{port}"


@contextmanager
def running(image: str, ready: HttpWaitStrategy | PortWaitStrategy, port: int) -> Iterator[int]:
    """Run a container, and yield the port of this machine behind which it serves."""
    container = DockerContainer(image).with_exposed_ports(port).waiting_for(ready.with_startup_timeout(60))
    with container:
        yield container.get_exposed_port(port)
    container.get_docker_client().client.close()
