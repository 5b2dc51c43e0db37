# SPDX-License-Identifier: Apache-2.0
"""The life of a workload as a state machine: any event in any state, in any order, as often as anybody likes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.host import HostChange
from perdure.model.messages import (
    ApplyRequest,
    AttemptReport,
    HostPresence,
    Outcome,
    ReportKind,
    RetryRequest,
    WaitingOn,
)
from perdure.model.observation import ContainerState, Health, LastExit, Live, Observation
from perdure.model.record import Course, Record
from perdure.model.states import SUBSTATES, State
from perdure.model.status import HISTORY_LENGTH
from perdure.model.workload import ContainerSpec, DependencyCondition, PullPolicy, RestartPolicy, Retry, WorkloadSpec
from perdure.policy import answers, attempts, dependencies, host_loss, plan, sightings, wishes
from perdure.policy.plan import Act

START = datetime(2026, 1, 1, tzinfo=UTC)

specs = st.builds(
    lambda image, pull, restart, tag, limit, others: WorkloadSpec(
        container=ContainerSpec(image=f"reg/app:{image}"),
        pull_policy=pull,
        restart=restart,
        tags={"tag": str(tag)},
        depends_on=dict.fromkeys(others, DependencyCondition.RUNNING),
        retry=Retry(give_up_after=timedelta(minutes=limit) if limit else None),
    ),
    st.integers(1, 3),
    st.sampled_from(PullPolicy),
    st.sampled_from(RestartPolicy),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([(), (), ("edge-1/db",), ("edge-1/db", "edge-2/cache")]),
)
faults = st.builds(
    lambda kind, message: Fault(kind=kind, fault_class=FaultClass.TRANSIENT, phase=Phase.START, message=message),
    st.sampled_from([FaultKind.DISK_FULL, FaultKind.IMAGE_NOT_FOUND]),
    st.sampled_from(["one", "two"]),
)


class Life(RuleBasedStateMachine):
    """Applies events and checks what must hold after each."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.record = wishes.born("edge-1", "web", "incarnation-1", self.now)
        self.before = self.record
        self.applies: list[str] = []

    def take(self, record: Record) -> None:
        """The record after one event."""
        self.before, self.record = self.record, record

    @rule(seconds=st.integers(1, 400))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.before = self.record

    # wishes

    @rule(
        spec=specs, revision=st.none() | st.integers(1, 3), expected=st.none() | st.integers(0, 4), again=st.booleans()
    )
    def apply(self, spec: WorkloadSpec, revision: int | None, expected: int | None, again: bool) -> None:
        id_ = self.applies[-1] if again and self.applies else f"apply-{len(self.applies)}"
        self.applies.append(id_)
        request = ApplyRequest(apply_id=id_, spec=spec, revision=revision, expect_generation=expected)
        self.take(wishes.applied(self.record, request, self.now))

    @rule()
    def remove(self) -> None:
        waiting = self.record.successor
        self.take(wishes.removal_asked(self.record, self.now))
        assert self.record.removing
        assert self.record.successor is None
        if waiting is not None:
            answer = answers.answer(self.record, waiting.apply_id)
            assert answer is not None
            assert answer.outcome is Outcome.REMOVED

    @rule()
    def pause(self) -> None:
        self.take(wishes.paused(self.record, self.now))

    @rule()
    def resume(self) -> None:
        self.take(wishes.resumed(self.record, self.now))

    @rule(attempt=st.integers(0, 50))
    def retry(self, attempt: int) -> None:
        self.take(wishes.retry_asked(self.record, RetryRequest(attempt=attempt), self.now))

    # attempts: the workflow tells their end only for the step that is under way

    def _is_under_way(self, *acts: Act) -> bool:
        return plan.next_step(self.record, self.now).act in acts

    @precondition(lambda self: self._is_under_way(Act.ENSURE, Act.PULL, Act.STOP))
    @rule()
    def begin(self) -> None:
        phase = plan.next_step(self.record, self.now).phase
        self.take(attempts.step_begun(self.record, phase, self.now))

    @rule(fault=faults, attempt=st.integers(1, 99), generation=st.integers(0, 3), phase=st.sampled_from(Phase))
    def report(self, fault: Fault, attempt: int, generation: int, phase: Phase) -> None:
        report = AttemptReport(
            kind=ReportKind.FAILED,
            generation=generation,
            phase=phase,
            attempt=attempt,
            fault=fault,
            fingerprint=fault.message,
            at=self.now,
            next_attempt_at=self.now + timedelta(seconds=9),
        )
        self.take(attempts.reported(self.record, report, self.now))

    @rule(generation=st.integers(0, 3), phase=st.sampled_from(Phase))
    def pick_up(self, generation: int, phase: Phase) -> None:
        report = AttemptReport(kind=ReportKind.PICKED_UP, generation=generation, phase=phase, attempt=1, at=self.now)
        self.take(attempts.reported(self.record, report, self.now))

    @rule(picked_up=st.booleans(), alive=st.booleans(), seen=st.booleans())
    def learn_presence(self, picked_up: bool, alive: bool, seen: bool) -> None:
        presence = HostPresence(picked_up=picked_up, alive=alive, seen_at=self.now if seen else None)
        self.take(attempts.host_presence_learned(self.record, presence, self.now))

    @rule(limit=st.none() | st.integers(1, 9))
    def learn_defaults(self, limit: int | None) -> None:
        self.take(attempts.central_defaults_learned(self.record, timedelta(hours=limit) if limit else None))

    @precondition(lambda self: self._is_under_way(Act.AWAIT))
    @rule()
    def wait_for_others(self) -> None:
        self.take(dependencies.wait_begun(self.record, self.now))

    @rule(back=st.integers(0, 2), unmet=st.sampled_from([("edge-1/db is away",), ("a", "b"), ()]))
    def learn_what_is_waited_for(self, back: int, unmet: tuple[str, ...]) -> None:
        told = WaitingOn(turn=max(0, self.record.turn - back), unmet=unmet)
        self.take(dependencies.learned(self.record, told))
        assert (self.record.waiting_on == unmet) or (self.record == self.before)

    @precondition(lambda self: self._is_under_way(Act.AWAIT))
    @rule()
    def meet_dependencies(self) -> None:
        self.take(dependencies.met(self.record, self.now))
        assert self._is_under_way(Act.ENSURE, Act.PULL)

    @precondition(lambda self: self._is_under_way(Act.ENSURE))
    @rule()
    def find_no_image(self) -> None:
        self.take(attempts.image_found_missing(self.record, self.now))

    @precondition(lambda self: self._is_under_way(Act.ENSURE))
    @rule(number=st.integers(1, 3))
    def start(self, number: int) -> None:
        live = Live(generation=self.record.container_generation, container_id=str(number), started_at=self.now)
        self.take(attempts.container_started(self.record, live, self.now))

    @precondition(lambda self: self._is_under_way(Act.PULL))
    @rule(warning=st.sampled_from(["", "old"]))
    def fetch(self, warning: str) -> None:
        self.take(attempts.image_fetched(self.record, warning, self.now))

    @precondition(lambda self: self._is_under_way(Act.ENSURE, Act.PULL, Act.STOP))
    @rule(fault=faults, attempt=st.integers(1, 99))
    def reject(self, fault: Fault, attempt: int) -> None:
        self.take(attempts.rejected(self.record, fault, attempt, self.now))

    @precondition(lambda self: self._is_under_way(Act.ENSURE, Act.PULL))
    @rule(fault=st.none() | faults, attempt=st.integers(0, 99))
    def give_up(self, fault: Fault | None, attempt: int) -> None:
        self.take(attempts.gave_up(self.record, fault, attempt, self.now))

    @precondition(lambda self: self._is_under_way(Act.ENSURE, Act.PULL, Act.STOP))
    @rule(fault=faults)
    def lose(self, fault: Fault) -> None:
        self.take(attempts.attempt_lost(self.record, fault, self.now))

    @precondition(lambda self: self._is_under_way(Act.STOP))
    @rule()
    def finish_removal(self) -> None:
        self.take(attempts.removed(self.record, self.now))

    @precondition(lambda self: self.record.course is Course.GONE and self.record.successor is not None)
    @rule()
    def live_again(self) -> None:
        self.before = self.record = wishes.reborn(self.record, "incarnation-2", self.now)
        assert self.record.generation == 1

    @rule()
    def hand_over(self) -> None:
        self.take(Record.model_validate_json(attempts.handed_over(self.record).model_dump_json()))

    # sightings

    @rule(
        number=st.integers(1, 3),
        state=st.sampled_from(ContainerState),
        code=st.none() | st.integers(0, 2),
        age=st.none() | st.integers(0, 900),
        restarts=st.sampled_from([0, 0, 1, 3]),
        ours=st.booleans(),
    )
    def observe(
        self, number: int, state: ContainerState, code: int | None, age: int | None, restarts: int, ours: bool
    ) -> None:
        seen = Observation(
            container_id=str(number),
            generation=number,
            incarnation=self.record.incarnation if ours else "",
            state=state,
            exit=LastExit(code=code, at=self.now) if code is not None else None,
            health=Health.UNHEALTHY if number == 1 else Health.NONE,
            started_at=None if age is None else self.now - timedelta(seconds=age),
            seen_at=self.now,
            restarts=restarts,
        )
        self.take(sightings.observed(self.record, seen, self.now))
        self.told_again(seen)

    def told_again(self, seen: Observation) -> None:
        """News that comes twice changes nothing the second time: a host that is not sure whether it was heard tells it again."""
        again = sightings.observed(self.record, seen, self.now)
        assert (again.course, again.state, again.turn, again.restarts) == (
            self.record.course,
            self.record.state,
            self.record.turn,
            self.record.restarts,
        )

    # the host

    @rule(lost=st.booleans(), late=st.integers(0, 2))
    def host_changes(self, lost: bool, late: int) -> None:
        change = HostChange(lost=lost, at=self.now - timedelta(seconds=late), seen_at=self.now - timedelta(seconds=25))
        self.take(host_loss.changed(self.record, change, self.now))
        if self.record.host_told_at == change.at and self.record.course is not Course.GONE:
            assert (self.record.host_lost_at is not None) is lost

    @rule()
    def host_tells_something(self) -> None:
        self.take(host_loss.heard(self.record, self.now))
        assert self.record.host_lost_at is None
        assert self.record.shown == (self.record.state, self.record.substate, self.record.since)

    @rule()
    def abandon(self) -> None:
        self.take(host_loss.abandoned(self.record, self.now))
        assert self.record.course is Course.GONE
        assert self.record.successor is None

    # what must hold

    @invariant()
    def what_a_lost_host_makes_unsure_is_shown_as_unknown(self) -> None:
        state, substate, since = self.record.shown
        assert substate in SUBSTATES[state]
        if state is State.UNKNOWN:
            assert since == self.record.host_lost_at
            assert self.record.state in (State.RUNNING, State.PENDING)
        elif self.record.host_lost_at is not None:
            assert state is not State.RUNNING

    @invariant()
    def a_loss_says_when_the_host_was_seen(self) -> None:
        if self.record.host_lost_at is not None:
            assert self.record.host_seen_at is not None

    @invariant()
    def the_substate_belongs_to_the_state(self) -> None:
        assert self.record.substate in SUBSTATES[self.record.state]

    @invariant()
    def generations_and_turns_never_fall(self) -> None:
        assert self.record.generation >= self.before.generation
        assert self.record.turn >= self.before.turn
        assert self.record.container_generation <= self.record.generation

    @invariant()
    def what_is_paused_says_so_and_does_nothing(self) -> None:
        if self.record.paused and not self.record.removing:
            assert self.record.state is State.PAUSED
            assert self._is_under_way(Act.REST)
        else:
            assert self.record.state is not State.PAUSED

    @invariant()
    def removal_goes_on_until_it_is_done(self) -> None:
        if self.record.removing:
            assert self._is_under_way(Act.STOP, Act.WAIT, Act.CLOSE)
        assert (self.record.course is Course.GONE) == (self.record.state is State.REMOVED)

    @invariant()
    def nothing_is_begun_before_its_dependencies_are_met(self) -> None:
        if self._is_under_way(Act.ENSURE, Act.PULL) and self.record.spec is not None and self.record.spec.depends_on:
            assert self.record.dependencies_met or self.record.has_run
        if self._is_under_way(Act.AWAIT):
            assert self.record.spec is not None
            assert self.record.spec.depends_on
            assert not self.record.dependencies_met
            assert self.record.give_up_at is None

    @invariant()
    def only_a_wait_waits_for_others(self) -> None:
        if self.record.waiting_on:
            assert self._is_under_way(Act.AWAIT, Act.WAIT)

    @invariant()
    def running_means_that_a_container_is_believed_to_be_up(self) -> None:
        if self.record.state is State.RUNNING:
            assert self.record.live is not None
            assert self.record.live.generation == self.record.generation
            assert self.record.course is Course.UP

    @invariant()
    def nobody_waits_longer_than_the_cap(self) -> None:
        if self.record.resume_at is not None:
            assert self.record.resume_at - self.now <= timedelta(seconds=300)

    @invariant()
    def the_history_is_short(self) -> None:
        assert len(self.record.history) <= HISTORY_LENGTH
        assert len(self.record.applies) <= wishes.REMEMBERED_APPLIES

    @invariant()
    def everybody_who_applied_gets_an_answer_or_waits(self) -> None:
        for id_ in self.applies[-3:]:
            answer = answers.answer(self.record, id_)
            if self.record.course is Course.GONE and self.record.successor is None:
                assert answer is not None
            if answer is not None and answer.outcome is Outcome.RUNNING:
                assert self.record.course in (Course.UP, Course.ENDED)

    @invariant()
    def the_status_can_be_told(self) -> None:
        self.record.status("hash").model_dump_json()

    @invariant()
    def a_moved_state_has_its_time(self) -> None:
        assert self.record.since <= self.now
        if self.record.state is not self.before.state:
            assert self.record.since == self.now


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
