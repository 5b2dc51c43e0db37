# SPDX-License-Identifier: Apache-2.0
"""A host on its own: what it starts while Temporal is away, and what it leaves alone; on an engine in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from activities import autonomy
from activities.autonomy import Autonomy
from activities.engine import EngineFault, Managed, Ownership
from activities.fence import Fence
from activities.ledger import Ledger, LocalRuns
from activities.telling import Contact
from perdure.model.faults import FaultKind, Phase
from perdure.model.observation import ContainerState, LastExit, Live
from perdure.model.workload import ContainerSpec, RestartBackoff, RestartPolicy, WorkloadSpec
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async

FLEET, HOST, FLEET_ID = "default", "edge-1", "the-server"
MOMENT = timedelta(milliseconds=10)
AGO = timedelta(minutes=2)


class Lonely:
    """A host without Temporal, and what is done to it."""

    def __init__(self, ledger: Path) -> None:
        self.engine = FakeEngine(images={"reg/app:1"})
        self.contact = Contact(is_there=False)
        self.fence = Fence(self._nobody)
        self.path = ledger
        self.alone = self.again()

    def again(self) -> Autonomy:
        """As after a restart of the worker."""
        self.ledger = Ledger(self.path)
        self.alone = Autonomy(self.engine, self.fence, self.contact, self.ledger, fleet=FLEET, host=HOST)
        return self.alone

    async def _nobody(self, _: str) -> str | None:
        return None

    async def container(
        self,
        state: ContainerState = ContainerState.EXITED,
        *,
        code: int = 1,
        generation: int = 1,
        incarnation: str = "i1",
        fleet_id: str = FLEET_ID,
        ran: timedelta = timedelta(minutes=1),
        ended: timedelta = AGO,
        label: str | None = None,
        **settings: Any,
    ) -> str:
        """A container of workload ``web`` as a list shows it."""
        spec = WorkloadSpec(container=ContainerSpec(image="reg/app:1"), **settings)
        written = spec.model_dump_json(include={"restart", "restart_backoff"})
        restart = written if label is None else label
        name = f"web-g{generation}-{incarnation}"
        owner = Ownership(FLEET, HOST, name, incarnation, generation, name, restart, "shop", fleet_id)
        live = await self.engine.ensure_running(name, spec.container, owner)
        now = datetime.now(UTC)
        self.engine.containers[live.container_id] = replace(
            self.engine.containers[live.container_id],
            owner=replace(owner, workload="web"),
            state=state,
            started_at=now - ended - ran,
            exit=LastExit(code=code, at=now - ended) if state is ContainerState.EXITED else None,
        )
        self.engine.mutations.clear()
        return live.container_id

    def untold(self, container_id: str) -> LocalRuns | None:
        """What the workload will be told."""
        return self.alone.restarts_of("web", container_id, self.engine.containers[container_id])

    def runs(self, container_id: str) -> bool:
        """Whether a container runs now."""
        return self.engine.containers[container_id].state is ContainerState.RUNNING

    async def started(self, container_id: str) -> None:
        """Wait until a container runs."""
        await that(lambda: self.runs(container_id))

    async def nothing_happens(self) -> None:
        """Some looks later all is as it was."""
        before = dict(self.engine.containers)
        await asyncio.sleep(8 * MOMENT.total_seconds())
        assert self.engine.containers == before
        assert self.engine.mutations == []


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lonely:
    """Temporal is away; time runs fast."""
    for name in ("GRACE", "LOOK_EVERY"):
        monkeypatch.setattr(autonomy, name, MOMENT)
    monkeypatch.setattr(autonomy, "TRY_AGAIN", (MOMENT, MOMENT))
    return Lonely(tmp_path / "autonomy.json")


@pytest.mark.parametrize(
    ("policy", "code", "runs"),
    [
        (RestartPolicy.ALWAYS, 0, True),
        (RestartPolicy.ALWAYS, 1, True),
        (RestartPolicy.ON_FAILURE, 0, False),
        (RestartPolicy.ON_FAILURE, 137, True),
        (RestartPolicy.NEVER, 0, False),
        (RestartPolicy.NEVER, 1, False),
    ],
)
async def test_what_ended_is_restarted_by_its_policy(
    host: Lonely, policy: RestartPolicy, code: int, runs: bool
) -> None:
    """The label says it, and it is told how the run before ended."""
    web = await host.container(code=code, restart=policy)
    async with host.alone.running():
        if not runs:
            await host.nothing_happens()
            return
        await host.started(web)
        told = host.untold(web)
        assert told is not None
        assert (told.restarts, told.exit and told.exit.code, told.container_id) == (1, code, web)
    assert [one.what for one in host.engine.mutations] == ["start"]


@pytest.mark.parametrize("policy", RestartPolicy)
async def test_what_a_reboot_took_down_runs_again(host: Lonely, policy: RestartPolicy) -> None:
    """It did not end, so no policy is asked."""
    web = await host.container(ContainerState.CREATED, restart=policy)
    async with host.alone.running():
        await host.started(web)


async def test_ends_in_a_row_wait_longer_and_end_at_the_limit(host: Lonely) -> None:
    """On a curve of its own, which a worker's death does not begin anew."""
    settings = RestartBackoff(initial=timedelta(milliseconds=10), maximum=timedelta(seconds=300), limit=3)
    web = await host.container(restart_backoff=settings)
    for number in range(1, 4):
        async with host.again().running():
            await host.started(web)
            await that(partial(has_crashed, host, number))
        now = datetime.now(UTC)
        ended = replace(
            host.engine.containers[web],
            state=ContainerState.EXITED,
            started_at=now - AGO,
            exit=LastExit(code=1, at=now - timedelta(seconds=110)),
        )
        host.engine.containers[web] = ended
    host.engine.mutations.clear()
    async with host.again().running():
        await host.nothing_happens()
    told = host.untold(web)
    assert told is not None
    assert (told.restarts, told.crashes) == (3, 3)


