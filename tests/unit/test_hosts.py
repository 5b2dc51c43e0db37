# SPDX-License-Identifier: Apache-2.0
"""When a host is lost and found: any sign in any order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.model.host import (
    HISTORY_LENGTH,
    Difference,
    HostChange,
    HostSign,
    HostState,
    ResyncReason,
    ResyncReport,
    WorkerInfo,
)
from perdure.model.host_record import HostRecord
from perdure.policy import hosts
from perdure.policy.hosts import End

START = datetime(2026, 1, 1, tzinfo=UTC)
HEARTBEAT = timedelta(seconds=10)
WITHIN = timedelta(seconds=30)


def worker(number: int = 1) -> WorkerInfo:
    """A worker process."""
    return WorkerInfo(identity=f"host/edge-1@{number}", version="1.0", started_at=START)


def report(at: datetime) -> ResyncReport:
    """A resync that found nothing."""
    return ResyncReport(at=at, reason=ResyncReason.ASKED, took=timedelta(), containers=0, workloads=0)


def ready(now: datetime = START) -> HostRecord:
    """A host whose worker answers, and whose workloads know."""
    record = hosts.ordered(hosts.worker_started(hosts.born("edge-1", now), worker(), now))
    record = hosts.supervising(record, HostSign(worker=worker()), now)
    assert record.news is not None
    return hosts.told(record, record.news)


def silent(record: HostRecord, now: datetime, seen_at: datetime | None = None) -> HostRecord:
    """Its supervision's heartbeats stop."""
    return hosts.supervision_ended(record, record.orders, End.SILENCE, "its worker no longer answers", seen_at, now)


@pytest.mark.parametrize(
    ("end", "grace"),
    [(End.SILENCE, hosts.SILENCE_GRACE), (End.TROUBLE, hosts.SILENCE_GRACE), (End.PEACE, hosts.PEACE_GRACE)],
)
def test_a_host_is_lost_after_a_grace_period_and_its_workloads_are_told(end: End, grace: timedelta) -> None:
    """Within thirty seconds of its last sign of life, with the time of that."""
    seen_at = START + timedelta(minutes=1)
    now = seen_at + (HEARTBEAT if end is End.SILENCE else timedelta(0))
    record = hosts.supervision_ended(ready(), 1, end, "a cause", seen_at, now)
    assert record.order_at == now, "the next supervision is ordered at once"
    assert hosts.time_passed(record, now + grace - timedelta(milliseconds=1)).state is HostState.READY
    lost_at = now + grace
    lost = hosts.time_passed(record, lost_at)
    assert lost.state is HostState.LOST
    assert lost_at - seen_at < WITHIN
    assert lost.news == HostChange(lost=True, at=lost_at, seen_at=seen_at, reason="a cause")
    assert lost.history[-1].reason == "a cause; last seen 2026-01-01 00:01:00 UTC"


def test_a_worker_that_takes_up_its_supervision_again_is_never_shown_as_lost() -> None:
    """A hiccup, or an outage of the server: nobody is told anything."""
    record = hosts.ordered(silent(ready(), START + HEARTBEAT))
    back = hosts.supervising(record, HostSign(worker=worker()), START + HEARTBEAT + timedelta(seconds=11))
    assert back.state is HostState.READY
    assert back.news is None
    assert hosts.wakes_at(back) is None
    assert hosts.time_passed(back, START + timedelta(days=1)) == back


def test_a_worker_that_is_started_again_quickly_is_never_shown_as_lost() -> None:
    """The supervision of the dead one is replaced at once, and its end means nothing any more."""
    now = START + timedelta(seconds=4)
    record = hosts.worker_started(ready(), worker(2), now)
    assert record.order_at == now
    record = hosts.ordered(record)
    late = hosts.supervision_ended(record, 1, End.SILENCE, "gone", None, now + timedelta(seconds=6))
    assert late == record, "the end of the old one is of no interest"
    back = hosts.supervising(record, HostSign(worker=worker(2), resync=report(now)), now + timedelta(seconds=2))
    assert (back.state, back.news, back.worker) == (HostState.READY, None, worker(2))
    assert back.last_resync == report(now)


