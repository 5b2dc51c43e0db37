# SPDX-License-Identifier: Apache-2.0
"""podman-py's way to the socket, without its leak.

A connection that fails leaves podman-py's socket open, in a cycle of references: while Podman is away each try costs a
file descriptor until the garbage collector comes by.
"""

from __future__ import annotations

from podman import PodmanClient
from podman.api.uds import UDSAdapter, UDSConnection, UDSConnectionPool, UDSSocket


class _Connection(UDSConnection):
    """Closes the socket that could not be connected."""

    def connect(self) -> None:
        socket = UDSSocket(self.uds)
        socket.settimeout(self.timeout)
        try:
            socket.connect()
        except BaseException:
            socket.close()
            raise
        self.sock = socket


class _Pool(UDSConnectionPool):
    ConnectionCls = _Connection


def connect(socket_path: str, *, timeout: float, connections: int) -> PodmanClient:
    """A client of the service behind a socket. Nothing is sent yet.

    Args:
        socket_path: absolute.
        timeout: of each call, in seconds.
        connections: how many are kept open.
    """
    client = PodmanClient(base_url=f"unix://{socket_path}", timeout=timeout, max_pool_size=connections, num_pools=2)
    for scheme in ("http", "https"):
        adapter = client.api.get_adapter(f"{scheme}://")
        assert isinstance(adapter, UDSAdapter)
        assert adapter.poolmanager is not None
        adapter.poolmanager.pool_classes_by_scheme = {scheme: _Pool}
    return client
