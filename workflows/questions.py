# SPDX-License-Identifier: Apache-2.0
"""What a workload asks a control worker, since a workflow cannot find it out by itself."""

from __future__ import annotations

from datetime import timedelta

from perdure.model.messages import HostPresence
from perdure.wire import contract
from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows import options


async def is_host_there(host: str, activity_id: str) -> HostPresence | None:
    """Why nobody takes up the work: its host is busy, or away. None where that could not be found out."""
    request = contract.PresenceRequest(host=host, workflow_id=workflow.info().workflow_id, activity_id=activity_id)
    try:
        return await workflow.execute_activity(
            contract.host_presence,
            request,
            schedule_to_close_timeout=options.QUESTION_LIMIT,
            summary=f"is host {host} there?",
        )
    except ActivityError as error:
        workflow.logger.warning("host presence is unknown", extra={"cause": str(error.cause)})
        return None


async def central_give_up_after() -> timedelta | None:
    """The central time limit. The answer stands in the history, so it is not asked for twice in vain."""
    defaults = await workflow.execute_local_activity(
        contract.central_defaults, schedule_to_close_timeout=options.DEFAULTS_LIMIT
    )
    return defaults.give_up_after
