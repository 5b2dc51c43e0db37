# SPDX-License-Identifier: Apache-2.0
"""Histories that older versions have written are replayed by the present code: a fleet is never upgraded all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from perdure.wire.converter import data_converter
from tests.replay.scenarios import SCENARIOS
from workflows.workload import WorkloadWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_an_old_history_is_replayed(path: Path) -> None:
    """No command differs."""
    history = WorkflowHistory.from_json("workload/edge-1/web", json.loads(path.read_text()))
    replayer = Replayer(workflows=[WorkloadWorkflow], data_converter=data_converter())
    await replayer.replay_workflow(history)


async def test_a_history_that_differs_is_noticed() -> None:
    """The test above can fail: a history without its first activity is none of ours."""
    path = next(path for path in HISTORIES if "runs_and" in path.stem)
    events = json.loads(path.read_text())
    for event in events["events"]:
        if event["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED":
            event["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "another"
    history = WorkflowHistory.from_json("workload/edge-1/web", events)
    replayer = Replayer(workflows=[WorkloadWorkflow], data_converter=data_converter())
    with pytest.raises(NondeterminismError):
        await replayer.replay_workflow(history)


def test_every_scenario_has_a_history() -> None:
    """A scenario that is added is recorded too."""
    recorded = {path.stem.rsplit("-", 1)[0] for path in HISTORIES}
    assert recorded == set(SCENARIOS)
