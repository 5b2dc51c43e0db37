# SPDX-License-Identifier: Apache-2.0
"""Orders a step of a workload from its host: what the host is told, and how the order is scheduled."""

from __future__ import annotations

from datetime import timedelta

from perdure.model.faults import Phase
from perdure.model.record import Record
from perdure.model.workload import Retry
from perdure.wire import contract
from temporalio import workflow

from workflows import options

Result = contract.EnsureResult | contract.PullResult | contract.StopResult
Handle = (
    workflow.ActivityHandle[contract.EnsureResult]
    | workflow.ActivityHandle[contract.PullResult]
    | workflow.ActivityHandle[contract.StopResult]
)


def begin(record: Record, phase: Phase, activity_id: str, *, container_hash: str) -> Handle:
    """Schedule the step that the phase names. Without a spec there is nothing to do but to stop."""
    spec = record.spec
    ticket = contract.Ticket(
        host=record.host,
        name=record.name,
        incarnation=record.incarnation,
        generation=record.container_generation,
        retry=spec.retry if spec else Retry(),
        attempts_before=record.attempts_before,
    )
    scheduling = options.step(record, phase, activity_id, workflow.now())
    if phase is Phase.STOP or spec is None:
        grace = spec.container.stop.timeout if spec else timedelta(0)
        return workflow.start_activity(contract.stop, contract.StopRequest(ticket=ticket, grace=grace), **scheduling)
    if phase is Phase.PULL:
        pull = contract.PullRequest(ticket=ticket, image=spec.container.image, policy=spec.pull_policy)
        return workflow.start_activity(contract.pull, pull, **scheduling)
    ensure = contract.EnsureRequest(
        ticket=ticket,
        manifest=record.manifest,
        spec=spec,
        spec_hash=container_hash,
        unwanted_run=record.unwanted_run,
    )
    return workflow.start_activity(contract.ensure, ensure, **scheduling)
