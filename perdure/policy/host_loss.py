# SPDX-License-Identifier: Apache-2.0
"""What it means for a workload that its host was lost, or answers. Pure, and total.

A loss changes nothing of what is wanted, tried and remembered: it only makes what was last known unsure, so that it is shown as
Unknown (``Record.shown``). Whatever the host itself tells ends that, since whoever tells is there.
"""

from __future__ import annotations

from datetime import datetime

from perdure.model.host import HostChange
from perdure.model.record import Course, Record
from perdure.model.states import State, Substate
from perdure.policy import transitions, wishes
from perdure.policy.hosts import last_seen, latest


def changed(record: Record, change: HostChange, now: datetime) -> Record:
    """The workflow of its host tells what became of it. Of two changes that overtake each other the later one holds."""
    if record.course is Course.GONE or _is_overtaken(record, change, now):
        return record
    record = record.but(host_told_at=change.at)
    return _lost(record, change, now) if change.lost else _back(record, now)


def heard(record: Record, now: datetime) -> Record:
    """The host itself tells something, whatever it is: it is there."""
    record = record.but(host_seen_at=now)
    if record.host_lost_at is None:
        return record
    return transitions.noted(record.but(host_lost_at=None), now, "host is back")


def abandoned(record: Record, now: datetime) -> Record:
    """A user wants it to end without its host's word. What may be left there is an orphan when the host is back."""
    record = wishes.removal_asked(record, now)
    if record.course is Course.GONE:
        return record
    record = record.but(course=Course.GONE, turn=record.turn + 1, live=None, resume_at=None, **transitions.no_attempt())
    return transitions.entered(record, State.REMOVED, Substate.OK, now, "abandoned: ended without its host's word")


def _is_overtaken(record: Record, change: HostChange, now: datetime) -> bool:
    """Whether a later change was told before. One of a time that is still to come is none: the server's clock was set back."""
    told_at = record.host_told_at
    return change.at is not None and told_at is not None and change.at < told_at <= now


def _lost(record: Record, change: HostChange, now: datetime) -> Record:
    if record.host_lost_at is not None:
        return record
    seen_at = latest(record.host_seen_at, change.seen_at)
    record = record.but(host_lost_at=now, host_seen_at=seen_at)
    return transitions.noted(record, now, f"host lost, {last_seen(seen_at)}")


def _back(record: Record, now: datetime) -> Record:
    record = heard(record, now)
    if record.substate is not Substate.WAITING_FOR_HOST or record.course not in transitions.WORKING:
        return record
    return transitions.entered(record, State.PENDING, transitions.WORKING[record.course], now, "host is back")
