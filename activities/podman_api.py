# SPDX-License-Identifier: Apache-2.0
"""The part of Podman's API that is used, in Podman's own JSON.

podman-py's higher layers are left alone on purpose: they swallow errors of pulls, change the caller's arguments, ignore
fields silently and mangle filters. Its client gives the transport.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from activities.engine import EngineFault
from activities.podman_connection import LIBPOD, Json, PodmanConnection, Refused
from activities.translate import refusal_fault
from perdure.model.faults import Phase

_HALF_REMOVED: Final = re.compile(r"container not known|getting container from store")


class PodmanApi:
    """Containers, images and volumes of one Podman.

    What only looks raises EngineFault alone. What changes something raises ``Refused`` where Podman says no, as what that
    means depends on what is tried; and EngineFault where Podman does not answer.

    Args:
        connection: to Podman.
        start_slots: creates and starts at once; the others wait.
    """

    def __init__(self, connection: PodmanConnection, start_slots: int) -> None:
        self._connection = connection
        self._slots = asyncio.Semaphore(start_slots)

    # ---- looking ----

    async def containers(self, labels: Mapping[str, str], phase: Phase) -> list[Json]:
        """All containers with all these labels, running or not, in Podman's sparse form: one call, whatever their number."""
        parameters = {"all": "true", "filters": _label_filter(labels)}
        return list(await self._look("/containers/json", "list containers", phase, parameters) or ())

    async def container(self, name_or_id: str, phase: Phase) -> Json | None:
        """Everything about a container, or None where there is none.

        Of one that a killed removal has left in Podman's database only, nothing can be told but that it is going.
        """
        doing = f"inspect container {name_or_id}"
        try:
            return await self._find(f"/containers/{_part(name_or_id)}/json", doing, phase)
        except EngineFault as raised:
            if _HALF_REMOVED.search(raised.fault.message):
                return {"Id": name_or_id, "State": {"Status": "removing"}, "Config": {}, "HostConfig": {}}
            raise

    async def image(self, name: str, phase: Phase) -> Json | None:
        """Everything about a local image, or None where it is not there."""
        return await self._find(f"/images/{_part(name)}/json", f"inspect image {name}", phase)

    async def index(self, image: str) -> list[Json]:
        """The entries of an image index in its registry; none where it is no index, or cannot be asked for."""
        try:
            found = await self._find(f"/manifests/{_part(image)}/json", f"read index {image}", Phase.PULL)
        except EngineFault:
            return []
        return list((found or {}).get("manifests") or ())

    async def volumes(self, labels: Mapping[str, str], phase: Phase) -> list[Json]:
        """All volumes with all these labels."""
        parameters = {"filters": _label_filter(labels)}
        return list(await self._look("/volumes/json", "list volumes", phase, parameters) or ())

    async def volume(self, name: str, phase: Phase) -> Json | None:
        """Everything about a volume, or None where there is none."""
        return await self._find(f"/volumes/{_part(name)}/json", f"inspect volume {name}", phase)

    async def version(self, phase: Phase) -> str:
        """The version of the engine. Asking ``/version`` for it would start three programs, and take half a second."""
        doing = "ask for the version"
        return await self._connection.header("/_ping", "Libpod-API-Version", phase=phase, doing=doing) or "unknown"

    # ---- changing ----

    async def create(self, spec: Json, phase: Phase) -> str:
        """Make a container and return its id."""
        doing = f"create container {spec['name']}"
        async with self._slots:
            answer = await self._connection.call("post", "/containers/create", body=spec, phase=phase, doing=doing)
        return str(answer["Id"])

    async def start(self, container_id: str, phase: Phase) -> None:
        """Start a container; one that runs stays as it is."""
        doing = f"start container {container_id}"
        async with self._slots:
            await self._connection.call("post", f"/containers/{container_id}/start", phase=phase, doing=doing)

    async def unpause(self, container_id: str, phase: Phase) -> None:
        """Let a paused container go on."""
        doing = f"unpause container {container_id}"
        await self._connection.call("post", f"/containers/{container_id}/unpause", phase=phase, doing=doing)

    async def stop(self, container_id: str, grace: timedelta, margin: timedelta, phase: Phase) -> None:
        """Ask a container to end, and wait until it has, by force after ``grace``. Not running is success.

        A Podman that needs longer than grace and margin counts as one that refused.
        """
        seconds = max(0, round(grace.total_seconds()))
        try:
            await self._connection.post_long(
                f"/containers/{container_id}/stop",
                {"timeout": str(seconds)},
                within=timedelta(seconds=seconds) + margin,
                phase=phase,
                doing=f"stop container {container_id}",
            )
        except Refused as refused:
            if refused.status != 404:
                raise

    async def check_health(self, container_id: str, phase: Phase) -> bool:
        """Run the container's healthcheck, and wait for it however long it takes; whether this one run was well."""
        doing = f"run the healthcheck of container {container_id}"
        url = f"{LIBPOD}/containers/{container_id}/healthcheck"
        async with self._connection.stream("get", url, {}, phase=phase, doing=doing) as answer:
            return str(json.loads(await answer.aread()).get("Status")) == "healthy"

    async def remove(self, name_or_id: str, phase: Phase) -> None:
        """Remove a container at once, or a name that a crash left in the storage. Absence is success."""
        path, doing = f"/containers/{_part(name_or_id)}", f"remove container {name_or_id}"
        parameters = {"force": "true", "timeout": "0"}
        try:
            answer = await self._connection.call("delete", path, parameters, phase=phase, doing=doing)
        except Refused as refused:
            if refused.status != 404:
                raise
            return
        # Success may be a list of failures.
        for entry in answer if isinstance(answer, list) else ():
            if failure := entry.get("Err"):
                raise Refused(500, str(failure))

    async def create_volume(self, name: str, labels: Mapping[str, str], phase: Phase) -> None:
        """Make a named volume; one that is there already is a refusal."""
        body = {"Name": name, "Labels": dict(labels)}
        await self._connection.call("post", "/volumes/create", body=body, phase=phase, doing=f"create volume {name}")

    async def remove_volume(self, name: str, phase: Phase) -> None:
        """Remove a volume; one that is in use is a refusal."""
        await self._connection.call("delete", f"/volumes/{_part(name)}", phase=phase, doing=f"remove volume {name}")

    # ---- how ----

    async def _look(self, path: str, doing: str, phase: Phase, parameters: Mapping[str, str]) -> Any:
        try:
            return await self._connection.call("get", path, parameters, phase=phase, doing=doing)
        except Refused as refused:
            raise refusal_fault(phase, doing, refused.text) from refused

    async def _find(self, path: str, doing: str, phase: Phase) -> Json | None:
        try:
            return dict(await self._connection.call("get", path, phase=phase, doing=doing))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise refusal_fault(phase, doing, refused.text) from refused


def _label_filter(labels: Mapping[str, str]) -> str:
    return json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]})


def _part(text: str) -> str:
    """A name as one part of a path; image names keep their slashes, as Podman expects."""
    return quote(text, safe="/:@")
