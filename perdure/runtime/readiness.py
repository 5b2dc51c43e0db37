# SPDX-License-Identifier: Apache-2.0
"""Waiting until all of an embedded stack works.

Not for the supervisor: it must not load Temporal's client, which would take a third of its memory for as long as it runs. Who
started it asks whether the workers are there.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Final

from perdure.runtime.connect import connect_to_stack
from perdure.runtime.presence import last_heartbeats
from perdure.runtime.problems import StackProblem
from perdure.runtime.stack import CONTROL_PART, HOST_PART, Stack
from perdure.runtime.stack_record import StackRecord
from perdure.wire import names

READY_WITHIN: Final = timedelta(seconds=60)
LOOK_EVERY_SECONDS: Final = 0.1


async def until_ready(stack: Stack, record: StackRecord) -> None:
    """Wait until both workers are heard of.

    Raises:
        StackProblem: one is not; the stack goes on trying.
        Unreachable: the server is gone again.
    """
    client = await connect_to_stack(record, names.worker_identity("cli", "up", os.getpid()))
    for part, queue in ((CONTROL_PART, names.CONTROL_QUEUE), (HOST_PART, names.host_queue(record.host))):
        for _ in range(round(READY_WITHIN.total_seconds() / LOOK_EVERY_SECONDS)):
            if (await last_heartbeats(client, queue)).alive:
                break
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        else:
            limit = f"{READY_WITHIN.total_seconds():g} s"
            raise StackProblem(
                f"the {part} worker is not ready after {limit}; the stack goes on trying", f"See {stack.log(part)}."
            )
