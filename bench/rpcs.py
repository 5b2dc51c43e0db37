# SPDX-License-Identifier: Apache-2.0
"""How many requests Temporal and Podman were sent, by kind: the server's own metrics, and Podman's own log of accesses."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Final

import httpx

from bench.stage import Stage

_ADDRESS: Final = re.compile(r"Temporal Metrics:\s+(http://\S+)")
_REQUESTS: Final = re.compile(
    r'^service_requests\{(?=[^}]*service_name="frontend")[^}]*operation="(\w+)"[^}]*\} (\S+)$', re.MULTILINE
)
_ACCESS: Final = re.compile(r'"(GET|POST|DELETE) (?:/v[\d.]+)?(?:/libpod)?(/\S*?)(?:\?\S*)? HTTP')
_HASH: Final = re.compile(r"/[0-9a-f]{64}")


PUBLISHED_SECONDS: Final = 2.0
"""The server puts its counters up once a second."""


class Requests:
    """Counts of one stack."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def so_far(self) -> Counter[str]:
        """All that ended until now."""
        await asyncio.sleep(PUBLISHED_SECONDS)
        return self._temporal() + self._podman()

    def _temporal(self) -> Counter[str]:
        """Since the server was started."""
        log = (self._stage.home / "logs" / "temporal.log").read_text(errors="replace")
        address = _ADDRESS.findall(log)[-1]
        answer = httpx.get(address, timeout=10, trust_env=False).raise_for_status().text
        counts: Counter[str] = Counter()
        for operation, count in _REQUESTS.findall(answer):
            counts[f"Temporal {operation}"] += round(float(count))
        return counts

    def _podman(self) -> Counter[str]:
        """Since the folder was made."""
        log = self._stage.podman.log.read_text(errors="replace")
        return Counter(f"Podman {verb} {_HASH.sub('/ID', path)}" for verb, path in _ACCESS.findall(log))
