# SPDX-License-Identifier: Apache-2.0
"""What a manifest may say of the parts of a container: the long forms, with their rules.

Each is a part of ``perdure.model.workload`` made narrower. The parts there are read from the wire and stay lenient: a rule that a
later release makes stricter must not make a running workload unreadable.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, Strict, model_validator

from perdure.model.names import IpAddress
from perdure.model.rules import STRICT, ShortForm, refusal
from perdure.model.shortforms import (
    PORT_FORM,
    check_arguments,
    check_command,
    check_test,
    read_port,
    read_ulimit,
)
from perdure.model.values import (
    Bytes,
    Duration,
    Integer,
    Port,
    PositiveDuration,
    SignalName,
    Text,
    format_bytes,
    format_duration,
)
from perdure.model.workload import (
    Healthcheck,
    PortMapping,
    Resources,
    StopOptions,
    Ulimit,
)

Entrypoint = Annotated[tuple[Text, ...], BeforeValidator(check_arguments)]
"""A program with its first arguments; an empty list is none, and then the command's first word is the program."""
Command = Annotated[tuple[Text, ...], Field(json_schema_extra={"minItems": 1}), BeforeValidator(check_command)]
"""A list of arguments; never one text."""


class PortEntry(PortMapping):
    """One published port."""

    model_config = STRICT

    container: Port
    """The port in the container."""
    host: Port
    """The port of the host."""
    protocol: Literal["tcp", "udp", "sctp"] = "tcp"
    """What is spoken at the port."""
    ip: IpAddress = ""
    """The host's address to listen on; left out, it is every address."""


LEAST_MEMORY = 6 * 2**20
MOST_MEMORY = 2**50


def _is_memory(size: int) -> int:
    if size < LEAST_MEMORY:
        raise refusal(
            f"{format_bytes(size)} of memory is too little to start a container",
            f"write at least {format_bytes(LEAST_MEMORY)}",
        )
    if size > MOST_MEMORY:
        raise refusal(f"{format_bytes(size)} of memory is more than any host has", "leave it out for no limit")
    return size


def _is_process_limit(pids: int) -> int:
    if pids < 1 and pids != -1:
        raise refusal(f"{pids} processes are too few", "write a number from 1, or -1 for no limit")
    return pids


class ResourcesEntry(Resources):
    """Limits of one container. What is left out has Podman's default."""

    model_config = STRICT

    memory: Annotated[Bytes, AfterValidator(_is_memory)] | None = None
    """The most memory, at least 6Mi; a container that needs more is ended by the kernel."""
    cpus: Annotated[float, Strict(), Field(ge=0.01, le=1024, allow_inf_nan=False)] | None = None
    """The most processor time, in processors: 0.5 is half of one."""
    pids: Annotated[Integer, Field(le=2**22), AfterValidator(_is_process_limit)] | None = None
    """The most processes and threads, -1 for no limit; left out, it is 2048."""


RLIM_INFINITY = 2**64 - 1
"""What the kernel takes for no limit; Podman's API knows no -1."""


def _is_limit(limit: int) -> int:
    if limit < -1 or limit > RLIM_INFINITY:
        raise refusal(f"{limit} is not a limit", "write a number from 0, or -1 for no limit")
    return RLIM_INFINITY if limit == -1 else limit


Limit = Annotated[Integer, Field(json_schema_extra={"minimum": -1}), AfterValidator(_is_limit)]


class UlimitEntry(Ulimit):
    """One resource limit of the processes in the container; -1 is without limit."""

    model_config = STRICT

    soft: Limit
    """The limit that holds, and that a process may raise."""
    hard: Limit
    """The limit that it may be raised to."""

    @model_validator(mode="after")
    def _soft_is_below_hard(self) -> Self:
        if self.soft > self.hard:
            soft = "without end" if self.soft == RLIM_INFINITY else self.soft
            raise refusal(f"the soft limit {soft} is above the hard limit {self.hard}", "raise hard or lower soft")
        return self


class HealthcheckEntry(Healthcheck):
    """A command that tells whether the container does its work."""

    model_config = STRICT

    test: Annotated[tuple[Text, ...], Field(json_schema_extra={"minItems": 1}), BeforeValidator(check_test)]
    """The command: ``["CMD", PROGRAM, ARGUMENT...]``, ``["CMD-SHELL", COMMAND]``, or ``["NONE"]`` to switch off the one of the
    image."""
    interval: PositiveDuration = timedelta(seconds=30)
    """The wait between two runs."""
    timeout: PositiveDuration = timedelta(seconds=30)
    """How long one run may take."""
    retries: Annotated[Integer, Field(ge=1, le=1000)] = 3
    """How many failures in a row make the container unhealthy."""
    start_period: Duration = timedelta(0)
    """The time after a start in which failures do not count."""


LONGEST_STOP = timedelta(hours=1)


def _is_stop_timeout(value: timedelta) -> timedelta:
    if value > LONGEST_STOP:
        raise refusal(f"{format_duration(value)} to stop is too long", f"write at most {format_duration(LONGEST_STOP)}")
    if value % timedelta(seconds=1):
        raise refusal(
            f"{format_duration(value)} is not whole seconds, which is all that Podman takes", "write it in seconds"
        )
    return value


class StopEntry(StopOptions):
    """How the container is asked to end."""

    model_config = STRICT

    signal: SignalName = "SIGTERM"
    """The signal that it is sent."""
    timeout: Annotated[Duration, AfterValidator(_is_stop_timeout)] = timedelta(seconds=10)
    """How long it may take before it is killed, in whole seconds, at most an hour."""


PortForm = Annotated[PortEntry, ShortForm(read_port, PORT_FORM, ("8080:80", "127.0.0.1:53:53/udp", "[::1]:80:80"))]
UlimitForm = Annotated[
    UlimitEntry, ShortForm(read_ulimit, "one number for both limits", (1024, -1), json_type="integer")
]
