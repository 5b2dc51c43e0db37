# SPDX-License-Identifier: Apache-2.0
"""Run a container's healthcheck by Podman's hand, one run at a time, and never for longer than the check may take.

Podman leaves the timing to systemd, and without it nobody runs the checks. It also waits for a check that hangs for as long
as it hangs, and looks at the time limit only afterwards. So the limit is kept here: such a run counts as failed, it is
left to its end, and as long as it lasts no other is begun in that container.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any, Final

from activities.engine import Probe
from activities.podman_api import PodmanApi
from activities.podman_connection import Json, Refused
from activities.translate import engine_fault, refusal_fault
from perdure.model.faults import FaultKind, Phase
from perdure.model.workload import Healthcheck
from perdure.policy.redact import redact
from perdure.policy.shorten import shorten

DETAIL_LIMIT_BYTES: Final = 300
"""Of what a failed check printed; the end of it is kept as well as the begin."""
MARGIN: Final = timedelta(seconds=2)
"""What Podman itself needs for a run; measured: 0.25 s."""
KEPT: Final = 256
"""Of how many new containers the check is kept until somebody asks."""
_TOO_LONG: Final = re.compile(r"healthcheck command exceeded timeout")
_DEFAULTS: Final = Healthcheck(test=())


class Healthchecks:
    """The healthchecks of the containers of one Podman."""

    def __init__(self, api: PodmanApi) -> None:
        self._api = api
        self._hanging: dict[str, asyncio.Task[bool]] = {}
        self._seen: dict[str, Healthcheck | None] = {}

    def learn(self, container: Json) -> None:
        """Keep the check of a container that was just looked at, for the first one who asks for it: mostly there is none."""
        self._seen[str(container["Id"])] = healthcheck_in(container)
        while len(self._seen) > KEPT:
            del self._seen[next(iter(self._seen))]

    async def of(self, container_id: str) -> Healthcheck | None:
        """The check in force; None where there is none, or no such container. No container ever changes its check."""
        if container_id in self._seen:
            return self._seen.pop(container_id)
        container = await self._api.container(container_id, Phase.START)
        return None if container is None else healthcheck_in(container)

    async def run(self, container_id: str) -> Probe:
        """Run the check once. Raises EngineFault where it could not be run."""
        hanging = self._hanging.get(container_id)
        if hanging is not None and not hanging.done():
            return Probe(healthy=False, detail="an earlier run of the check has still not ended")
        check = await self.of(container_id)
        if check is None:
            raise engine_fault(
                FaultKind.ENGINE_ERROR,
                Phase.START,
                _doing(container_id),
                "there is no such container, or it has no check",
            )
        run = asyncio.create_task(self._run(container_id))
        try:
            done, _ = await asyncio.wait([run], timeout=(check.timeout + MARGIN).total_seconds())
        except asyncio.CancelledError:
            run.cancel()
            await asyncio.wait([run])
            raise
        if not done:
            self._hanging[container_id] = run
            run.add_done_callback(lambda ended: self._forget(container_id, ended))
            return Probe(healthy=False, detail=f"it did not end within {check.timeout.total_seconds():g} s")
        return Probe(healthy=True) if run.result() else Probe(healthy=False, detail=await self._detail(container_id))

    async def close(self) -> None:
        """Wait for no check any more."""
        hanging = list(self._hanging.values())
        for run in hanging:
            run.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    async def _run(self, container_id: str) -> bool:
        try:
            return await self._api.check_health(container_id, Phase.START)
        except Refused as refused:
            if _TOO_LONG.search(refused.text):
                return False
            raise refusal_fault(Phase.START, _doing(container_id), refused.text) from refused

    def _forget(self, container_id: str, run: asyncio.Task[bool]) -> None:
        """A run that hung is over; what it said at last comes too late to count, a failure of it too."""
        del self._hanging[container_id]
        if not run.cancelled():
            run.exception()

    async def _detail(self, container_id: str) -> str:
        """What the latest run printed. Its exit code is no help: Podman calls every failure 1."""
        container = await self._api.container(container_id, Phase.START)
        state = (container or {}).get("State") or {}
        log = ((state.get("Health") or state.get("Healthcheck") or {}).get("Log")) or []
        output = str(log[-1].get("Output") or "").strip() if log else ""
        return shorten(redact(output), DETAIL_LIMIT_BYTES) or "it failed, and printed nothing"


def healthcheck_in(container: Json) -> Healthcheck | None:
    """The check of an inspected container. What an image leaves open is written as 0, and means the usual value."""
    config: dict[str, Any] = container["Config"].get("Healthcheck") or {}
    test = tuple(config.get("Test") or ())
    if not test or test == ("NONE",):
        return None
    return Healthcheck(
        test=test,
        interval=_duration(config.get("Interval")) or _DEFAULTS.interval,
        timeout=_duration(config.get("Timeout")) or _DEFAULTS.timeout,
        retries=int(config.get("Retries") or _DEFAULTS.retries),
        start_period=_duration(config.get("StartPeriod")),
    )


def _duration(nanoseconds: Any) -> timedelta:
    return timedelta(microseconds=int(nanoseconds or 0) / 1000)


def _doing(container_id: str) -> str:
    return f"run the healthcheck of container {container_id}"