def test_a_host_that_is_back_tells_its_workloads() -> None:
    """Whether its worker was started again, or had only been stopped."""
    lost = hosts.time_passed(silent(ready(), START + HEARTBEAT), START + WITHIN)
    for record in (lost, hosts.worker_started(lost, worker(2), START + 2 * WITHIN)):
        back = hosts.supervising(record, HostSign(worker=worker(2)), START + 3 * WITHIN)
        assert back.state is HostState.READY
        assert back.news is not None
        assert not back.news.lost
        assert back.news.at == START + 3 * WITHIN


def test_a_worker_that_starts_and_does_not_look_around_does_not_make_its_host_known() -> None:
    """It is lost again, and the workloads that may have heard something of it are told again."""
    lost = hosts.time_passed(silent(ready(), START + HEARTBEAT), START + WITHIN)
    waiting = hosts.worker_started(lost, worker(2), START + 2 * WITHIN)
    assert waiting.state is HostState.WAITING
    again = hosts.time_passed(hosts.ordered(waiting), START + 2 * WITHIN + hosts.START_GRACE)
    assert again.state is HostState.LOST
    assert again.news != lost.news


def test_a_lost_host_that_gave_a_sign_and_went_silent_again_is_told_again() -> None:
    """Whatever a worker did before it was stopped again, its workloads may have taken it for a return."""
    lost = hosts.time_passed(silent(ready(), START + HEARTBEAT), START + WITHIN)
    assert lost.news is not None
    record = hosts.ordered(hosts.told(lost, lost.news))
    assert silent(record, START + 2 * WITHIN).news is None, "nobody had taken up the supervision"
    again = silent(record, START + 2 * WITHIN, seen_at=START + WITHIN + timedelta(seconds=1))
    assert again.news is not None
    assert again.news.lost
    assert again.news.seen_at == START + WITHIN + timedelta(seconds=1)


def test_supervision_that_fails_again_and_again_is_ordered_ever_more_slowly() -> None:
    """A worker of another version may not know it. Silence is no such failure: it takes its time by itself."""
    record, now, waits = ready(), START, []
    for _ in range(12):
        now += timedelta(seconds=1)
        record = hosts.supervision_ended(record, record.orders, End.TROUBLE, "unknown", now, now)
        assert record.order_at is not None
        waits.append(record.order_at - now)
        now = record.order_at
        record = hosts.ordered(record)
    assert waits[0] == timedelta(0)
    assert max(waits) <= timedelta(seconds=60)
    assert sum(waits, timedelta()) > timedelta(seconds=60)
    assert silent(record, now).order_at == now


def test_silence_slows_nothing_down() -> None:
    """A worker that was stopped for long, and then gives its work back in peace, gets it again at once."""
    record, now = ready(), START
    for _ in range(5):
        now += HEARTBEAT
        record = hosts.ordered(hosts.time_passed(silent(record, now), now))
    assert hosts.supervision_ended(record, record.orders, End.PEACE, "newer", now, now).order_at == now


def test_a_host_is_forgotten_when_it_is_lost_and_not_before() -> None:
    """Whoever asks while its worker answers asks for later; a worker that starts makes it void."""
    asked = hosts.forget_asked(ready(), START)
    assert not hosts.is_forgotten(asked)
    lost = hosts.time_passed(silent(asked, START + HEARTBEAT), START + WITHIN)
    assert hosts.is_forgotten(lost)
    assert not hosts.is_forgotten(hosts.worker_started(asked, worker(2), START))


def test_a_resync_that_was_asked_for_does_not_make_a_lost_host_known() -> None:
    """Only supervision does, since only its end would be noticed."""
    lost = hosts.time_passed(silent(ready(), START + HEARTBEAT), START + WITHIN)
    assert hosts.resynced(lost, report(START + WITHIN), START + 2 * WITHIN).state is HostState.LOST


