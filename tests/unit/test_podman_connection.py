# SPDX-License-Identifier: Apache-2.0
"""Calls to a Podman that hangs: who gives one up waits for its end, and its failure is no fault of ours."""

from __future__ import annotations

import asyncio
import gc
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.podman_connection import PodmanConnection
from perdure.model.faults import Phase


async def test_the_failure_of_a_call_that_was_given_up_is_not_logged_as_an_error(tmp_path: Path) -> None:
    """Where Podman hangs for long that would be a traceback every few seconds."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / "podman.sock"))
        hanging.listen()
        connection = PodmanConnection(f"unix://{tmp_path}/podman.sock", timedelta(seconds=1))
        call = asyncio.create_task(connection.call("get", "/containers/json", phase=Phase.START, doing="list"))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await connection.close()
    del call
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
