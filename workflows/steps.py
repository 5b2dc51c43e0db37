# SPDX-License-Identifier: Apache-2.0
"""Orders a step of a workload from its host: what the host is told, and how the order is scheduled."""

from __future__ import annotations

from datetime import timedelta

from perdure.model.faults import Fault, FaultClass, FaultKind, Phase
from perdure.model.record import Record
from perdure.model.workload import Retry
from perdure.policy import dependencies
from perdure.policy.shorten import shorten
from perdure.wire import contract
from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows import options

Result = contract.EnsureResult | contract.PullResult | contract.StopResult
Handle = (
    workflow.ActivityHandle[contract.EnsureResult]
    | workflow.ActivityHandle[contract.PullResult]
    | workflow.ActivityHandle[contract.StopResult]
)


def await_dependencies(record: Record, activity_id: str) -> workflow.ActivityHandle[None]:
    """Have others looked at until they are as far as the workload needs them.

    It changes nothing in the world, so nobody waits for its cancellation; and every question that somebody waits for goes first.
    """
    depends_on = record.spec.depends_on if record.spec else {}
    request = contract.DependenciesRequest(ticket=_ticket(record), depends_on=depends_on, turn=record.turn)
    return workflow.start_activity(
        contract.dependencies,
        request,
        activity_id=activity_id,
        summary=shorten(f"waits for {dependencies.wanted(depends_on)}", options.SUMMARY_LIMIT_BYTES),
        start_to_close_timeout=options.LOOK_LIMIT,
        retry_policy=options.BACKSTOP,
        cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
        priority=options.AFTER_OTHERS,
    )


def _ticket(record: Record) -> contract.Ticket:
    return contract.Ticket(
        host=record.host,
        name=record.name,
        incarnation=record.incarnation,
        generation=record.container_generation,
        retry=record.spec.retry if record.spec else Retry(),
        attempts_before=record.attempts_before,
    )


def begin(record: Record, phase: Phase, activity_id: str, *, container_hash: str) -> Handle:
    """Schedule the step that the phase names. Without a spec there is nothing to do but to stop."""
    spec = record.spec
    ticket = _ticket(record)
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


def unanswered(phase: Phase, error: ActivityError) -> Fault:
    """What is known of a step that ended and holds no fault: nothing about the workload."""
    return Fault(
        kind=FaultKind.INTERNAL,
        fault_class=FaultClass.TRANSIENT,
        phase=phase,
        message=f"the attempt ended without an answer: {error.cause or error}",
        hint="it is tried again; the worker's log tells more",
    )
