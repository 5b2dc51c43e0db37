# SPDX-License-Identifier: Apache-2.0
"""What is told of a container that is ended, removed or restarted, as Podman shows it moment by moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from activities import inspection
from activities.beliefs import Belief, Beliefs
from activities.deaths import Deaths
from activities.engine import Managed, Ownership
from activities.fence import Fence
from activities.inspection import Inspection
from activities.sight import Seen, Sight
from activities.telling import Contact, Teller, Told
from perdure.model.observation import ContainerState, Health, LastExit, Observation
from tests.fakes.engine import FakeEngine

BEGAN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
OWNER = Ownership("fleet", "edge-1", "web", "life-1", 1, "hash", "", "shop", "server")
RUNNING = Managed("a", "web", OWNER, ContainerState.RUNNING, 0, BEGAN, None, Health.NONE)
DEAD = replace(RUNNING, state=ContainerState.DEAD)
DYING = replace(DEAD, being_stopped=True)
"""Its process is gone, and Podman still knows that somebody stops it."""
STOPPING = replace(RUNNING, state=ContainerState.STOPPING, being_stopped=True)
LEAVING = replace(RUNNING, state=ContainerState.MISSING)
"""Its removal has begun."""
ANEW = replace(RUNNING, started_at=BEGAN + timedelta(minutes=1))
GONE = None


ENDED = replace(RUNNING, state=ContainerState.EXITED, exit=LastExit(code=137))
"""A moment ago, as far as anybody can tell."""


class Film(FakeEngine):
    """Shows one picture after the other, and the last one for ever."""

    def show(self, pictures: Sequence[Managed | None]) -> None:
        self.pictures = list(pictures)
        self.looks = 0

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """The next picture."""
        self.looks += 1
        picture = self.pictures.pop(0) if len(self.pictures) > 1 else self.pictures[0]
        return [] if picture is None else [picture]

    async def exit_of(self, container_id: str) -> LastExit | None:
        """As the next picture shows."""
        picture = self.pictures.pop(0) if len(self.pictures) > 1 else self.pictures[0]
        return picture.exit if picture else None


class Ear(Teller):
    """Hears what a workload is told, and sends nothing."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.answer = Told.DELIVERED

    async def observe(self, workload: str, seen: Observation) -> Told:
        """Take it down."""
        self.heard.append(seen)
        return self.answer


class Scene:
    """One workload that is believed to be up."""

    def __init__(self) -> None:
        self.engine, self.ear, self.beliefs, self.contact = Film(), Ear(), Beliefs(), Contact()
        self.inspection = Inspection(
            engine=self.engine,
            sight=Sight(self.engine, "fleet", "edge-1", "server"),
            fence=Fence(self._nobody),
            teller=self.ear,
            deaths=Deaths(lambda *_: None),
            beliefs=self.beliefs,
            contact=self.contact,
        )
        self.beliefs.change("web", Belief("a", 1, BEGAN))

    async def _nobody(self, _: str) -> str | None:
        return None

    async def told(self, *pictures: Managed | None) -> str:
        """What is told, in a word, once a look has come to rest."""
        self.engine.show(pictures)
        await self.inspection.check("web")
        assert len(self.ear.heard) <= 1
        return self.ear.heard[0].state.value if self.ear.heard else "nothing"


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """In which everything takes a tenth of its time."""
    for name in ("SETTLE", "CALM", "AFTER_STOP", "ASK_AGAIN"):
        monkeypatch.setattr(inspection, name, getattr(inspection, name) / 10)
    monkeypatch.setattr(inspection, "LOOK_AGAIN", [wait / 10 for wait in inspection.LOOK_AGAIN])
    return Scene()


@pytest.mark.parametrize(
    ("pictures", "told"),
    [
        pytest.param([RUNNING], "nothing", id="it runs"),
        pytest.param([DEAD, ENDED], "exited", id="killed from outside"),
        pytest.param([DEAD, DEAD, DEAD, ENDED], "exited", id="and Podman is slow to see it"),
        pytest.param([DEAD], "dead", id="its monitor died as well"),
        pytest.param([DYING, ENDED, GONE], "missing", id="removed by force"),
        pytest.param([DYING, ENDED, LEAVING, GONE], "missing", id="seen while it is removed"),
        pytest.param([ENDED, GONE], "missing", id="seen too late to tell why it ended"),
        pytest.param([STOPPING, ENDED], "exited", id="stopped"),
        pytest.param([DYING, ENDED, ANEW], "running", id="restarted"),
        pytest.param([GONE], "missing", id="gone"),
        pytest.param([LEAVING], "missing", id="a removal that was broken off"),
        pytest.param([STOPPING], "stopping", id="a stop that was broken off when its process was gone"),
    ],
)
async def test_what_is_told(scene: Scene, pictures: Sequence[Managed | None], told: str) -> None:
    """An end counts once it has come to rest: what is removed or restarted by hand has not ended with code 137."""
    assert await scene.told(*pictures) == told


async def test_an_end_is_told_at_once_where_nothing_can_follow(scene: Scene) -> None:
    """A crash restarts without a wait, and so does what ended while nobody looked."""
    await scene.told(DEAD, ENDED)
    assert scene.engine.looks == 1, "the rest was asked of one container alone"
    scene.ear.heard.clear()
    scene.beliefs.change("web", Belief("a", 1, BEGAN))
    long_ago = LastExit(code=137, at=datetime.now(UTC) - timedelta(minutes=1))
    assert await scene.told(replace(ENDED, exit=long_ago)) == "exited"
    assert scene.engine.looks == 1


async def test_news_in_the_middle_of_a_look_is_seen_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event wakes a look that waits."""
    monkeypatch.setattr(inspection, "SETTLE", timedelta(minutes=1))
    monkeypatch.setattr(inspection, "LOOK_AGAIN", [timedelta(seconds=30)] * 2)
    scene.engine.show([DYING, GONE])
    check = asyncio.create_task(scene.inspection.check("web"))
    while not scene.engine.looks:
        await asyncio.sleep(0)
    scene.inspection.hint("web")
    async with asyncio.timeout(5):
        await check
    assert [seen.state for seen in scene.ear.heard] == [ContainerState.MISSING]


@pytest.mark.parametrize(
    ("answer", "believed"), [(Told.AWAY, "a"), (Told.REFUSED, "a"), (Told.GONE, None), (Told.DELIVERED, "")]
)
async def test_what_was_not_heard_is_told_again(scene: Scene, answer: Told, believed: str | None) -> None:
    """The belief stays until its workflow knows better; where there is no workflow, nobody believes anything."""
    scene.ear.answer = answer
    assert await scene.told(GONE) == "missing"
    belief = scene.beliefs.of("web")
    assert (None if belief is None else belief.container_id) == believed


async def test_what_was_started_after_the_list_goes_on_being_followed(scene: Scene) -> None:
    """Else its death would go unnoticed until the next list but one."""
    deaths = scene.inspection._deaths
    try:
        assert deaths.follow("web", "a", os.getpid())
        assert scene.inspection.compare(Seen({}, []))["web"].state is ContainerState.MISSING
        assert "a" in deaths
        scene.beliefs.change("web", None)
        scene.inspection.compare(Seen({}, []))
        assert "a" not in deaths
    finally:
        deaths.close()


async def test_nothing_is_sent_while_temporal_is_away(scene: Scene) -> None:
    """Each message would wait for its timeout with the lock in hand, and the host could not help itself."""
    scene.contact.note(False)
    assert await scene.told(GONE) == "nothing"
    scene.contact.note(True)
    assert await scene.told(GONE) == "missing"
