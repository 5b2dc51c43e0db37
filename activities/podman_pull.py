# SPDX-License-Identifier: Apache-2.0
"""Pulls: one per image at a time, with a deadline on progress, and cancellable at once.

Podman reports a failed pull as HTTP 200 with an error in its last line. The Docker-compatible endpoint is used because
only that one counts bytes. ``tlsVerify`` is never sent: it would override the host's registries.conf. Credentials are
never sent either: Podman's service takes them from its user's own auth file, where ``podman login`` puts them
(``/run/containers/0/auth.json``, ``~/.config/containers/auth.json``; not ``REGISTRY_AUTH_FILE``, which only the command
line reads).

Closing the connection makes Podman abort the pull, so a cancelled task leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from activities.architecture import check_architecture, wrong_architecture
from activities.engine import EngineFault, Pulled, PullProgress
from activities.podman_api import PodmanApi
from activities.podman_connection import COMPAT, Json, PodmanConnection, Refused
from activities.registry_probe import find_rate_limit
from activities.translate import engine_fault, pull_fault, registry_of
from perdure.model.faults import FaultKind, Phase
from perdure.policy.progress import Pace, Patience, Stage

Listener = Callable[[PullProgress], None]


@dataclass(slots=True)
class _Shared:
    """A pull under way and those who wait for it."""

    task: asyncio.Task[Pulled | EngineFault]
    listeners: list[Listener] = field(default_factory=list)


class Puller:
    """All pulls of one engine."""

    def __init__(self, connection: PodmanConnection, api: PodmanApi, patience: Patience) -> None:
        self._connection = connection
        self._api = api
        self._patience = patience
        self._shared: dict[str, _Shared] = {}

    async def pull(self, image: str, on_progress: Listener) -> Pulled:
        """Fetch an image, or join whoever fetches it already.

        The pull goes on as long as anybody waits for it. Raises EngineFault.
        """
        shared = self._shared.get(image)
        if shared is None:
            shared = self._shared[image] = self._begin(image)
        context = copy_context()

        def listener(progress: PullProgress) -> None:
            # The shared task has the context of whoever began it; each listener is called in its own.
            context.run(on_progress, progress)

        shared.listeners.append(listener)
        try:
            outcome = await asyncio.shield(shared.task)
        finally:
            shared.listeners.remove(listener)
            if not shared.listeners and not shared.task.done():
                await self._abandon(image, shared)
        if isinstance(outcome, EngineFault):
            # Each waiter gets an exception of its own: a shared one would collect everybody's traceback.
            raise EngineFault(outcome.fault, outcome.retry_after)
        return outcome

    def _begin(self, image: str) -> _Shared:
        listeners: list[Listener] = []

        def tell(progress: PullProgress) -> None:
            for listener in tuple(listeners):
                listener(progress)

        return _Shared(asyncio.create_task(self._fetch(image, tell), name=f"pull {image}"), listeners)

    async def _abandon(self, image: str, shared: _Shared) -> None:
        """End a pull that nobody waits for any more. Whoever wants the image from now on begins a new one."""
        if self._shared.get(image) is shared:
            del self._shared[image]
        shared.task.cancel()
        await asyncio.wait([shared.task])

    async def _fetch(self, image: str, tell: Listener) -> Pulled | EngineFault:
        me = asyncio.current_task()
        try:
            await self._follow(image, tell)
            return await self._pulled(image)
        except EngineFault as fault:
            return await self._explained(image, fault)
        finally:
            if (shared := self._shared.get(image)) is not None and shared.task is me:
                del self._shared[image]

    async def _follow(self, image: str, tell: Listener) -> None:
        """Read the pull's lines until the last one. Raises EngineFault."""
        if image and not registry_of(image):
            # This endpoint would take Docker Hub for meant, other commands of the same Podman something else.
            text = "the name does not say which registry"
            raise engine_fault(FaultKind.SHORT_IMAGE_NAME, Phase.PULL, f"pull {image}", text)
        loop = asyncio.get_running_loop()
        pace = Pace(self._patience, loop.time())
        url, parameters = f"{COMPAT}/images/create", {"fromImage": image}
        try:
            async with (
                asyncio.timeout_at(pace.expires_at) as deadline,
                self._connection.stream("post", url, parameters, phase=Phase.PULL, doing=f"pull {image}") as answer,
            ):
                async for line in answer.aiter_lines():
                    if (error := _read(line, pace, loop.time())) is not None:
                        raise pull_fault(image, error)
                    deadline.reschedule(pace.expires_at)
                    tell(PullProgress(pace.done_bytes, pace.total_bytes, str(pace.stage)))
        except Refused as refused:
            raise pull_fault(image, refused.text) from refused
        except TimeoutError:
            raise _stalled(image, pace) from None

    async def _pulled(self, image: str) -> Pulled:
        found = await self._api.image(image, Phase.PULL)
        if found is None:
            raise engine_fault(
                FaultKind.ENGINE_ERROR,
                Phase.PULL,
                f"pull {image}",
                "Podman reported success, but the image is not there",
            )
        check_architecture(found, Phase.PULL, f"pull {image}")
        return Pulled(image_id=str(found["Id"]), digest=str(found.get("Digest") or ""))

    async def _explained(self, image: str, raised: EngineFault) -> EngineFault:
        """The same fault with what Podman does not tell: how long a registry asks to wait, and what an index has to offer."""
        doing = f"pull {image}"
        match raised.fault.kind:
            case FaultKind.PULL_STALLED | FaultKind.RATE_LIMITED if (limit := await find_rate_limit(image)) is not None:
                fault = raised.fault
                if fault.kind is FaultKind.PULL_STALLED:
                    text = f"the registry answers 429 Too Many Requests; {fault.message}"
                    registry = registry_of(image)
                    fault = engine_fault(FaultKind.RATE_LIMITED, Phase.PULL, doing, text, registry=registry).fault
                return EngineFault(fault, limit.retry_after)
            case FaultKind.WRONG_ARCHITECTURE if offered := _architectures(await self._api.index(image)):
                return wrong_architecture(offered, Phase.PULL, doing)
        return raised


def _architectures(index: Iterable[Json]) -> list[str]:
    return sorted({str((entry.get("platform") or {}).get("architecture") or "unknown") for entry in index})


def _read(line: str, pace: Pace, now: float) -> str | None:
    """Take one line of the stream into account; returns the error that it tells of."""
    try:
        said: dict[str, Any] = json.loads(line)
    except ValueError:
        return f"Podman sent a line that is not JSON: {line[:200]}" if line.strip() else None
    if error := said.get("error"):
        return str(error)
    part = str(said.get("id") or "")
    match said.get("status"):
        case "Pulling fs layer":
            pace.announced(part, now)
        case "Downloading":
            progress = said.get("progressDetail") or {}
            pace.received(part, int(progress.get("current") or 0), int(progress.get("total") or 0), now)
        case "Download complete" | "Already exists":
            pace.completed(part, now)
    return None


def _stalled(image: str, pace: Pace) -> EngineFault:
    patience = f"{pace.limit.total_seconds():g} s"
    match pace.stage:
        case Stage.WAITING:
            text = f"the registry was silent for {patience}"
        case Stage.DOWNLOADING:
            text = f"no progress for {patience} after {pace.done_bytes} bytes"
        case _:
            text = f"all {pace.done_bytes} announced bytes are there, but the pull did not end within {patience}"
    return engine_fault(FaultKind.PULL_STALLED, Phase.PULL, f"pull {image}", text, registry=registry_of(image))
