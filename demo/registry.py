# SPDX-License-Identifier: Apache-2.0
"""A real registry that can be taken away and brought back, on the same port and with the same content."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from perdure.runtime.processes import PidFile, start_detached

ANSWER_SECONDS = 10.0


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Registry:
    """One ``docker-registry`` process, its configuration and its content in one folder."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        """As it stands before the slash in the name of an image."""
        return f"localhost:{self.port}"

    @property
    def is_answering(self) -> bool:
        """Whether it serves now."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/v2/", timeout=2, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            TimeoutError: it does not; the message names the log.
        """
        content = self.folder / "content"
        content.mkdir(parents=True, exist_ok=True)
        settings = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(content)}},
            "http": {"addr": f"127.0.0.1:{self.port}"},
        }
        path = self.folder / "registry.yml"
        path.write_text(json.dumps(settings))  # JSON is YAML, and is never misread
        log = self.folder / "registry.log"
        start_detached(
            ["docker-registry", "serve", str(path)],
            pid_file=self._pid_file,
            log=log,
            environment=os.environ,
        )
        deadline = time.monotonic() + ANSWER_SECONDS
        while not self.is_answering:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the registry does not answer on {self.address}: see {log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it. Nothing happens where it does not run."""
        if process := self._pid_file.running():
            asyncio.run(process.stop(grace_seconds=5))
        self._pid_file.remove()

    @property
    def _pid_file(self) -> PidFile:
        return PidFile(self.folder / "registry.pid")
