# SPDX-License-Identifier: Apache-2.0
"""Removing what a stack leaves: the containers of its workloads, and its state. Only after all its workers have ended.

The ordinary way to remove a workload is its workflow. This one asks Podman directly, because nothing is left that could do it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

from perdure.runtime.problems import StackProblem
from perdure.runtime.settings import FILE_NAME

REMOVALS_AT_ONCE: Final = 4
TIMEOUT_SECONDS: Final = 60.0


async def remove_containers(podman_url: str, fleet: str, host: str, fleet_id: str | None) -> int:
    """Stop and remove the containers of a fleet on a host. Returns how many there were.

    Args:
        podman_url: of the Podman that has them.
        fleet: by its name.
        host: likewise.
        fleet_id: of its very server, so that those of another one with a fleet of this name stay; None where it is not known.

    Raises:
        StackProblem: Podman does not answer, or refuses.
    """
    labels = [f"dev.perdure.fleet={fleet}", f"dev.perdure.host={host}"]
    if fleet_id is not None:
        labels.append(f"dev.perdure.fleet-id={fleet_id}")
    transport = httpx.AsyncHTTPTransport(uds=podman_url.removeprefix("unix://"))
    slots = asyncio.Semaphore(REMOVALS_AT_ONCE)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://podman/v4.0.0/libpod", timeout=TIMEOUT_SECONDS
    ) as podman:

        async def remove(container: str) -> None:
            async with slots:
                answer = await podman.delete(f"/containers/{container}", params={"force": "true", "v": "true"})
                if answer.status_code != httpx.codes.NOT_FOUND:
                    answer.raise_for_status()

        try:
            filters = json.dumps({"label": labels})
            listed = await podman.get("/containers/json", params={"all": "true", "filters": filters})
            listed.raise_for_status()
            found = [item["Id"] for item in listed.json()]
            await asyncio.gather(*(remove(container) for container in found))
        except httpx.HTTPError as error:
            raise StackProblem(
                f"the containers of host {host} cannot be removed by Podman at {podman_url}: {error}",
                "Start Podman and repeat `perdure down --purge`; nothing else was removed.",
            ) from error
    return len(found)


def remove_state(home: Path) -> None:
    """Remove everything in the home but the user's own settings."""
    for path in home.iterdir() if home.is_dir() else ():
        if path.name == FILE_NAME:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if home.is_dir() and not any(home.iterdir()):
        with suppress(PermissionError):  # the folder that it is in is not ours: then it stays, empty
            home.rmdir()
