# SPDX-License-Identifier: Apache-2.0
"""One workload as the tests of the engine use it: unique in its fleet, so that tests do not see each other's containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest

from activities.engine import Engine, EngineFault, Managed, Ownership, Pulled, PullProgress
from activities.podman_engine import PodmanEngine
from perdure.model.faults import Fault
from perdure.model.observation import ContainerState, Live
from perdure.model.workload import ContainerSpec
from perdure.policy.identity import container_name

HOST = "edge-1"


@dataclass
class Workload:
    """A workload named ``web`` in a fleet of its own."""

    engine: Engine
    image: str
    fleet: str = field(default_factory=lambda: f"fleet-{uuid4().hex[:8]}")
    name: str = "web"
    incarnation: str = field(default_factory=lambda: uuid4().hex)
    fleet_id: str = "the-server"

    def spec(self, **options: Any) -> ContainerSpec:
        """A spec with this image and no network, for speed."""
        return ContainerSpec(**{"image": self.image, "networks": ("none",), **options})

    def owner(self, spec: ContainerSpec, generation: int = 1) -> Ownership:
        """What would stand in the labels."""
        return Ownership(
            fleet=self.fleet,
            host=HOST,
            workload=self.name,
            incarnation=self.incarnation,
            generation=generation,
            spec_hash=sha256(spec.model_dump_json().encode()).hexdigest()[:16],
            restart='{"restart":"always"}',
            manifest="shop",
            fleet_id=self.fleet_id,
        )

    def container_name(self, generation: int = 1) -> str:
        """The name that the container of a generation has."""
        return container_name(self.name, generation, self.incarnation)

    async def ensure(self, spec: ContainerSpec | None = None, generation: int = 1) -> Live:
        """Make a generation run."""
        spec = spec or self.spec()
        return await self.engine.ensure_running(self.name, spec, self.owner(spec, generation))

    async def ensure_fails(self, spec: ContainerSpec | None = None, generation: int = 1) -> Fault:
        """The fault of a generation that cannot run."""
        with pytest.raises(EngineFault) as raised:
            await self.ensure(spec, generation)
        return raised.value.fault

    async def remove(self, grace: timedelta = timedelta(0)) -> int:
        """Remove all of it."""
        return await self.engine.ensure_absent(self.fleet, HOST, self.name, grace, fleet_id=self.fleet_id)

    async def containers(self) -> list[Managed]:
        """All of its containers, and those of another server that has a workload of this name."""
        return await self.engine.list_managed(self.fleet, HOST, self.name)

    async def running(self) -> list[Managed]:
        """Those of its containers that run."""
        return [managed for managed in await self.containers() if managed.state is ContainerState.RUNNING]


def ignore(_: PullProgress) -> None:
    """For pulls whose progress is not looked at."""


async def pull_fault(engine: PodmanEngine, image: str) -> EngineFault:
    """The failure of a pull that must fail."""
    with pytest.raises(EngineFault) as raised:
        await engine.pull(image, ignore)
    return raised.value


async def pull(engine: PodmanEngine, image: str) -> Pulled:
    """A pull that must succeed."""
    return await engine.pull(image, ignore)
