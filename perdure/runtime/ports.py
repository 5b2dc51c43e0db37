# SPDX-License-Identifier: Apache-2.0
"""Ports of the loopback address: whether one is free, and finding a free one."""

from __future__ import annotations

import errno
import socket
from typing import Final

from perdure.runtime.problems import StackProblem

LOOPBACK: Final = "127.0.0.1"
HIGHEST: Final = 65535


def claim(port: int, *, what: str, option: str) -> int:
    """Return the port if a server can listen on it, or a free one for 0.

    Args:
        port: the wanted one.
        what: the server that wants it, for the error.
        option: how a user chooses another one, for the error.

    Raises:
        StackProblem: another program listens there, or we may not.
    """
    if port > HIGHEST:
        raise StackProblem(f"there is no port {port} for {what}: the highest is {HIGHEST}", f"Choose one by {option}.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except PermissionError:
            raise StackProblem(
                f"port {port} for {what} needs more rights", f"Choose one above 1023 by {option}."
            ) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise StackProblem(
                f"port {port} for {what} is taken: another program listens on {LOOPBACK}:{port}",
                f"Choose another by {option}, or stop that program. 0 takes any free port.",
            ) from None
        free: int = probe.getsockname()[1]
        return free
