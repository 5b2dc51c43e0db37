# SPDX-License-Identifier: Apache-2.0
"""Calls to Podman that never block the event loop, have a time limit, and fail in one of two ways.

Either Podman answered and said no (``Refused``), or nobody answered (EngineUnreachable). Short calls go through podman-py in
threads of our own. Calls that may last (a pull, a graceful stop, a followed log) go through httpx: a cancelled task then
closes the connection at once, and a waiting call holds no thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar

import httpx
import requests
import urllib3
from podman.errors import APIError

from activities.podman_transport import connect
from activities.translate import unreachable_fault
from perdure.model.faults import Phase
from perdure.policy.redact import redact

Json = dict[str, Any]
Answer = TypeVar("Answer")
Method = Literal["get", "post", "delete"]

THREADS: Final = 12
"""Threads for short calls; more than the start slots, so that a list never waits behind them."""
LIBPOD: Final = "http://podman/v4.0.0/libpod"
"""Podman takes any version in the path; this one has all that is used."""
COMPAT: Final = "http://podman/v1.41"
"""The endpoints that speak Docker's language."""


class Refused(Exception):
    """Podman answered, and said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class PodmanConnection:
    """The service behind a Unix socket.

    Args:
        url: ``unix:///run/podman/podman.sock``, or the path alone.
        timeout: of each short call.
    """

    def __init__(self, url: str, timeout: timedelta) -> None:
        self.socket = socket_path(url)
        self._timeout = timeout.total_seconds()
        self._client = connect(self.socket, timeout=self._timeout, connections=THREADS)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="podman")
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=self.socket, limits=httpx.Limits(max_connections=None)),
            timeout=httpx.Timeout(self._timeout),
        )

    async def call(
        self,
        method: Method,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        body: Json | None = None,
        phase: Phase,
        doing: str,
    ) -> Any:
        """One short call; returns its JSON, or None for an empty answer.

        Args:
            method: of HTTP.
            path: below ``/libpod``.
            parameters: of the query.
            body: sent as JSON.
            phase: for the fault.
            doing: what is done, in words, for the fault.

        Raises:
            Refused: Podman said no.
            EngineFault: EngineUnreachable.
        """

        def send() -> Any:
            more: Json = {}
            if body is not None:
                more = {"data": json.dumps(body), "headers": {"Content-Type": "application/json"}}
            answer = getattr(self._client.api, method)(path, params=parameters, **more)
            if answer.status_code >= 400:
                raise Refused(answer.status_code, refusal_text(answer.content))
            return json.loads(answer.content) if answer.content else None

        return await self._guarded(send, phase, doing)

    async def header(self, path: str, name: str, *, phase: Phase, doing: str) -> str:
        """One header of the answer to a GET, empty where it is not there."""

        def send() -> str:
            return str(self._client.api.get(path).headers.get(name) or "")

        return await self._guarded(send, phase, doing)

    async def post_long(
        self, path: str, parameters: Mapping[str, str], *, within: timedelta, phase: Phase, doing: str
    ) -> None:
        """A POST whose answer may take a while. The limit is part of what is asked, so overrunning it is a refusal.

        Raises:
            Refused: Podman said no, or nothing within the limit.
            EngineFault: EngineUnreachable.
        """
        patience = httpx.Timeout(self._timeout, read=within.total_seconds())
        try:
            answer = await self._http.post(f"{LIBPOD}{path}", params=dict(parameters), timeout=patience)
        except httpx.ReadTimeout:
            raise Refused(0, f"no answer within {within.total_seconds():g} s") from None
        except httpx.HTTPError as error:
            raise unreachable_fault(phase, doing, error, self.socket) from error
        if answer.is_error:
            raise Refused(answer.status_code, refusal_text(answer.content))

    @asynccontextmanager
    async def stream(
        self, method: Method, url: str, parameters: Mapping[str, str], *, phase: Phase, doing: str
    ) -> AsyncIterator[httpx.Response]:
        """An answer that is read while it comes. Silence is not bounded here: that is the reader's to judge.

        Raises:
            Refused: Podman said no at once.
            EngineFault: EngineUnreachable, also where the stream breaks off while it is read.
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

    async def _guarded(self, send: Callable[[], Answer], phase: Phase, doing: str) -> Answer:
        """Run a call in a thread, and turn what the transport raises into EngineUnreachable."""
        try:
            return await self._in_thread(send)
        except (APIError, requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise unreachable_fault(phase, doing, error, self.socket) from error

    async def _in_thread(self, send: Callable[[], Answer]) -> Answer:
        """Run a call in a thread. A cancelled caller waits for its end, so that nothing goes on behind its back."""
        running = self._threads.submit(send)
        awaited = asyncio.wrap_future(running)
        # Where the caller was cancelled nobody asks how it ended, and asyncio would log that as an error.
        awaited.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
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
    path = url.removeprefix("http+").removeprefix("unix://")
    if not path.startswith("/"):
        raise ValueError(f"{url!r} is not the address of a Podman socket: write unix:///run/podman/podman.sock")
    return path
