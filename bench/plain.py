# SPDX-License-Identifier: Apache-2.0
"""Plain Podman: the two REST calls that nothing can be faster than."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import httpx

from bench.stamps import MOUNT, SCRIPT, Stamps

API = "http://podman/v4.0.0/libpod/containers"


class PlainPodman:
    """Creates and starts containers of the benchmark through Podman's own API."""

    def __init__(self, socket: Path, image: str, stamps: Stamps) -> None:
        self._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=60, trust_env=False)
        self._image = image
        self._stamps = stamps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, name: str, *, restart: bool = False) -> None:
        """Create and start one container, with what a workload of the benchmark has."""
        specification = {
            "name": name,
            "image": self._image,
            "command": ["sh", "-c", SCRIPT],
            "env": {"NAME": name},
            "mounts": [
                {"type": "bind", "source": str(self._stamps.folder), "destination": MOUNT, "options": ["rbind"]}
            ],
            "netns": {"nsmode": "host"},
            "restart_policy": "always" if restart else "no",
        }
        self._client.post(f"{API}/create", json=specification).raise_for_status()
        self._client.post(f"{API}/{name}/start").raise_for_status()

    def run_all(self, names: list[str], threads: int) -> None:
        """Create and start many, so many at once."""
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(self.run, name) for name in names]:
                done.result()

    def pid(self, name: str) -> int:
        """The main process of a container."""
        return int(self._client.get(f"{API}/{name}/json").raise_for_status().json()["State"]["Pid"])

    def remove(self, name: str) -> None:
        """Remove it at once."""
        self._client.delete(f"{API}/{name}", params={"force": True, "timeout": 0}).raise_for_status()