def has_crashed(host: Lonely, times: int) -> bool:
    """Whether so many restarts in a row are written down."""
    runs = host.ledger.runs_of("web")
    return runs is not None and runs.crashes == times


class Deadly(FakeEngine):
    """The worker is killed in a start: before Podman does it, or right after."""

    is_done = False

    async def start_again(self, container_id: str) -> Live | None:
        """Hang."""
        if self.is_done:
            await super().start_again(container_id)
        self.starts.append(container_id)
        await asyncio.Event().wait()
        return None


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_worker_that_is_killed_in_a_start_counts_it_if_it_was_done(host: Lonely, is_done: bool) -> None:
    """The next one sees by the container whether it was."""
    host.engine = Deadly(images={"reg/app:1"})
    host.engine.is_done = is_done
    web = await host.container()
    host.engine.starts.clear()
    async with host.again().running():
        await that(lambda: bool(host.engine.starts))
    host.again()
    told = host.untold(web)
    assert (told.restarts if told else 0) == (1 if is_done else 0)
    living = FakeEngine(images={"reg/app:1"})
    living.containers = host.engine.containers
    host.engine = living
    async with host.again().running():
        await host.started(web)
        await that(lambda: host.untold(web) is not None)
    told = host.untold(web)
    assert told is not None
    assert (told.restarts, told.crashes) == (1, 1)


async def test_a_wait_is_waited_for(host: Lonely) -> None:
    """Its first end after a short run is not answered at once."""
    settings = RestartBackoff(initial=timedelta(seconds=100))
    web = await host.container(ran=timedelta(seconds=1), ended=timedelta(seconds=50), restart_backoff=settings)
    async with host.alone.running():
        await host.nothing_happens()
        ended = host.engine.containers[web]
        long_ago = LastExit(code=1, at=datetime.now(UTC) - timedelta(minutes=5))
        host.engine.containers[web] = replace(ended, exit=long_ago)
        await host.started(web)


async def test_a_clock_that_was_set_back_keeps_nothing_down(host: Lonely) -> None:
    """A board without a battery boots in the past: its containers ended in the future."""
    web = await host.container(ran=timedelta(seconds=1), ended=-timedelta(days=365))
    async with host.alone.running():
        await host.started(web)


@pytest.mark.parametrize("state", [state for state in ContainerState if state not in ("exited", "created", "missing")])
async def test_where_one_is_alive_no_other_is_started(host: Lonely, state: ContainerState) -> None:
    """In the middle of an update the new container is made before the old one ends; what cannot be started is left alone."""
    await host.container(state, generation=1)
    await host.container(ContainerState.CREATED, generation=2)
    async with host.alone.running():
        await host.nothing_happens()


async def test_of_several_generations_the_newest_is_started(host: Lonely) -> None:
    """The others are left as they are."""
    old = await host.container(generation=1)
    new = await host.container(ContainerState.CREATED, generation=2)
    async with host.alone.running():
        await host.started(new)
        await asyncio.sleep(5 * MOMENT.total_seconds())
    assert not host.runs(old)
    assert [one.what for one in host.engine.mutations] == ["start"]


async def test_of_several_lives_of_a_workload_none_is_chosen(host: Lonely, caplog: pytest.LogCaptureFixture) -> None:
    """Only Temporal knows which one is wanted."""
    await host.container(incarnation="i1")
    await host.container(incarnation="i2")
    async with host.alone.running():
        await host.nothing_happens()
    assert caplog.text.count("a container cannot be kept up here") == 1


async def test_what_rests_stays_down(host: Lonely) -> None:
    """Paused, ended for good, being removed: as it was when Temporal could still be asked, also after a worker's start."""
    host.ledger.rest({"web": "i1"})
    web = await host.container()
    async with host.again().running():
        await host.nothing_happens()
        host.alone.started("web")
        await host.started(web)


