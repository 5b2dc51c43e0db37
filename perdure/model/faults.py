# SPDX-License-Identifier: Apache-2.0
"""The one enumeration of what can go wrong, used on the wire, in the status, in the docs and in the tests.

A fault is *transient* if it can vanish without a new manifest (then it is tried again for ever), and *permanent* if only a
new manifest, or a person, can cure it (then the workload is parked until one comes).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, Field

from perdure.model.base import Model
from perdure.model.values import Telling


class FaultClass(StrEnum):
    """Whether trying again can help."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"


class Phase(StrEnum):
    """The step in which a fault was met."""

    PULL = "pull"
    START = "start"
    STOP = "stop"


class FaultKind(StrEnum):
    """What went wrong, by a name that stays the same across releases."""

    # pull
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    REGISTRY_NAME_NOT_RESOLVED = "RegistryNameNotResolved"
    REGISTRY_ERROR = "RegistryError"
    RATE_LIMITED = "RateLimited"
    PULL_STALLED = "PullStalled"
    IMAGE_NOT_FOUND = "ImageNotFound"
    UNAUTHORIZED = "Unauthorized"
    ACCESS_DENIED = "AccessDenied"
    TLS_NOT_TRUSTED = "TlsNotTrusted"
    PLAIN_HTTP_REGISTRY = "PlainHttpRegistry"
    CORRUPT_IMAGE = "CorruptImage"
    INVALID_IMAGE_NAME = "InvalidImageName"
    SHORT_IMAGE_NAME = "ShortImageName"
    WRONG_ARCHITECTURE = "WrongArchitecture"
    # start
    IMAGE_MISSING = "ImageMissing"
    NAME_CONFLICT = "NameConflict"
    PORT_IN_USE = "PortInUse"
    ADDRESS_NOT_AVAILABLE = "AddressNotAvailable"
    MOUNT_SOURCE_MISSING = "MountSourceMissing"
    DEVICE_MISSING = "DeviceMissing"
    NETWORK_MISSING = "NetworkMissing"
    SECRET_MISSING = "SecretMissing"
    COMMAND_NOT_FOUND = "CommandNotFound"
    COMMAND_NOT_EXECUTABLE = "CommandNotExecutable"
    USER_NOT_FOUND = "UserNotFound"
    WORKING_DIR_NOT_FOUND = "WorkingDirNotFound"
    INVALID_OPTION = "InvalidOption"
    INIT_MISSING = "InitMissing"
    ULIMIT_TOO_HIGH = "UlimitTooHigh"
    RUNTIME_ERROR = "RuntimeError"
    # any phase
    DISK_FULL = "DiskFull"
    ENGINE_UNREACHABLE = "EngineUnreachable"
    ENGINE_ERROR = "EngineError"
    STOP_FAILED = "StopFailed"
    SUPERSEDED = "Superseded"
    WORKER_LOST = "WorkerLost"
    WORKER_SHUTDOWN = "WorkerShutdown"
    TIMED_OUT = "TimedOut"
    INTERNAL = "InternalError"


MESSAGE_LIMIT_BYTES = 1024
"""The longest message of a fault, in UTF-8 bytes. Temporal replaces a pending failure of more than 4 KiB by a useless text."""


class Fault(Model):
    """One error, classified, without secrets, as it goes over the wire."""

    kind: FaultKind
    fault_class: FaultClass = Field(alias="class")
    phase: Phase
    message: Telling
    """What happened and where, the root cause kept; at most MESSAGE_LIMIT_BYTES, cut in the middle."""
    hint: Telling = ""
    """What the user can do."""
    seen_generation: int | None = None
    """Of Superseded, within one incarnation: the generation that its host has seen, which the workflow does not remember."""


class LastError(Fault):
    """The latest error of a workload, with its own history in numbers."""

    attempt: int
    """The number of the try that met it, counted from 1 on the curve of its generation."""
    generation: int
    first_at: AwareDatetime
    last_at: AwareDatetime
    count: int = 1
    """How often the same error (kind and text) has been reported or counted in a row."""
