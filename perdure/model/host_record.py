# SPDX-License-Identifier: Apache-2.0
"""All that the workflow of one host remembers; carried as it is from run to run.

Temporal stores it: a field may be added with a default, none may be renamed or given another meaning.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import AwareDatetime

from perdure.model.base import Model
from perdure.model.host import HostChange, HostState, HostStatus, HostTransition, ResyncReport, WorkerInfo


class HostRecord(Model):
    """The memory of a host. Never changed in place: the functions of ``perdure.policy.hosts`` answer events with a new one."""

    host: str
    state: HostState = HostState.WAITING
    since: AwareDatetime
    seen_at: AwareDatetime | None = None
    worker: WorkerInfo | None = None
    last_resync: ResyncReport | None = None
    last_differences: ResyncReport | None = None
    history: tuple[HostTransition, ...] = ()

    orders: int = 0
    """Supervisions that were ordered so far. Only the latest one counts."""
    order_at: AwareDatetime | None = None
    """When the next supervision is to be ordered; None while one is under way."""
    fruitless: int = 0
    """Supervisions in a row that were ended by their worker, without a sign of the host in between."""
    lost_unless: AwareDatetime | None = None
    """The host is lost at this time unless it gives a sign before; None while nothing speaks against it."""
    silence: str = ""
    """Why a sign is waited for, in words."""
    news: HostChange | None = None
    """What its workloads are still to be told."""
    to_forget: bool = False
    """Somebody wants it forgotten as soon as it is lost."""

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed. Raises KeyError for a field that it does not have."""
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            raise KeyError(f"a host's record has no {', '.join(sorted(unknown))}")
        return self.model_copy(update=changes)

    def status(self) -> HostStatus:
        """What is told of it to the world."""
        return HostStatus(
            host=self.host,
            state=self.state,
            since=self.since,
            seen_at=self.seen_at,
            worker=self.worker,
            last_resync=self.last_resync,
            last_differences=self.last_differences,
            history=self.history,
        )
