# SPDX-License-Identifier: Apache-2.0
"""A registry that misbehaves on demand, in front of a real one.

Trouble with one repository (its manifests or its blobs) is set with ``sabotage``; trouble with the whole registry (its
``/v2/`` answer, its connections, its port) with ``fail_ping``, ``refuse``, ``hang_up``, ``silence``. Both can be
switched at any time; ``recover`` ends all of it, and whoever hangs is let go. Every request is recorded with its time.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Final, Self

from tests.support.certificates import Certificate
from tests.support.ports import free_port
from tests.support.registry import Registry
from tests.support.sabotage import (
    Sabotage,
    Stage,
    Trouble,
    bad_manifest,
    corrupt_blob,
    half_a_blob,
    hang,
    status,
    trickle,
    truncated_blob,
)

__all__ = [
    "FaultRegistry",
    "Request",
    "Sabotage",
    "bad_manifest",
    "corrupt_blob",
    "half_a_blob",
    "hang",
    "status",
    "trickle",
    "truncated_blob",
]

SMALL_BLOB_BYTES: Final = 5000
"""Blobs up to this size, that is image configurations, stay intact: spoiling them gives other errors than layers do."""
TLS_HANDSHAKE: Final = b"\x16"
ERROR_CODES: Final = {401: "UNAUTHORIZED", 403: "DENIED", 404: "MANIFEST_UNKNOWN", 429: "TOOMANYREQUESTS"}


class Line(StrEnum):
    """How connections are treated."""

    OPEN = "open"
    SILENT = "silent"
    EOF = "eof"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in."""

    at: float
    """Seconds since the epoch."""
    method: str
    stage: Stage
    repository: str
    """Empty for a ping."""
    reference: str
    """Tag or digest."""


