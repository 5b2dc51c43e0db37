# SPDX-License-Identifier: Apache-2.0
"""When a host is believed, when it is lost, and when it is back. Pure, and total: signs may come late, twice and in any order.

A host is believed as long as its worker's supervision goes on. One that ended, in peace or in silence, is ordered anew at once:
a worker that is only slow, or was cut off from Temporal for a while, takes that up and is never shown as lost. Only if no sign
comes in a grace period is the host lost, and its workloads are told.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from perdure.model.host import (
    HISTORY_LENGTH,
    HostChange,
    HostSign,
    HostState,
    HostTransition,
    ResyncReport,
    WorkerInfo,
)
from perdure.model.host_record import HostRecord
from perdure.policy import backoff
from perdure.policy.shorten import shorten

START_GRACE = timedelta(seconds=15)
"""A worker that was started looks around first: a full resync of hundreds of containers takes seconds on a small machine."""
SILENCE_GRACE = timedelta(seconds=15)
"""After a heartbeat was missed (10 s). A worker that finds its server again after a long outage needs up to twelve to poll."""
PEACE_GRACE = timedelta(seconds=15)
"""A worker that was stopped in peace is often started again at once, for example by an upgrade."""

_AGAIN = (timedelta(seconds=1), timedelta(seconds=60))


class End(StrEnum):
    """How a supervision ended."""

    PEACE = "peace"
    """Its worker was shut down, or took up another one."""
    SILENCE = "silence"
    """Nobody took it up, or whoever did no longer answers."""
    TROUBLE = "trouble"
    """It failed."""


_GRACE = {End.PEACE: PEACE_GRACE, End.SILENCE: SILENCE_GRACE, End.TROUBLE: SILENCE_GRACE}


def born(host: str, now: datetime) -> HostRecord:
    """A host of which nothing is known but its name."""
    return HostRecord(
        host=host,
        since=now,
        order_at=now,
        lost_unless=now + START_GRACE,
        silence="it was never seen to look around",
    )


def worker_started(record: HostRecord, worker: WorkerInfo, now: datetime) -> HostRecord:
    """A worker begins to serve the host. Whatever an earlier one had to do is void; so is a wish to forget the host."""
    record = record.but(
        worker=worker,
        seen_at=now,
        order_at=now,
        fruitless=0,
        lost_unless=now + START_GRACE,
        silence=f"its worker {worker.identity} was started and did not look around",
        to_forget=False,
    )
    reason = f"worker {worker.identity} was started"
    if record.state is HostState.LOST:
        return _entered(record, HostState.WAITING, now, reason)
    return _noted(record, now, reason)


def supervising(record: HostRecord, sign: HostSign, now: datetime) -> HostRecord:
    """Its worker has looked around, and tells what it saw: what its workloads show can be believed from here on."""
    if sign.resync is not None:
        record = _looked(record, sign.resync)
    record = record.but(
        worker=sign.worker,
        seen_at=now,
        fruitless=0,
        lost_unless=None,
        silence="",
    )
    if record.state is HostState.READY:
        return record
    reason = f"worker {sign.worker.identity} answers"
    record = record.but(news=HostChange(lost=False, at=now, seen_at=now, reason=reason))
    return _entered(record, HostState.READY, now, reason)


def resynced(record: HostRecord, report: ResyncReport, now: datetime) -> HostRecord:
    """A resync that was asked for is done. It says nothing of the supervision, so a lost host is not back by this."""
    return _looked(record, report).but(seen_at=now)


def _looked(record: HostRecord, report: ResyncReport) -> HostRecord:
    """A look without news does not hide what an earlier one found."""
    return record.but(last_resync=report, last_differences=report if report.differences else record.last_differences)


def ordered(record: HostRecord) -> HostRecord:
    """A supervision is on its way to the host's worker."""
    return record.but(orders=record.orders + 1, order_at=None)


def supervision_ended(
    record: HostRecord, number: int, end: End, reason: str, seen_at: datetime | None, now: datetime
) -> HostRecord:
    """A supervision is over. An earlier one than the latest means nothing: it was replaced.

    Args:
        record: what is known.
        number: which one, counted by ``orders``.
        end: how it ended.
        reason: why, in words.
        seen_at: its latest sign of life; None where nobody ever took it up.
        now: the time.
    """
    if number != record.orders or record.order_at is not None:
        return record
    fruitless = record.fruitless + (end is not End.SILENCE)  # silence takes its time by itself
    wait = timedelta(0)
    if end is not End.SILENCE and fruitless > 1:
        base, cap = _AGAIN
        wait = backoff.delay(fruitless - 1, seed=f"host/{record.host}", base=base, cap=cap)
    record = record.but(
        seen_at=latest(record.seen_at, seen_at),
        order_at=now + wait,
        fruitless=fruitless,
        lost_unless=record.lost_unless or now + _GRACE[end],
        silence=reason,
    )
    if record.state is HostState.LOST:
        # What it did in the meantime may have made its workloads believe that it is back.
        again = seen_at is not None and end is End.SILENCE
        return record.but(lost_unless=None, news=_loss(record, now) if again else record.news)
    return record


def time_passed(record: HostRecord, now: datetime) -> HostRecord:
    """Declare a host lost that gave no sign in time."""
    if record.lost_unless is None or now < record.lost_unless:
        return record
    record = record.but(lost_unless=None)
    if record.state is HostState.LOST:
        return record
    record = record.but(news=_loss(record, now))
    return _entered(record, HostState.LOST, now, f"{record.silence}; {last_seen(record.seen_at)}")


def told(record: HostRecord, change: HostChange) -> HostRecord:
    """All its workloads know."""
    return record.but(news=None) if record.news == change else record


def forget_asked(record: HostRecord, now: datetime) -> HostRecord:
    """Somebody wants the host forgotten. While its worker answers, that waits."""
    record = record.but(to_forget=True)
    if record.state is HostState.LOST:
        return record
    return _noted(record, now, "to be forgotten as soon as its worker no longer answers")


def is_forgotten(record: HostRecord) -> bool:
    """Whether nothing more is to be done for the host."""
    return record.to_forget and record.state is HostState.LOST


def carried(record: HostRecord, now: datetime) -> HostRecord:
    """The run ends, and with it the supervision that it ordered: the next run orders another, at once."""
    return record.but(order_at=record.order_at or now)


def wakes_at(record: HostRecord) -> datetime | None:
    """When something is to be done, if nothing happens before."""
    return min((at for at in (record.order_at, record.lost_unless) if at is not None), default=None)


def no_worker(host: str, seen_at: datetime | None) -> str:
    """Why work for a host is not taken up, for people."""
    return f"no worker for host {host}, {last_seen(seen_at)}"


def last_seen(at: datetime | None) -> str:
    """The latest sign of life, for people."""
    return f"last seen {at:%Y-%m-%d %H:%M:%S} UTC" if at else "never seen"


def _loss(record: HostRecord, now: datetime) -> HostChange:
    return HostChange(lost=True, at=now, seen_at=record.seen_at, reason=record.silence)


def latest(first: datetime | None, second: datetime | None) -> datetime | None:
    """The later of two signs, of which none may be known."""
    return max((at for at in (first, second) if at is not None), default=None)


def _entered(record: HostRecord, state: HostState, now: datetime, reason: str) -> HostRecord:
    return _noted(record.but(state=state, since=now), now, reason)


def _noted(record: HostRecord, now: datetime, reason: str) -> HostRecord:
    note = HostTransition(at=now, state=record.state, reason=shorten(reason))
    return record.but(history=(*record.history, note)[-HISTORY_LENGTH:])
