# SPDX-License-Identifier: Apache-2.0
"""Waiting until all of an embedded stack works, or telling why it does not.

Not for the supervisor: it must not load Temporal's client, which would take a third of its memory for as long as it runs. Who
started it asks whether the workers are there: those that run now. One that was killed a moment ago still counts as alive to
the server.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.runtime.connect import connect_to_stack
from perdure.runtime.parts import complaint, last_line, size_of
from perdure.runtime.presence import last_heartbeats
from perdure.runtime.problems import StackProblem
from perdure.runtime.stack import Stack
from perdure.runtime.stack_record import CONTROL_PART, HOST_PART, SUPERVISOR, StackRecord, pid_file_of
from perdure.wire import names

READY_WITHIN: Final = timedelta(seconds=60)
PATIENCE: Final = timedelta(seconds=3)
"""A worker that cannot start is started again once or twice before that is told."""
LOOK_EVERY_SECONDS: Final = 0.1


async def until_ready(stack: Stack, record: StackRecord) -> None:
    """Wait until both workers are heard of.

    Raises:
        StackProblem: one is not, and why; the stack goes on trying.
        Unreachable: the server is gone again.
    """
    client = await connect_to_stack(record, names.worker_identity("cli", "up", os.getpid()))
    for part, queue in ((CONTROL_PART, names.CONTROL_QUEUE), (HOST_PART, names.host_queue(record.host))):
        await _until_heard_of(client, stack, record, part, queue)


async def _until_heard_of(client: Client, stack: Stack, record: StackRecord, part: str, queue: str) -> None:
    clock = asyncio.get_running_loop().time
    begun, begins_at = clock(), size_of(stack.log(part))
    while not await _is_heard_of(client, stack, record, part, queue):
        if stack.supervisor is None:
            log = stack.log(SUPERVISOR)
            raise complaint(log) or StackProblem("the stack ended while it started", f"See {log}.")
        waited = clock() - begun
        if waited > PATIENCE.total_seconds() and (why := complaint(stack.log(part), begins_at)) is not None:
            raise StackProblem(f"the {part} worker cannot start; the stack goes on trying: {why.message}", why.hint)
        if waited > READY_WITHIN.total_seconds():
            raise StackProblem(
                f"the {part} worker is not ready after {READY_WITHIN.total_seconds():g} s; the stack goes on trying. It says: "
                f"{last_line(stack.log(part))}",
                f"See {stack.log(part)}.",
            )
        await asyncio.sleep(LOOK_EVERY_SECONDS)


async def _is_heard_of(client: Client, stack: Stack, record: StackRecord, part: str, queue: str) -> bool:
    """Whether the server knows the process that is this part now; not while the server itself is away."""
    process = pid_file_of(stack.home, part).running()
    if process is None:
        return False
    try:
        return (
            await last_heartbeats(client, queue, identity=names.worker_identity(part, record.host, process.pid))
        ).alive
    except RPCError:
        return False
