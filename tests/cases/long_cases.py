# SPDX-License-Identifier: Apache-2.0
"""Cases that take longer than a minute: they begin with the first case of all, and are looked at when the others are over.

They have a host of their own, so that their pulls take no slot of the others, and they wait with the patience of the product.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Self

from client.api import Wait
from tests.cases.case import Case
from tests.cases.stage import Host, Stage
from tests.cases.witness import Witness
from tests.support.certificates import Certificate
from tests.support.fault_registry import FaultRegistry
from tests.support.images import Images
from tests.support.registry import Registry
from tests.support.sabotage import trickle

HOST: Final = "edge-far"
WINDOW_SECONDS: Final = 60
"""The product's patience with a silent registry."""
HEALTHY_MEBIBYTES: Final = 6
SPEEDS: Final = {"healthy": 90_000, "trickle": 1 / 60}
"""Bytes in a second."""


class LongCases:
    """Slow pulls by name: ``silent``, ``handshake``, ``trickle`` and ``healthy``."""

    def __init__(self, stage: Stage, registry: Registry, certificate: Certificate, images: Images) -> None:
        self.host = Host(HOST, stage.temporal.address)
        (self.host.home / "perdure.toml").write_text("pullSlots = 8\n")
        self.witness = Witness(self.host.service)
        self.began_at = 0.0
        self._stage = stage
        self._images = images
        self._fronts = {name: FaultRegistry(registry) for name in ("silent", "trickle", "healthy")}
        self._fronts["handshake"] = FaultRegistry(registry, certificate)

    def __enter__(self) -> Self:
        self.host.__enter__()
        self.witness.__enter__()
        for front in self._fronts.values():
            front.accept()
        asyncio.run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        self.witness.__exit__()
        for front in self._fronts.values():
            front.close()
        self.host.__exit__()

    async def case(self, name: str) -> Case:
        """One of the cases, for the event loop of a test."""
        client = await self._stage.temporal.connect()
        case = Case(client, self.host, self.witness, self._fronts[name], self._images, mark=name)
        case.workload()
        return case

    async def _begin(self) -> None:
        for name, front in self._fronts.items():
            case = await self.case(name)
            image = await case.push(mebibytes=HEALTHY_MEBIBYTES if name == "healthy" else 0)
            if name in SPEEDS:
                front.sabotage(case.repository(), trickle(SPEEDS[name]))
            else:
                front.silence()
            await case.apply({case.workloads[0]: {"image": image}}, wait=Wait.NONE)
        self.began_at = time.monotonic()
