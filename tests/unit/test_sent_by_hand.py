# SPDX-License-Identifier: Apache-2.0
"""Signals that are sent by hand, or went wrong on their way: whatever is in them, a status stays small enough to be shown.

Temporal takes two mebibytes for what a workflow tells. One that has more to tell fails each task from there on, and stands still.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from pydantic import ValidationError

from perdure.model.base import Model
from perdure.model.host import DIFFERENCES_SHOWN, HostChange, HostSign, WorkerInfo
from perdure.model.messages import ApplyRequest, AttemptReport, RetryRequest, WaitingOn
from perdure.model.observation import Observation
from perdure.model.record import Record
from perdure.model.workload import ContainerSpec, DependencyCondition, WorkloadSpec
from perdure.policy import attempts, dependencies, host_loss, hosts, sightings, wishes

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT: Final = NOW.isoformat()
HUGE: Final = "x" * 1_500_000
SMALL: Final = 200_000
"""Bytes of a status: a tenth of what Temporal takes, so that thirty notes in a history have room."""


def sent(model: type[Model], **fields: Any) -> Any:
    """A message as it comes off the wire."""
    return model.model_validate_json(json.dumps(fields))


def pending(depends_on: dict[str, DependencyCondition] | None = None) -> Record:
    """A workload whose start, or whose wait for others, is under way."""
    spec = WorkloadSpec(container=ContainerSpec(image="reg/app:1"), depends_on=depends_on or {})
    request = sent(ApplyRequest, applyId=HUGE, spec=spec.model_dump(mode="json"), manifest=HUGE, by=HUGE)
    return wishes.applied(wishes.born("edge-1", "web", "incarnation", NOW), request, NOW)


def size(record: Record) -> int:
    """Of all that a workload tells the world."""
    return len(record.status("hash").model_dump_json())


def test_a_report_of_a_try() -> None:
    """Nor may a wait that is told lie beyond the longest one: a settings change goes on with it."""
    fault = {"kind": "EngineError", "class": "transient", "phase": "start", "message": HUGE, "hint": HUGE}
    fields = {"kind": "failed", "generation": 1, "phase": "start", "fault": fault, "fingerprint": HUGE, "at": AT}
    report = sent(AttemptReport, **fields, attempt=3, nextAttemptAt="9999-01-01T00:00:00Z")
    record = attempts.reported(pending(), report, NOW)
    assert record.attempt == 3
    assert record.next_attempt_at == NOW + timedelta(seconds=300)
    assert size(record) < SMALL
    for wrong in ({"attempt": -1}, {"attempt": 10**40}, {"attempt": 1, "failures": 10**40}):
        with pytest.raises(ValidationError):
            sent(AttemptReport, **fields, **wrong)


def test_what_a_host_saw() -> None:
    """A number of restarts below zero would lead to a try that is not on any curve."""
    fields = {"generation": 1, "incarnation": "", "state": "running", "seenAt": AT, "startedAt": AT}
    ended = {"code": 1, "signal": HUGE, "at": AT}
    seen = sent(Observation, containerId=HUGE, **fields, exit=ended, reason=HUGE, restarts=3)
    record = sightings.observed(pending(), seen, NOW)
    assert record.live is not None
    assert record.last_exit is not None
    assert size(record) < SMALL
    for wrong in (-1, 10**40):
        with pytest.raises(ValidationError):
            sent(Observation, containerId="c", **fields, restarts=wrong)


def test_what_somebody_wishes() -> None:
    """Thirty times, which is what a history keeps."""
    record = pending()
    for _ in range(30):
        record = attempts.gave_up(record, None, 1, NOW)
        record = wishes.retry_asked(record, sent(RetryRequest, reason=HUGE), NOW)
    assert any(len(note.reason) > 1000 for note in record.history)
    assert size(record) < SMALL


def test_what_became_of_its_host() -> None:
    """Told by the host's workflow, or by hand."""
    record = host_loss.changed(pending(), sent(HostChange, lost=True, at=AT, reason=HUGE), NOW)
    assert size(record) < SMALL


def test_what_it_waits_for() -> None:
    """No more than it depends on."""
    record = dependencies.wait_begun(pending({"edge-1/db": DependencyCondition.RUNNING}), NOW)
    told = sent(WaitingOn, turn=record.turn, unmet=[HUGE] * 3)
    record = dependencies.learned(record, told)
    assert len(record.waiting_on) == 1
    assert size(record) < SMALL


def test_what_a_worker_tells_of_itself_and_its_host() -> None:
    """Again and again."""
    worker = {"identity": HUGE, "version": HUGE, "engine": HUGE, "engineVersion": HUGE, "startedAt": AT}
    difference = {"workload": HUGE[:20_000], "found": HUGE[:20_000], "done": HUGE[:20_000]}
    report = {"at": AT, "reason": "asked", "took": "1s", "containers": 1, "workloads": 1}
    sign = sent(HostSign, worker=worker, resync={**report, "differences": [difference] * 100})
    record = hosts.born("edge-1", NOW)
    for _ in range(30):
        record = hosts.worker_started(record, sent(WorkerInfo, **worker), NOW)
        record = hosts.supervising(record, sign, NOW)
    assert record.last_resync is not None
    assert len(record.last_resync.differences) == DIFFERENCES_SHOWN
    assert record.last_differences == record.last_resync, "two reports are kept at most"
    assert len(record.model_dump_json()) < 4 * SMALL