class FaultRegistry:
    """A front for a registry, on a port of its own.

    Args:
        upstream: the registry that has the images; asked on each request, so it may be down meanwhile.
        certificate: speak TLS with this certificate, at 127.0.0.1, where the Podman of tests wants it to be trusted.
    """

    def __init__(self, upstream: Registry, certificate: Certificate | None = None) -> None:
        self.upstream = upstream
        self.port = free_port()
        self.address = f"{'127.0.0.1' if certificate else 'localhost'}:{self.port}"
        self._tls = _tls_context(certificate) if certificate else None
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._line = Line.OPEN
        self._troubles: dict[str, Sabotage] = {}
        self._requests: list[Request] = []
        self._busy: dict[str, int] = {}
        self._connections: set[socket.socket] = set()
        self._recovered = threading.Event()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what tests do ----

    def reference(self, repository: str, tag: str = "1") -> str:
        """How an image is called behind this front."""
        return f"{self.address}/{repository}:{tag}"

    def sabotage(self, repository: str, sabotage: Sabotage) -> None:
        """From now on make this trouble with requests for a repository. Requests in flight keep what they met."""
        with self._lock:
            self._troubles[repository] = sabotage

    def heal(self, repository: str) -> None:
        """End the trouble with one repository; requests that hang stay hanging."""
        with self._lock:
            self._troubles.pop(repository, None)

    def fail_ping(self, code: int, *, retry_after: int | None = None) -> None:
        """Answer each request, the first ``/v2/`` of a pull before all, with an error status."""
        self.sabotage("", status(code, "ping", retry_after=retry_after))

    def refuse(self) -> None:
        """Refuse connections, as if the registry were not started."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            # Without the shutdown a thread that waits in accept() would keep the port open.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._drop_connections()

    def silence(self) -> None:
        """Accept connections and never say a word."""
        self._line = Line.SILENT
        self._drop_connections()

    def hang_up(self, *, reset: bool = False) -> None:
        """Close each connection after its first bytes: by EOF, or by a TCP reset."""
        self._line = Line.RESET if reset else Line.EOF
        self._drop_connections()

    def recover(self) -> None:
        """End all trouble at once. Those who hang are cut off and may come again."""
        with self._lock:
            self._troubles.clear()
            self._line = Line.OPEN
            recovered, self._recovered = self._recovered, threading.Event()
        recovered.set()
        self._drop_connections()
        self.accept()

    def requests(
        self, repository: str | None = None, stage: Stage | None = None, method: str | None = None
    ) -> list[Request]:
        """The requests so far; only those for a repository, of a stage or method, where given."""
        with self._lock:
            seen = list(self._requests)
        return [
            request
            for request in seen
            if (repository is None or request.repository == repository)
            and (stage is None or request.stage == stage)
            and (method is None or request.method == method)
        ]

    def forget_requests(self) -> None:
        """Count from zero again."""
        with self._lock:
            self._requests.clear()

    def in_flight(self, repository: str) -> int:
        """How many requests for a repository are being served, or hang, at this moment."""
        with self._lock:
            return self._busy.get(repository, 0)

    def close(self) -> None:
        """End it for good."""
        self._closed.set()
        self.refuse()
        self._recovered.set()

    # ---- how it works ----

    def accept(self) -> None:
        """Accept connections (again)."""
        with self._lock:
            if self._listener is not None or self._closed.is_set():
                return
            self._listener = listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.port))
            listener.listen(128)
        threading.Thread(target=self._serve, args=(listener,), name=f"fault-registry-{self.port}", daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            serve = {Line.OPEN: self._talk, Line.SILENT: self._stay_silent}.get(self._line, self._break_off)
            threading.Thread(target=self._run, args=(serve, connection, peer), daemon=True).start()

    def _run(self, serve: Callable[[socket.socket, object], None], connection: socket.socket, peer: object) -> None:
        try:
            with suppress(OSError):
                serve(connection, peer)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _talk(self, connection: socket.socket, peer: object) -> None:
        if self._tls is None:
            if connection.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                # What the servers of other languages do; Python's would answer in a way that no client takes for HTTP.
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            else:
                _Conversation(connection, peer, self)
            return
        with self._tls.wrap_socket(connection, server_side=True) as wrapped:
            _Conversation(wrapped, peer, self)

    def _stay_silent(self, connection: socket.socket, _: object) -> None:
        self.wait_until_released(connection)

    def _break_off(self, connection: socket.socket, _: object) -> None:
        connection.recv(1000)
        if self._line is Line.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _drop_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def wait_until_released(self, connection: socket.socket) -> None:
        """Hang until the trouble ends or the other side goes away."""
        recovered = self._recovered
        while not recovered.wait(0.05):
            readable, _, _ = select.select([connection], [], [], 0)
            if readable and not connection.recv(1, socket.MSG_PEEK):
                return

    def begin(self, request: Request) -> Sabotage | None:
        """Record a request, and say what trouble it meets."""
        with self._lock:
            self._requests.append(request)
            self._busy[request.repository] = self._busy.get(request.repository, 0) + 1
            for scope in ("", request.repository):
                found = self._troubles.get(scope)
                if found is None or (found.stage not in ("ping", request.stage)):
                    continue
                if found.times is not None:
                    if found.times == 0:
                        continue
                    self._troubles[scope] = replace(found, times=found.times - 1)
                return found
        return None

    def end(self, request: Request) -> None:
        """A request is over."""
        with self._lock:
            self._busy[request.repository] -= 1


class _Conversation(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"

    def __init__(self, connection: socket.socket, peer: object, registry: FaultRegistry) -> None:
        self._registry = registry
        super().__init__(connection, peer, registry)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing on stderr: requests are recorded."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        request = _parse(self.command, self.path)
        trouble = self._registry.begin(request)
        try:
            self._answer(trouble)
        finally:
            self._registry.end(request)

    def _answer(self, sabotage: Sabotage | None) -> None:
        if sabotage is None:
            self._proxy(None)
            return
        match sabotage.trouble:
            case Trouble.STATUS:
                self._refuse(sabotage)
            case Trouble.HANG:
                self._hang()
            case _:
                self._proxy(sabotage)

    def _refuse(self, sabotage: Sabotage) -> None:
        code = sabotage.status
        errors = [{"code": ERROR_CODES.get(code, "UNKNOWN"), "message": f"sabotaged with {code}"}]
        body = json.dumps({"errors": errors}).encode()
        headers = {"Content-Type": "application/json"}
        if sabotage.retry_after is not None:
            headers["Retry-After"] = str(sabotage.retry_after)
        if code == 401:
            headers["WWW-Authenticate"] = 'Basic realm="perdure tests"'
        self._send_head(code, headers, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _proxy(self, sabotage: Sabotage | None) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self._registry.upstream.port, timeout=30)
        try:
            wanted = ("Accept", "Range", "Authorization")
            headers = {name: ", ".join(values) for name in wanted if (values := self.headers.get_all(name))}
            upstream.request(self.command, self.path, headers=headers)
            response = upstream.getresponse()
            body = response.read()
        except OSError:
            self.close_connection = True
            return
        finally:
            upstream.close()
        passed = ("Content-Type", "Docker-Content-Digest", "WWW-Authenticate", "Docker-Distribution-Api-Version")
        kept = {name: value for name in passed if (value := response.getheader(name)) is not None}
        if sabotage is not None and sabotage.trouble is Trouble.NOT_JSON:
            body = b"{not json"
        length = int(response.getheader("Content-Length") or 0) if self.command == "HEAD" else len(body)
        self._send_head(response.status, kept, length)
        if self.command != "HEAD":
            self._send_body(body, sabotage if len(body) > SMALL_BLOB_BYTES else None)

    def _send_head(self, code: int, headers: dict[str, str], length: int) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_body(self, body: bytes, sabotage: Sabotage | None) -> None:
        half = len(body) // 2
        match sabotage.trouble if sabotage else None:
            case Trouble.CORRUPT:
                self.wfile.write(body[:-100] + bytes(100))
            case Trouble.TRUNCATED:
                self.wfile.write(body[:half])
                self.close_connection = True
            case Trouble.HALF:
                self.wfile.write(body[:half])
                self._hang()
            case Trouble.TRICKLE if sabotage:
                self._trickle(body, sabotage.bytes_per_second)
            case _:
                self.wfile.write(body)

    def _trickle(self, body: bytes, bytes_per_second: float) -> None:
        """Send evenly, ten times a second or one byte at a time, until the trouble ends."""
        started = time.monotonic()
        step = max(1, int(bytes_per_second / 10))
        for sent in range(0, len(body), step):
            due = started + sent / bytes_per_second
            while (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.1))
            self.wfile.write(body[sent : sent + step])

    def _hang(self) -> None:
        self._registry.wait_until_released(self.connection)
        self.close_connection = True


def _parse(method: str, path: str) -> Request:
    """Take a path of the registry API apart: /v2/REPOSITORY/manifests|blobs/REFERENCE."""
    match path.strip("/").split("/"):
        case ["v2", *repository, "manifests", reference]:
            return Request(time.time(), method, "manifest", "/".join(repository), reference)
        case ["v2", *repository, "blobs", reference]:
            return Request(time.time(), method, "blob", "/".join(repository), reference)
    return Request(time.time(), method, "ping", "", "")


def _tls_context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context
