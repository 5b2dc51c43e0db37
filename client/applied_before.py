# SPDX-License-Identifier: Apache-2.0
"""What workloads that were applied before depend on, as far as somebody who applies now depends on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from temporalio.client import Client

from client.errors import Incompatible
from client.listing import PAGE_SIZE, RPC_TIMEOUT, Filters, query
from client.statuses import from_memo
from perdure.model.manifest import Target

NAMES_AT_ONCE: Final = 200
"""In one search."""


async def dependencies(client: Client, targets: Iterable[Target]) -> dict[str, tuple[str, ...]]:
    """What those depend on that are named and are not themselves applied now, and what these depend on, and so forth.

    One search for each step of a chain that leads out of what is applied; none where nothing leads out.

    Raises:
        RPCError: the server does not answer.
    """
    now = {f"{target.host}/{target.name}": target.spec.depends_on for target in targets}
    before: dict[str, tuple[str, ...]] = {}
    wanted = {label for depends_on in now.values() for label in depends_on} - now.keys()
    while wanted:
        found = await _search(client, wanted)
        before |= {label: found.get(label, ()) for label in wanted}
        wanted = {label for depends_on in found.values() for label in depends_on} - now.keys() - before.keys()
    return before


async def _search(client: Client, labels: set[str]) -> dict[str, tuple[str, ...]]:
    """What these depend on; one that is not there, or whose status cannot be read, depends on nothing."""
    names = sorted({label.partition("/")[2] for label in labels})
    found: dict[str, tuple[str, ...]] = {}
    for begin in range(0, len(names), NAMES_AT_ONCE):
        some = query(Filters(names=tuple(names[begin : begin + NAMES_AT_ONCE])))
        async for row in client.list_workflows(some, page_size=PAGE_SIZE, rpc_timeout=RPC_TIMEOUT):
            try:
                status = await from_memo(row)
            except Incompatible:
                continue
            if (label := f"{status.host}/{status.name}") in labels:
                found[label] = tuple(status.depends_on)
    return found
