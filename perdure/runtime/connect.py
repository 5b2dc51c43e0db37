# SPDX-License-Identifier: Apache-2.0
"""How a process reaches Temporal.

Temporal's own configuration comes first (``TEMPORAL_*`` variables and the profiles of temporal.toml, with TLS and API keys).
Where it names no address, the stack of this home is meant, and where the home never had one, a server on this machine. A stack
that is down is told as such: whoever listens at the default address instead is somebody else, and would take the applies.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.problems import SettingsProblem, Unreachable
from perdure.runtime.settings import Settings
from perdure.runtime.stack_record import StackRecord, owner_of, read_last_record, read_record, run_folder
from perdure.runtime.telemetry import runtime
from perdure.wire.converter import data_converter

DEFAULT_ADDRESS: Final = "localhost:7233"
DEFAULT_FLEET: Final = "default"
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
"""A server that is there answers within 0.1 s; a person should not wait longer to be told that none is."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where Temporal is, and who said so."""

    address: str
    fleet: str
    origin: str
    """For error messages, for example ``TEMPORAL_ADDRESS or temporal.toml``."""
    ui_url: str | None
    """The Web UI, where it is known."""


def find_target(settings: Settings) -> Target:
    """The server that ``connect`` would use. Does not ask it. Raises what ``connect`` raises, but for a server that is silent."""
    return _resolve(settings)[0]


def fleet_of(settings: Settings) -> str:
    """The fleet that is meant, also where its server does not run. Raises SettingsProblem."""
    config = _configuration()
    stack = None if config.get("target_host") else read_last_record(settings.home)
    return settings.fleet or config.get("namespace") or (stack.fleet if stack else DEFAULT_FLEET)


async def connect(settings: Settings, identity: str, *, timeout: timedelta = CONNECT_TIMEOUT) -> Client:
    """Connect to the Temporal server of the settings.

    Args:
        settings: say the fleet and the home.
        identity: how this process signs what it does, for example ``host/edge-1@812``.
        timeout: how long the server may take to answer.

    Raises:
        SettingsProblem: Temporal's configuration cannot be used.
        Unreachable: no answer, a refusal, or a stack that is down.
    """
    return await _open(*_resolve(settings), identity, timeout)


async def connect_to_stack(record: StackRecord, identity: str) -> Client:
    """Connect to an embedded stack, whatever Temporal's own configuration says. Raises Unreachable."""
    target = Target(record.temporal_address, record.fleet, "the stack of this machine", record.ui_url)
    config = ClientConnectConfig(target_host=target.address, namespace=target.fleet)
    return await _open(target, config, identity, CONNECT_TIMEOUT)


async def id_of_namespace(client: Client) -> str:
    """What tells the client's namespace from those of the same name on other servers. Raises RPCError."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    found = await client.workflow_service.describe_namespace(request, timeout=CONNECT_TIMEOUT)
    return found.namespace_info.id


async def _open(target: Target, config: ClientConnectConfig, identity: str, timeout: timedelta) -> Client:
    if "://" in target.address:
        raise _no_address(target, "it has a scheme")
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            client = await Client.connect(
                **config, identity=identity, data_converter=data_converter(), runtime=runtime(), connect_timeout=timeout
            )
            request = DescribeNamespaceRequest(namespace=client.namespace)
            await client.workflow_service.describe_namespace(request, timeout=timeout)
    except TimeoutError:
        raise _unreachable(target, f"no answer within {timeout.total_seconds():g} s") from None
    except RPCError as error:
        raise _refused(target, error) from error
    except ValueError as error:
        raise _no_address(target, str(error)) from error
    except RuntimeError as error:
        raise _unreachable(target, _root_cause(str(error))) from error
    return client


def _configuration() -> ClientConnectConfig:
    try:
        return ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise SettingsProblem(
            f"Temporal's configuration cannot be used: {error}", "Check the TEMPORAL_* variables and temporal.toml."
        ) from error


def _resolve(settings: Settings) -> tuple[Target, ClientConnectConfig]:
    config = _configuration()
    ui_url = None
    if address := config.get("target_host"):
        origin = "TEMPORAL_ADDRESS or temporal.toml"
    elif (record := read_record(settings.home)) is not None:
        address, origin, ui_url = record.temporal_address, f"the stack in {settings.home}", record.ui_url
        config.setdefault("namespace", record.fleet)
    elif (owner := owner_of(settings.home)) is not None and not os.access(run_folder(settings.home), os.X_OK):
        raise Unreachable(
            f"the stack in {settings.home} is that of {owner}",
            f"Set TEMPORAL_ADDRESS to the address that `perdure up` showed to {owner}, or name another home by PERDURE_HOME.",
        )
    elif read_last_record(settings.home) is not None:
        raise Unreachable(
            f"the Temporal server of the stack in {settings.home} does not run",
            "Start it by `perdure up --detach`, or set TEMPORAL_ADDRESS where another one is meant.",
        )
    else:
        address, origin = DEFAULT_ADDRESS, f"the default, as there is no stack in {settings.home}"
    config["target_host"] = address
    config["namespace"] = settings.fleet or config.get("namespace") or DEFAULT_FLEET
    return Target(address, config["namespace"], origin, ui_url), config


def _no_address(target: Target, cause: str) -> SettingsProblem:
    return SettingsProblem(
        f"{target.address!r} is not an address of Temporal ({target.origin}): {cause}", "Write HOST:PORT."
    )


def _refused(target: Target, error: RPCError) -> Unreachable:
    match error.status:
        case RPCStatusCode.NOT_FOUND:
            return Unreachable(
                f"Temporal at {target.address} has no namespace {target.fleet!r}",
                "Create it, or name another fleet by PERDURE_FLEET.",
            )
        case RPCStatusCode.UNAUTHENTICATED | RPCStatusCode.PERMISSION_DENIED:
            return Unreachable(
                f"Temporal at {target.address} refuses us: {error.message}",
                "Check the API key or the certificate in TEMPORAL_* or temporal.toml.",
            )
    return _unreachable(target, error.message)


def _unreachable(target: Target, cause: str) -> Unreachable:
    return Unreachable(
        f"Temporal cannot be reached at {target.address} ({target.origin}): {cause}",
        "Start it by `perdure up`, or set TEMPORAL_ADDRESS to where it is.",
    )


def _root_cause(text: str) -> str:
    """The words of the operating system or of the server, out of the SDK's nested description."""
    found: list[str] = re.findall(r'(?:message|error): "((?:[^"\\]|\\.)*)"', text)
    return found[-1] if found else text
