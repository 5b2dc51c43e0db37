# SPDX-License-Identifier: Apache-2.0
"""Looks at the containers of one workload closely, while nobody of us changes them, and tells its workflow what it does not know.

A first look is not always the truth: right after a process died Podman may still call it running, and while somebody removes or
restarts a container by hand there is a moment in which it has just ended. So a look waits, for a bounded time, until what it
sees has come to rest: whoever removes a container by force should not be told that it ended with code 137.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from activities.autonomy import Autonomy
from activities.beliefs import Belief, Beliefs, Finding, contradiction
from activities.deaths import Deaths
from activities.engine import Engine
from activities.fence import Fence
from activities.sight import Seen, Sight
from activities.telling import Contact, Teller, Told
from perdure.model.observation import ContainerState

logger = logging.getLogger(__name__)

SETTLE: Final = timedelta(seconds=2)
"""How long a look may wait for what it sees to come to rest. Nothing is begun for the workload meanwhile."""
CALM: Final = timedelta(milliseconds=120)
"""How long an ended container is looked at, where the first look came too late to see whether it was stopped by hand. On a quiet
machine that is each kill from outside, so it is part of the time until such a container runs again."""
AFTER_STOP: Final = timedelta(milliseconds=500)
"""The same after a stop by hand. Its removal follows within 0.15 s, or 0.4 s on a busy machine; a restart within 0.3 s."""
ASK_AGAIN: Final = timedelta(milliseconds=25)
"""Between two questions of how a dead container ended; each costs 3 ms."""
SHORTEST_PAUSE: Final = timedelta(milliseconds=10)
LOOK_AGAIN: Final = (timedelta(milliseconds=50), timedelta(milliseconds=200))
"""Between two looks at first, and at most. A look costs up to 40 ms on a host with many containers, and an event wakes it."""
STUCK: Final = timedelta(seconds=5)
"""How much longer than its grace a stop may take, until it counts as one that was broken off."""
USUAL_GRACE: Final = timedelta(seconds=10)
LONG_AGO: Final = timedelta(seconds=2)
"""An end before that is no moment within a removal. Podman's list knows whole seconds."""
_PASSING: Final = (ContainerState.DEAD, ContainerState.EXITED, ContainerState.STOPPING, ContainerState.MISSING)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look found, and what became of the message."""

    finding: Finding | None
    told: Told | None = None
    """None where there was nothing to tell."""


class Inspection:
    """Checks what is believed of the workloads of one host.

    Args:
        engine: to ask how a container ended.
        sight: the containers of a workload.
        fence: to look while nobody changes anything.
        teller: tells the workflows.
        deaths: which processes are followed.
        beliefs: what the workflows take to be so; what they are told changes it.
        contact: whether it makes sense to tell anything.
        autonomy: what was restarted here while Temporal was away, to be told with what is found.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        sight: Sight,
        fence: Fence,
        teller: Teller,
        deaths: Deaths,
        beliefs: Beliefs,
        contact: Contact,
        autonomy: Autonomy | None = None,
    ) -> None:
        self._engine = engine
        self._sight = sight
        self._fence = fence
        self._teller = teller
        self._deaths = deaths
        self._beliefs = beliefs
        self._contact = contact
        self._autonomy = autonomy
        self._hints: dict[str, asyncio.Event] = {}
        """Of the workloads that are looked at now."""
        self._stopping_since: dict[str, float] = {}
        """By container."""

    def compare(self, seen: Seen, *, leave_out: AbstractSet[str] = frozenset()) -> dict[str, Finding]:
        """What a list of all containers says against the beliefs; the processes of those that agree are followed.

        A container that was started since the list was made is not in it, and goes on being followed all the same.
        """
        differing = {}
        beliefs = self._beliefs.all()
        for workload, belief in beliefs.items():
            found = seen.ours.get(workload, ())
            finding = contradiction(belief, found)
            if finding is None:
                self._beliefs.confirm(workload, found)
                self._follow(workload)
            elif workload not in leave_out:
                differing[workload] = finding
        listed = {one.container_id for containers in seen.ours.values() for one in containers}
        self._deaths.only(listed | {belief.container_id for belief in beliefs.values()})
        self._stopping_since = {one: since for one, since in self._stopping_since.items() if one in listed}
        return differing

    def hint(self, workload: str) -> None:
        """Something happened to a workload: a look that waits looks again."""
        if workload in self._hints:
            self._hints[workload].set()

    async def check(self, workload: str) -> Checked:
        """Tell the workflow if its containers are not as it believes. Raises EngineFault."""
        async with self._fence.alone(workload):
            belief = self._beliefs.of(workload)
            if belief is None:
                return Checked(None)
            self._hints[workload] = asyncio.Event()
            try:
                finding = await self._look(workload, belief)
            finally:
                del self._hints[workload]
            if finding is None:
                return Checked(None)
            if finding.state is not ContainerState.STOPPING:
                self._stopping_since.pop(finding.container_id, None)
            if not self._contact.is_there:
                return Checked(finding, Told.AWAY)
            told = await self._tell(workload, finding)
            if told is Told.DELIVERED:
                self._beliefs.change(workload, belief.after(finding))
                self._follow(workload)
            elif told is Told.GONE:
                self._beliefs.change(workload, None)
            return Checked(finding, told)

    async def _tell(self, workload: str, finding: Finding) -> Told:
        """What was done here while Temporal was away goes along with the first news of that container, and once."""
        seen = finding.observation(datetime.now(UTC))
        runs = None
        if self._autonomy:
            runs = self._autonomy.restarts_of(workload, finding.container_id, finding.container)
        if runs is not None:
            seen = seen.model_copy(update={"restarts": runs.restarts, "exit": seen.exit or runs.exit})
        told = await self._teller.observe(workload, seen)
        if runs is not None and self._autonomy and told is Told.DELIVERED:
            self._autonomy.told(workload)
        return told

    def _follow(self, workload: str) -> None:
        belief = self._beliefs.of(workload)
        if belief is not None and belief.is_up:
            self._deaths.follow(workload, belief.container_id, belief.pid)

    async def _look(self, workload: str, belief: Belief) -> Finding | None:
        """What contradicts the belief, once it has come to rest."""
        rest = _Rest()
        while True:
            finding = contradiction(belief, await self._sight.of(workload))
            if finding is None or finding.container is None or finding.state not in _PASSING:
                return finding
            if finding.state is ContainerState.DEAD and not _is_being_stopped(finding):
                ended = await self._end_of(workload, finding)
                if ended is not None:
                    return ended
            if finding.state is ContainerState.STOPPING and self._is_alive(workload, finding):
                return finding if self._is_stuck(finding) else None
            if rest.has_come(finding):
                return finding
            await self._hinted(workload, rest.pause())

    async def _end_of(self, workload: str, finding: Finding) -> Finding | None:
        """How a container ended whose process is gone, as soon as Podman has noticed; None where that takes too long."""
        give_up = time.monotonic() + SETTLE.total_seconds()
        while (exit_seen := await self._engine.exit_of(finding.container_id)) is None:
            if await self._hinted(workload, ASK_AGAIN) or time.monotonic() > give_up:
                return None
        container = finding.container and replace(finding.container, state=ContainerState.EXITED, exit=exit_seen)
        return replace(finding, state=ContainerState.EXITED, container=container)

    def _is_alive(self, workload: str, finding: Finding) -> bool:
        """Whether the process of a container that is being stopped is still there."""
        pid = finding.container.pid if finding.container else 0
        return self._deaths.follow(workload, finding.container_id, pid)

    def _is_stuck(self, finding: Finding) -> bool:
        now = time.monotonic()
        grace = finding.container.stop_timeout if finding.container else None
        since = self._stopping_since.setdefault(finding.container_id, now)
        return now - since >= ((USUAL_GRACE if grace is None else grace) + STUCK).total_seconds()

    async def _hinted(self, workload: str, wait: timedelta) -> bool:
        """Wait for a hint; whether there was one."""
        hint = self._hints[workload]
        with suppress(TimeoutError):
            await asyncio.wait_for(hint.wait(), wait.total_seconds())
        was_hinted = hint.is_set()
        hint.clear()
        return was_hinted


