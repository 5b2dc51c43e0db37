# SPDX-License-Identifier: Apache-2.0
"""Histories that older versions have written are replayed by the present code: a fleet is never upgraded all at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from perdure.wire.converter import data_converter
from tests.replay.scenarios import SCENARIOS, subject
from workflows.host import HostWorkflow
from workflows.workload import WorkloadWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """A recorded history."""
    history: dict[str, Any] = json.loads(path.read_text())
    return history


async def replay(history: dict[str, Any], workflow_id: str) -> None:
    """Replay it by the present code."""
    with ThreadPoolExecutor(1) as executor:
        replayer = Replayer(
            workflows=[WorkloadWorkflow, HostWorkflow],
            data_converter=data_converter(),
            workflow_task_executor=executor,
        )
        await replayer.replay_workflow(WorkflowHistory.from_json(workflow_id, history))


def scenario_of(path: Path) -> str:
    """What a history tells."""
    return path.stem.rsplit("-", 1)[0]


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_an_old_history_is_replayed(path: Path) -> None:
    """No command differs."""
    await replay(read(path), subject(scenario_of(path)))


async def test_a_history_that_differs_is_noticed() -> None:
    """The test above can fail: a history with another activity is none of ours."""
    history = read(next(path for path in HISTORIES if "runs_and" in path.stem))
    for event in history["events"]:
        if event["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED":
            event["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "another"
    with pytest.raises(NondeterminismError):
        await replay(history, subject("runs_and_is_removed"))


def test_every_scenario_has_a_history() -> None:
    """A scenario that is added is recorded too."""
    recorded = {scenario_of(path) for path in HISTORIES}
    assert recorded == set(SCENARIOS)
