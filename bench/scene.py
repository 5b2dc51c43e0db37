# SPDX-License-Identifier: Apache-2.0
"""Who takes part in a run, and how much is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bench.contestant import Contestant
from bench.perdure import Perdure
from bench.plain import PlainPodman
from bench.stage import Stage
from bench.stamps import Stamps
from bench.swarm import Swarm


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often each story is told, and how large it is."""

    start: int = 20
    supersede: int = 10
    kill: int = 10
    remove: int = 10
    many: int = 3
    crash: int = 3
    lost: int = 3
    fair: int = 10
    resync: int = 5
    workloads: int = 50
    resynced: int = 200
    failing: int = 30
    waiting: int = 10
    outage: timedelta = timedelta(seconds=60)
    idle: timedelta = timedelta(seconds=60)


QUICK = Rounds(
    start=3,
    supersede=2,
    kill=2,
    remove=2,
    many=1,
    crash=1,
    lost=1,
    fair=2,
    resync=2,
    workloads=5,
    resynced=10,
    failing=6,
    waiting=3,
    outage=timedelta(seconds=10),
    idle=timedelta(seconds=10),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a story needs."""

    stage: Stage
    perdure: Perdure
    plain: PlainPodman
    others: Sequence[Contestant]
    """Those that could be run besides, with their default settings."""
    tuned: Sequence[Contestant]
    """Peers again, with settings that suit some stories better than their defaults."""
    rounds: Rounds

    @property
    def stamps(self) -> Stamps:
        """Where the containers sign."""
        return self.stage.stamps

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        """All of them, with their default settings; ours is the second."""
        return (self.plain, self.perdure, *self.others)

    @property
    def peers(self) -> tuple[Contestant, ...]:
        """All but ours."""
        return (self.plain, *self.others)

    @property
    def swarm(self) -> Swarm | None:
        """The Docker Swarm, where there is one."""
        return next((peer for peer in self.others if isinstance(peer, Swarm)), None)