async def test_what_rested_in_an_earlier_life_does_not_rest_now(host: Lonely) -> None:
    """A workload that was deleted and applied again is another one."""
    host.ledger.rest({"web": "an earlier one"})
    web = await host.container()
    async with host.alone.running():
        await host.started(web)


async def test_containers_of_another_server_are_left_alone(host: Lonely) -> None:
    """Its fleet may have the same name; where the last fleet is not known, all are taken care of."""
    host.ledger.serve("another")
    web = await host.container()
    async with host.alone.running():
        await host.nothing_happens()
    host.path.unlink()
    async with host.again().running():
        await host.started(web)


async def test_while_temporal_is_there_nothing_is_done(host: Lonely) -> None:
    """It begins when Temporal goes, and ends when it is back."""
    host.contact.note(answers=True)
    web = await host.container()
    async with host.alone.running():
        await host.nothing_happens()
        host.contact.note(answers=False)
        await host.started(web)
        host.contact.note(answers=True)
        ended = replace(host.engine.containers[web], state=ContainerState.EXITED, exit=LastExit(code=1))
        host.engine.containers[web] = ended
        host.engine.mutations.clear()
        await host.nothing_happens()


async def test_it_asks_what_rests_while_there_is_somebody_to_ask(host: Lonely, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once when Temporal is reached, and again and again."""
    monkeypatch.setattr(autonomy, "ASK_EVERY", MOMENT)
    host.contact.note(answers=True)
    answers: list[dict[str, str]] = [{"web": "i1"}, {}, {"web": "i2"}]

    async def resting() -> dict[str, str]:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async with host.alone.running():
        host.alone.serve(FLEET_ID, resting)
        await that(lambda: Ledger(host.path).resting == {"web": "i2"})
    assert Ledger(host.path).fleet_id == FLEET_ID


async def test_a_step_that_is_under_way_is_waited_for(host: Lonely) -> None:
    """It may start the container itself."""
    web = await host.container()
    async with host.alone.running():
        async with host.fence.alone("web"):
            await host.nothing_happens()
            host.engine.containers[web] = replace(host.engine.containers[web], state=ContainerState.RUNNING)
        await asyncio.sleep(5 * MOMENT.total_seconds())
    assert host.engine.mutations == []


class Stubborn(FakeEngine):
    """Its starts fail at first."""

    failures: list[EngineFault | None]
    calls = 0

    async def start_again(self, container_id: str) -> Live | None:
        """Fail by a fault, or by None, while there are some left."""
        self.calls += 1
        if self.failures:
            if (failure := self.failures.pop(0)) is not None:
                raise failure
            return None
        return await super().start_again(container_id)


async def test_a_start_that_fails_is_tried_again(
    tmp_path: Path, host: Lonely, caplog: pytest.LogCaptureFixture
) -> None:
    """After a wait, and the same trouble is told once."""
    host.engine = Stubborn(images={"reg/app:1"})
    host.engine.failures = [fault(FaultKind.PORT_IN_USE, "port 80", phase=Phase.START)] * 3 + [None]
    web = await host.container()
    async with host.again().running():
        await host.started(web)
    assert host.engine.calls == 5
    assert caplog.text.count("a container cannot be kept up here") == 2
    told = host.untold(web)
    assert told is not None
    assert told.restarts == 1


class Odd(FakeEngine):
    """Answers its first question in a way that nobody has thought of."""

    is_odd = True

    async def list_managed(self, fleet: str, host: str, workload: str | None = None) -> list[Managed]:
        """As ever but for the first time."""
        was_odd, self.is_odd = self.is_odd, False
        if was_odd:
            raise LookupError("whatever this may mean")
        return await super().list_managed(fleet, host, workload)


async def test_a_fault_of_our_own_does_not_end_the_watch(host: Lonely, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else would look while Temporal is away."""
    host.engine = Odd(images={"reg/app:1"})
    web = await host.container()
    async with host.again().running():
        await host.started(web)
    assert "a fault of Perdure itself" in caplog.text


async def test_a_label_that_cannot_be_read_starts_nothing(host: Lonely, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else wrote it; an empty one is of a time before there was one, and means the default."""
    await host.container(label='{"restart": "sometimes"}')
    async with host.alone.running():
        await host.nothing_happens()
    causes = [getattr(record, "cause", "") for record in caplog.records]
    assert causes.count("its restart label cannot be read") == 1
    host.engine.containers.clear()
    web = await host.container(label="")
    async with host.again().running():
        await host.started(web)


async def test_what_was_told_is_not_told_again(host: Lonely) -> None:
    """Nor what was done with another container."""
    web = await host.container()
    async with host.alone.running():
        await host.started(web)
        await that(lambda: host.untold(web) is not None)
    assert host.alone.restarts_of("web", "another", None) is None
    host.alone.told("web")
    assert host.untold(web) is None


async def that(claim: Callable[[], bool]) -> None:
    """Wait until a claim holds."""

    async def look() -> bool:
        return claim()

    await eventually_async(look, within=5)
