# SPDX-License-Identifier: Apache-2.0
"""One connection to Podman's API: calls that never block the event loop, have a time limit, and fail in one way.

Short calls go through podman-py in threads of our own. Calls that may last (a pull, a graceful stop, a followed log) go
through httpx, because a cancelled task then closes the connection at once, and a waiting call holds no thread.

podman-py's higher layers are left alone on purpose: they swallow errors of pulls, change the caller's arguments, ignore
fields silently and mangle filters. Its client gives the transport; what is sent and read is Podman's own JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import httpx
import requests
import urllib3
from podman.errors import APIError

from activities.engine import EngineFault
from activities.podman_transport import connect
from activities.translate import refusal_fault, unreachable_fault
from perdure.model.faults import Phase
from perdure.policy.redact import redact

Json = dict[str, Any]
Answer = TypeVar("Answer")
Method = Literal["get", "post", "delete"]

START_SLOTS: Final = 4
"""Creates and starts at once. On two cores four is the fastest: more only make each of them slower."""
THREADS: Final = 12
"""Threads for short calls; more than the start slots, so that a list never waits behind them."""
_HALF_REMOVED: Final = re.compile(r"container not known|getting container from store")
LIBPOD: Final = "http://podman/v4.0.0/libpod"


class Refused(Exception):
    """Podman answered, and said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class PodmanApi:
    """The API behind a Unix socket.

    Args:
        url: ``unix:///run/podman/podman.sock`` or the path alone.
        timeout: of each short call.
    """

    def __init__(self, url: str, timeout: timedelta) -> None:
        self.socket = socket_path(url)
        self._timeout = timeout.total_seconds()
        self._client = connect(self.socket, timeout=self._timeout, connections=THREADS)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="podman")
        self._slots = asyncio.Semaphore(START_SLOTS)
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=self.socket, limits=httpx.Limits(max_connections=None)),
            timeout=httpx.Timeout(self._timeout),
        )

    # ---- short calls ----

    async def containers(self, labels: Mapping[str, str], phase: Phase) -> list[Json]:
        """All containers with all these labels, running or not, in Podman's sparse form: one call, whatever their number."""
        wanted = {"label": [f"{name}={value}" for name, value in labels.items()]}
        parameters = {"all": "true", "filters": json.dumps(wanted)}
        return list(await self._ask("/containers/json", parameters, phase=phase, doing="list containers") or ())

    async def container(self, name_or_id: str, phase: Phase) -> Json | None:
        """Everything about a container, or None where there is none.

        Of one that a killed removal has left in Podman's database only, nothing can be told but that it is going.
        """
        doing = f"inspect container {name_or_id}"
        try:
            return dict(await self._call("get", f"/containers/{_part(name_or_id)}/json", phase=phase, doing=doing))
        except Refused as refused:
            if refused.status == 404:
                return None
            if _HALF_REMOVED.search(refused.text):
                return {"Id": name_or_id, "State": {"Status": "removing"}, "Config": {}, "HostConfig": {}}
            raise refusal_fault(phase, doing, refused.text) from refused

    async def image(self, name: str, phase: Phase) -> Json | None:
        """Everything about a local image, or None where it is not there."""
        return await self._find(f"/images/{_part(name)}/json", phase=phase, doing=f"inspect image {name}")

    async def index(self, image: str) -> list[Json]:
        """The entries of an image index in its registry; none where it is no index, or cannot be asked for."""
        try:
            found = await self._find(f"/manifests/{_part(image)}/json", phase=Phase.PULL, doing=f"read index {image}")
        except EngineFault:
            return []
        return list((found or {}).get("manifests") or ())

    async def create(self, spec: Json, phase: Phase) -> str:
        """Make a container and return its id. Raises Refused where Podman says no."""
        doing = f"create container {spec['name']}"
        async with self._slots:
            answer = await self._call("post", "/containers/create", body=spec, phase=phase, doing=doing)
        return str(answer["Id"])

    async def start(self, container: str, phase: Phase) -> None:
        """Start a container; one that runs stays as it is. Raises Refused where Podman says no."""
        path = f"/containers/{container}/start"
        async with self._slots:
            await self._call("post", path, phase=phase, doing=f"start container {container}")

    async def post(self, container: str, verb: str, phase: Phase, **parameters: str) -> None:
        """Another short call on a container: ``kill``, ``unpause``. Raises Refused where Podman says no."""
        path = f"/containers/{container}/{verb}"
        await self._call("post", path, parameters, phase=phase, doing=f"{verb} container {container}")

    async def remove(self, name_or_id: str, phase: Phase) -> None:
        """Remove a container at once, or a name that a crash left in the storage. Absence is success.

        Raises:
            Refused: where Podman says no.
        """
        path = f"/containers/{_part(name_or_id)}"
        try:
            await self._call(
                "delete",
                path,
                {"force": "true", "timeout": "0"},
                phase=phase,
                doing=f"remove container {name_or_id}",
            )
        except Refused as refused:
            if refused.status != 404:
                raise

    async def ping(self, phase: Phase) -> str:
        """The version of the engine. Asking for ``/version`` would start three programs, and take half a second of a core."""

        def call() -> str:
            answer = self._client.api.get("/_ping")
            return str(answer.headers.get("Libpod-API-Version") or "unknown")

        return await self._guarded(call, phase, "ask for the version")

    async def volumes(self, labels: Mapping[str, str], phase: Phase) -> list[Json]:
        """All volumes with all these labels."""
        wanted = {"label": [f"{name}={value}" for name, value in labels.items()]}
        parameters = {"filters": json.dumps(wanted)}
        return list(await self._ask("/volumes/json", parameters, phase=phase, doing="list volumes") or ())

    async def volume(self, name: str, phase: Phase) -> Json | None:
        """Everything about a volume, or None where there is none."""
        return await self._find(f"/volumes/{_part(name)}/json", phase=phase, doing=f"inspect volume {name}")

    async def create_volume(self, name: str, labels: Mapping[str, str], phase: Phase) -> None:
        """Make a named volume. Raises Refused where Podman says no, also where it is there already."""
        body = {"Name": name, "Labels": dict(labels)}
        await self._call("post", "/volumes/create", body=body, phase=phase, doing=f"create volume {name}")

    async def remove_volume(self, name: str, phase: Phase) -> None:
        """Remove a volume. Raises Refused where it is in use."""
        await self._call("delete", f"/volumes/{_part(name)}", phase=phase, doing=f"remove volume {name}")

    # ---- calls that may last ----

    async def stop(self, container: str, grace: timedelta, margin: timedelta, phase: Phase) -> None:
        """Ask a container to end, and wait until it has, by force after ``grace``. Not running is success.

        Raises:
            Refused: where Podman says no, or needs longer than grace and margin.
        """
        seconds = max(0, round(grace.total_seconds()))
        patience = httpx.Timeout(self._timeout, read=seconds + margin.total_seconds())
        doing = f"stop container {container}"
        try:
            answer = await self._http.post(
                f"{LIBPOD}/containers/{container}/stop", params={"timeout": seconds}, timeout=patience
            )
        except httpx.ReadTimeout:
            raise Refused(0, f"no answer within {seconds + margin.total_seconds():g} s") from None
        except httpx.HTTPError as error:
            raise unreachable_fault(phase, doing, error, self.socket) from error
        if answer.is_error and answer.status_code != 404:
            raise Refused(answer.status_code, refusal_text(answer.content))

    @asynccontextmanager
    async def stream(
        self, method: Method, url: str, parameters: Mapping[str, str], phase: Phase, doing: str
    ) -> AsyncIterator[httpx.Response]:
        """An answer that is read while it comes. Silence is not bounded here: that is the reader's to judge.

        Raises:
            EngineFault: EngineUnreachable, also where the stream breaks off while it is read.
            Refused: where Podman says no at once.
        """
        try:
            patience = httpx.Timeout(self._timeout, read=None)
            async with self._http.stream(method, url, params=dict(parameters), timeout=patience) as answer:
                if answer.is_error:
                    raise Refused(answer.status_code, refusal_text(await answer.aread()))
                yield answer
        except httpx.HTTPError as error:
            raise unreachable_fault(phase, doing, error, self.socket) from error

    async def close(self) -> None:
        """Let go of connections and threads."""
        await self._http.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    # ---- how ----

    async def _find(self, path: str, *, phase: Phase, doing: str) -> Json | None:
        try:
            return dict(await self._call("get", path, phase=phase, doing=doing))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise refusal_fault(phase, doing, refused.text) from refused

    async def _ask(self, path: str, parameters: Mapping[str, str] | None, *, phase: Phase, doing: str) -> Any:
        try:
            return await self._call("get", path, parameters, phase=phase, doing=doing)
        except Refused as refused:
            raise refusal_fault(phase, doing, refused.text) from refused

    async def _call(
        self,
        method: Method,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        body: Json | None = None,
        phase: Phase,
        doing: str,
    ) -> Any:
        def call() -> Any:
            send = getattr(self._client.api, method)
            more: Json = {}
            if body is not None:
                more = {"data": json.dumps(body), "headers": {"Content-Type": "application/json"}}
            answer = send(path, params=parameters, **more)
            if answer.status_code >= 400:
                raise Refused(answer.status_code, refusal_text(answer.content))
            return json.loads(answer.content) if answer.content else None

        return await self._guarded(call, phase, doing)

    async def _guarded(self, call: Callable[[], Answer], phase: Phase, doing: str) -> Answer:
        """Run a call in a thread, and turn what the transport raises into EngineUnreachable."""
        try:
            return await self._in_thread(call)
        except (APIError, requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise unreachable_fault(phase, doing, error, self.socket) from error

    async def _in_thread(self, call: Callable[[], Answer]) -> Answer:
        """Run a call in a thread. A cancelled caller waits for its end, so that nothing goes on behind its back."""
        running = self._threads.submit(call)
        awaited = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(awaited)
        except asyncio.CancelledError:
            if not running.cancel():
                await asyncio.wait([awaited])
            raise


def refusal_text(body: bytes) -> str:
    """The message of a refusal, or whatever was sent instead of one.

    Without secrets, since an exception's text goes with its traceback into logs and failures.
    """
    try:
        said = json.loads(body)
    except ValueError:
        said = body.decode(errors="replace").strip() or "no reason given"
    return redact(str((said.get("message") or said.get("cause") or said) if isinstance(said, dict) else said))


def socket_path(url: str) -> str:
    """The path of the socket that a URL names.

    Raises:
        ValueError: for a URL that names none.
    """
    for scheme in ("http+unix://", "unix://"):
        if url.startswith(scheme):
            url = url.removeprefix(scheme)
            break
    if not url.startswith("/"):
        raise ValueError(f"{url!r} is not the address of a Podman socket: write unix:///run/podman/podman.sock")
    return url


def _part(text: str) -> str:
    """A name as one part of a path; image names keep their slashes, as Podman expects."""
    return quote(text, safe="/:@")