def test_a_look_without_news_does_not_hide_what_an_earlier_one_found() -> None:
    """The worker looks twice within a second when the server is back, and a user asks for another look."""
    difference = Difference(workload="web", found="the container is missing", done="its workload is told")
    telling = report(START).model_copy(update={"differences": (difference,)})
    record = hosts.supervising(ready(), HostSign(worker=worker(), resync=telling), START)
    record = hosts.supervising(record, HostSign(worker=worker(), resync=report(START + HEARTBEAT)), START + HEARTBEAT)
    record = hosts.resynced(record, report(START + WITHIN), START + WITHIN)
    status = record.status()
    assert (status.last_resync, status.last_differences) == (report(START + WITHIN), telling)


class Signs(RuleBasedStateMachine):
    """Applies signs, and lets time pass as the workflow does: it wakes when it said it would."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.record = hosts.born("edge-1", self.now)
        self.silent_since: datetime | None = START

    def _settle(self) -> None:
        self.record = hosts.time_passed(self.record, self.now)
        if self.record.order_at is not None and self.record.order_at <= self.now:
            self.record = hosts.ordered(self.record)

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds: float) -> None:
        until = self.now + timedelta(seconds=seconds)
        self._settle()
        while (wake := hosts.wakes_at(self.record)) is not None and wake <= until:
            self.now = max(self.now, wake)
            self._settle()
        self.now = until

    @rule(number=st.integers(1, 3))
    def a_worker_starts(self, number: int) -> None:
        self.record = hosts.worker_started(self.record, worker(number), self.now)
        self.silent_since = self.now
        self._settle()

    @rule(number=st.integers(1, 3))
    def a_worker_answers(self, number: int) -> None:
        self.record = hosts.supervising(self.record, HostSign(worker=worker(number)), self.now)
        self.silent_since = None
        assert self.record.state is HostState.READY
        self._settle()

    @precondition(lambda self: self.record.order_at is None)
    @rule(end=st.sampled_from(End), ran=st.booleans(), old=st.integers(0, 1))
    def a_supervision_ends(self, end: End, ran: bool, old: int) -> None:
        before = self.record
        number = self.record.orders - old
        self.record = hosts.supervision_ended(before, number, end, "over", self.now if ran else None, self.now)
        assert (self.record is before) is (old == 1)
        if old == 0 and self.silent_since is None:
            self.silent_since = self.now
        self._settle()

    @rule()
    def the_workloads_are_told(self) -> None:
        if self.record.news is not None:
            self.record = hosts.told(self.record, self.record.news)

    @rule()
    def a_new_run_begins(self) -> None:
        carried = hosts.carried(self.record, self.now).model_dump_json()
        self.record = HostRecord.model_validate_json(carried)
        self._settle()

    @rule()
    def somebody_asks_for_a_resync(self) -> None:
        self.record = hosts.resynced(self.record, report(self.now), self.now)

    @invariant()
    def silence_never_lasts_long_without_being_told(self) -> None:
        if self.silent_since is not None and self.now - self.silent_since > timedelta(seconds=16):
            assert hosts.time_passed(self.record, self.now).state is HostState.LOST

    @invariant()
    def a_supervision_is_always_under_way_or_due(self) -> None:
        assert self.record.orders > 0 or self.record.order_at is not None
        if self.record.order_at is not None:
            assert self.record.order_at - self.now <= timedelta(seconds=60)

    @invariant()
    def what_workloads_are_to_be_told_is_true(self) -> None:
        if self.record.news is not None and self.record.state is not HostState.WAITING:
            assert self.record.news.lost is (self.record.state is HostState.LOST)

    @invariant()
    def it_can_be_told(self) -> None:
        self.record.status().model_dump_json()
        assert len(self.record.history) <= HISTORY_LENGTH


TestSigns = Signs.TestCase
TestSigns.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
