# SPDX-License-Identifier: Apache-2.0
"""What a failure may be due to, as far as a host can see by itself when it is over: a registry, a path, the engine."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from activities.engine import Engine, EngineFault
from activities.registry_probe import why_away
from activities.translate import START_RULES, WORD_LIMIT_BYTES, classify, registry_of
from perdure.model.faults import Fault, FaultKind, Phase
from perdure.policy.shorten import shorten

_REGISTRY_KINDS: Final = (
    FaultKind.REGISTRY_UNREACHABLE,
    FaultKind.REGISTRY_NAME_NOT_RESOLVED,
    FaultKind.REGISTRY_ERROR,
    FaultKind.PULL_STALLED,
)
_PATH_KINDS: Final = (FaultKind.MOUNT_SOURCE_MISSING, FaultKind.DEVICE_MISSING)
_THREADS: Final = 2
"""For paths. One on a dead network disk may hold its thread for ever: then the others wait for the curve."""


class CauseKind(StrEnum):
    """What can be looked at."""

    REGISTRY = "registry"
    PATH = "path"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing whose absence makes tries fail."""

    kind: CauseKind
    name: str = ""
    """The registry's address, or the path; empty for the engine."""

    def __str__(self) -> str:
        return self.name or self.kind

    @property
    def recovery(self) -> str:
        """What is told when it is over."""
        match self.kind:
            case CauseKind.REGISTRY:
                return f"registry {self.name} answers again"
            case CauseKind.PATH:
                return f"{self.name} is there"
            case CauseKind.ENGINE:
                return "Podman answers again"

    @property
    def promise(self) -> str:
        """What is added to the hint of a fault that is due to it."""
        name = shorten(self.name, WORD_LIMIT_BYTES)
        match self.kind:
            case CauseKind.REGISTRY:
                return f"{name} is asked every few seconds, and the pull follows as soon as it answers"
            case CauseKind.PATH:
                return f"{name} is looked for every few seconds, and the start follows as soon as it is there"
            case CauseKind.ENGINE:
                return "it is asked every few seconds, and the next try follows as soon as it answers"


def cause_of(fault: Fault, image: str) -> Cause | None:
    """What a fault is due to; None where a host cannot see when that is over."""
    if fault.kind is FaultKind.ENGINE_UNREACHABLE:
        return Cause(CauseKind.ENGINE)
    if fault.kind in _REGISTRY_KINDS and fault.phase is Phase.PULL and (registry := registry_of(image)):
        return Cause(CauseKind.REGISTRY, registry)
    if fault.kind in _PATH_KINDS:
        path = classify(START_RULES, fault.message, fault.kind)[1].get("path", "")
        return Cause(CauseKind.PATH, path) if path.startswith("/") else None
    return None


class Looks:
    """Looks whether a cause is still there."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="paths")

    async def why_away(self, cause: Cause) -> str | None:
        """Why the registry, the path or the engine is not there, in few words; None where it is."""
        match cause.kind:
            case CauseKind.REGISTRY:
                return await why_away(cause.name)
            case CauseKind.PATH:
                return await asyncio.get_running_loop().run_in_executor(self._threads, _why_missing, cause.name)
            case CauseKind.ENGINE:
                return await self._why_silent()

    async def _why_silent(self) -> str | None:
        try:
            await self._engine.info()
        except EngineFault as raised:
            return raised.fault.message
        return None


def _why_missing(path: str) -> str | None:
    try:
        Path(path).stat()
    except OSError as error:
        return error.strerror or str(error)
    return None
