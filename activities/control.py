# SPDX-License-Identifier: Apache-2.0
"""The activities of the control worker: questions that a workflow cannot answer by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from temporalio import activity
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.model.host import HostStatus
from perdure.model.messages import HostPresence
from perdure.policy.hosts import latest
from perdure.wire import names
from perdure.wire.contract import CentralDefaults, PresenceRequest

LastSign = Callable[[str], Awaitable[tuple[bool, datetime | None]]]
"""Answers for a task queue whether a worker serves it, and when the latest sign of life was seen."""


class ControlActivities:
    """What the control worker knows, or can ask Temporal."""

    def __init__(self, client: Client, *, last_sign: LastSign, give_up_after: timedelta | None) -> None:
        self._client = client
        self._last_sign = last_sign
        self._defaults = CentralDefaults(give_up_after=give_up_after)

    @activity.defn(name=names.HOST_PRESENCE)
    async def host_presence(self, request: PresenceRequest) -> HostPresence:
        """Tell whether a host took up an activity, and whether its worker answers."""
        alive, seen_at = await self._last_sign(names.host_queue(request.host))
        seen_at = latest(seen_at, await self._remembered_sign(request.host))
        return HostPresence(picked_up=await self._is_picked_up(request), alive=alive, seen_at=seen_at)

    async def _remembered_sign(self, host: str) -> datetime | None:
        """What the host's workflow remembers: the server forgets a dead worker soon."""
        try:
            description = await self._client.get_workflow_handle(names.host_id(host)).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        told = await description.memo_value(names.MEMO_STATUS, None)
        return HostStatus.model_validate(told).seen_at if told is not None else None

    async def _is_picked_up(self, request: PresenceRequest) -> bool:
        """An activity that is not pending any more was picked up too."""
        description = await self._client.get_workflow_handle(request.workflow_id).describe()
        for pending in description.raw_description.pending_activities:
            if pending.activity_id == request.activity_id:
                return pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        return True

    @activity.defn(name=names.CENTRAL_DEFAULTS)
    async def central_defaults(self) -> CentralDefaults:
        """The settings of this control worker."""
        return self._defaults
