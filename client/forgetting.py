# SPDX-License-Identifier: Apache-2.0
"""Striking a host off the list that is gone for good."""

from __future__ import annotations

from temporalio.client import Client

from client.errors import InUse, NotFound
from client.hosts import HostFilters, find
from perdure.model.host import HostState
from perdure.runtime.presence import last_heartbeats
from perdure.wire import names


async def forget(client: Client, host: str, *, force: bool, by: str) -> None:
    """End the workflow of a host. If its worker is ever started again, the host is back.

    Args:
        client: of the fleet.
        host: its name.
        force: also where it has workloads; they stay, and wait for a host of this name.
        by: who wants it, for Temporal's history.

    Raises:
        NotFound: there is no such host, or none that was ever seen.
        InUse: its worker answers, or it has workloads.
        RPCError: the server does not answer.
    """
    views = await find(client, HostFilters(names=(host,)))
    if not views or views[0].state is HostState.NEVER_SEEN:
        raise NotFound.host(host)
    if (await last_heartbeats(client, names.host_queue(host))).alive:
        raise InUse(
            f"the worker of host {host} answers: it would be back at once", "Stop it there, and wait for some seconds."
        )
    if (count := sum(views[0].workloads.values())) and not force:
        raise InUse(
            f"host {host} has {count} workload{'' if count == 1 else 's'}",
            "Delete them by `perdure delete --force`, or forget the host alone by --force: they wait for its return then.",
        )
    await client.get_workflow_handle(names.host_id(host)).terminate(reason=f"forgotten by {by}")
