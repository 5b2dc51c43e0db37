# SPDX-License-Identifier: Apache-2.0
"""Striking a host off the list that is gone for good."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client

from client.errors import InUse, NotFound, TimedOut
from client.hosts import HostFilters, find, open_workflow
from perdure.runtime.presence import ALIVE_WITHIN
from perdure.wire import names

LOOK_AGAIN: Final = timedelta(milliseconds=100)


async def forget(client: Client, host: str, *, force: bool, timeout: timedelta) -> None:
    """End the workflow of a host, and wait for it. If its worker is ever started again, the host is back.

    Args:
        client: of the fleet.
        host: its name.
        force: also where it has workloads; they stay, and wait for a host of this name.
        timeout: how long to wait. It takes as long as it takes to see that the worker does not answer.

    Raises:
        NotFound: there is no such host, or none that was ever seen.
        InUse: its worker answers, or did a moment ago, or it has workloads.
        TimedOut: it is not forgotten yet; it will be, unless its worker comes back.
        RPCError: the server does not answer.
    """
    views = await find(client, HostFilters(names=(host,)))
    if not views or await open_workflow(client, host) is None:
        raise NotFound.host(host)
    seen_at = views[0].seen_at
    if seen_at is not None and (ago := datetime.now(UTC) - seen_at) <= ALIVE_WITHIN:
        raise InUse(
            f"host {host} was heard of {max(0, round(ago.total_seconds()))} s ago: it would be back at once",
            "Stop its worker there, and wait for some seconds.",
        )
    if (count := sum(views[0].workloads.values())) and not force:
        raise InUse(
            f"host {host} has {count} workload{'' if count == 1 else 's'}",
            "Delete them by `perdure delete --force`, or forget the host alone by --force: they wait for its return then.",
        )
    await client.get_workflow_handle(names.host_id(host)).cancel()
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while await open_workflow(client, host) is not None:
                await asyncio.sleep(LOOK_AGAIN.total_seconds())
    except TimeoutError:
        raise TimedOut(
            f"host {host} is not forgotten after {timeout.total_seconds():.3g} s",
            "It will be, as soon as a control worker runs and sees that the host does not answer.",
            None,
        ) from None
