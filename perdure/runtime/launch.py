# SPDX-License-Identifier: Apache-2.0
"""Starting a stack whose supervisor outlives its starter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from perdure.runtime.parts import complaint, size_of
from perdure.runtime.problems import StackProblem
from perdure.runtime.processes import PidFile, Process, start_detached
from perdure.runtime.stack import Stack
from perdure.runtime.stack_record import SUPERVISOR, StackRecord, run_folder
from perdure.runtime.temporal_server import TemporalServer

READY_WITHIN: Final = timedelta(seconds=60)
LOOK_EVERY_SECONDS: Final = 0.1


async def launch(stack: Stack, supervisor: Sequence[str]) -> StackRecord:
    """Have a supervisor run the stack, a new one where none does, and wait until the Temporal server answers.

    Args:
        stack: the stack of this home.
        supervisor: the command that supervises in the foreground; it gets the settings by its environment.

    Raises:
        StackProblem: something stands in the way; nothing was left running.
    """
    stack.find_again()
    process = stack.supervisor
    if process is not None:
        stack.refuse_other_options()
        return await _record_of(stack, process, 0)
    stack.check()
    log = stack.log(SUPERVISOR)
    begins_at = size_of(log)
    own_file = PidFile(run_folder(stack.home) / f"launch-{os.getpid()}.pid")
    try:
        process = start_detached(
            supervisor,
            pid_file=own_file,
            log=log,
            environment=dict(os.environ) | stack.settings.as_environment(),
            working_folder=stack.home,
        )
        return await _record_of(stack, process, begins_at)
    finally:
        own_file.remove()


async def _record_of(stack: Stack, process: Process, begins_at: int) -> StackRecord:
    """Wait until a supervisor has taken charge and its server answers, an adopted one too."""
    for _ in range(round(READY_WITHIN.total_seconds() / LOOK_EVERY_SECONDS)):
        record = stack.record
        if record is not None and stack.supervisor is not None and await _serves(stack, record):
            return record
        if not process.running:
            process.reap()
            if stack.supervisor is None:
                raise _last_words(stack, begins_at)
            process = stack.supervisor  # another `up` was faster
        await asyncio.sleep(LOOK_EVERY_SECONDS)
    limit = f"{READY_WITHIN.total_seconds():g} s"
    raise StackProblem(f"the stack does not answer after {limit}", f"See {stack.log(SUPERVISOR)}.")


async def _serves(stack: Stack, record: StackRecord) -> bool:
    """Whether the server answers: a record may be of a server that is just being started again."""
    return await TemporalServer.of(stack.home, record).serves()


def _last_words(stack: Stack, begins_at: int) -> StackProblem:
    """What a supervisor that has ended said about it."""
    log = stack.log(SUPERVISOR)
    return complaint(log, begins_at) or StackProblem("the stack ended while it started", f"See {log}.")
