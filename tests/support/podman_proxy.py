# SPDX-License-Identifier: Apache-2.0
"""A front for a Podman socket that can hold back an answer: Podman has done what it was asked for, and nobody knows yet."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

PIECE_BYTES: Final = 1 << 16


class PodmanProxy:
    """Passes everything on, until an answer is to be held.

    Args:
        upstream: the real socket.
        path: where to listen; short, as the path of a socket must be.
    """

    def __init__(self, upstream: Path, path: Path) -> None:
        self.url = f"unix://{path}"
        self.answered = threading.Event()
        """Podman has given the answer that is held."""
        self._upstream = upstream
        self._held = b""
        self._released = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._path = path

    def __enter__(self) -> Self:
        self._listener.listen(64)
        threading.Thread(target=self._serve, name="podman-proxy", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        # Without the shutdown the thread that waits in accept() would keep the socket open.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def hold(self, request: str) -> None:
        """Hold the answers of requests whose first line contains this, from now on and until they are let go."""
        self._held = request.encode()

    def let_go(self) -> None:
        """Give the answers that are held, and hold no more."""
        self._held = b""
        self._released.set()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        is_held = threading.Event()
        with client, socket.socket(socket.AF_UNIX) as podman:
            podman.connect(str(self._upstream))
            answers = threading.Thread(target=self._bring_back, args=(podman, client, is_held), daemon=True)
            answers.start()
            with suppress(OSError):
                while piece := client.recv(PIECE_BYTES):
                    if self._held and self._held in piece.partition(b"\r\n")[0]:
                        is_held.set()
                    podman.sendall(piece)
                # Whoever went away must not keep Podman from doing what it was asked for.
                if is_held.is_set():
                    self._released.wait()
                podman.shutdown(socket.SHUT_RDWR)
            answers.join()

    def _bring_back(self, podman: socket.socket, client: socket.socket, is_held: threading.Event) -> None:
        with suppress(OSError):
            while piece := podman.recv(PIECE_BYTES):
                if is_held.is_set():
                    self.answered.set()
                    self._released.wait()
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