class _Rest:
    """Whether what one look sees again and again has come to rest.

    Podman forgets that a container was being stopped as soon as anybody asks for it after its end. So it counts what the first
    look sees: a process that died while nobody stopped it has ended, and after a stop a removal or another start may follow.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._ended_at: float | None = None
        self._calm = CALM
        self._pause, self._longest_pause = LOOK_AGAIN

    def has_come(self, finding: Finding) -> bool:
        """Take note of a look, and answer."""
        now = time.monotonic()
        if now - self._began >= SETTLE.total_seconds():
            return True
        if finding.state is not ContainerState.EXITED:
            was_stopped = finding.state is not ContainerState.DEAD or _is_being_stopped(finding)
            self._calm, self._ended_at = AFTER_STOP if was_stopped else timedelta(0), None
            return False
        self._ended_at = self._ended_at or now
        return now - self._ended_at >= self._calm.total_seconds() or _is_long_ago(finding)

    def pause(self) -> timedelta:
        """How long to wait before the next look: ever longer, but for the last one, which comes when the calm is over."""
        pause, self._pause = self._pause, min(2 * self._pause, self._longest_pause)
        if self._ended_at is None:
            return pause
        left = self._calm - timedelta(seconds=time.monotonic() - self._ended_at)
        return min(pause, max(left, SHORTEST_PAUSE))


def _is_being_stopped(finding: Finding) -> bool:
    """Whether somebody stops the container through Podman."""
    return finding.container is not None and finding.container.being_stopped


def _is_long_ago(finding: Finding) -> bool:
    at = finding.exit.at if finding.exit else None
    return at is not None and datetime.now(UTC) - at > LONG_AGO
