# SPDX-License-Identifier: Apache-2.0
"""Staying after the first attempts of an apply until its workloads run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio.client import Client

from client.applying import ApplyResult, Progress
from client.errors import NotFound, NoWorker, Parked, Superseded, TimedOut
from client.waiting import Condition, Waiting
from perdure.model.messages import AttemptOutcome, Outcome
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus

MAY_YET_RUN: Final = frozenset({Outcome.RETRYING, Outcome.WAITING, Outcome.UNCHANGED, Outcome.UPDATED})
"""After other answers nothing better comes, or it runs."""


async def until_running(client: Client, results: Sequence[ApplyResult], timeout: timedelta) -> tuple[ApplyResult, ...]:
    """Wait, at most so long, for those that may yet run. The results tell how each ended."""
    return tuple(await asyncio.gather(*(_until_running(client, result, timeout) for result in results)))


async def _until_running(client: Client, result: ApplyResult, timeout: timedelta) -> ApplyResult:
    answer = result.answer
    if answer is None or answer.outcome not in MAY_YET_RUN:
        return result
    waiting = Waiting(client, result.host, result.name, lambda _: None)
    try:
        status = await waiting.until(Condition.RUNNING, timeout=timeout, generation=answer.generation)
    except Parked as error:
        return replace(result, answer=_parked(answer, error.status))
    except Superseded as error:
        return replace(
            result, answer=answer.model_copy(update={"outcome": Outcome.SUPERSEDED, "message": error.message})
        )
    except NotFound as error:
        gone = {"outcome": Outcome.REMOVED, "state": State.REMOVED, "substate": Substate.OK, "message": error.message}
        return replace(result, answer=answer.model_copy(update=gone))
    except NoWorker as error:
        return replace(
            result, answer=answer.model_copy(update={"outcome": Outcome.NO_WORKER, "message": error.message})
        )
    except TimedOut as error:
        return replace(result, progress=Progress.IN_PROGRESS, answer=None, detail=error.message)
    if status is None or answer.outcome not in (Outcome.RETRYING, Outcome.WAITING):
        return result
    return replace(result, answer=_with(answer, Outcome.RUNNING, status))


def _parked(answer: AttemptOutcome, status: WorkloadStatus | None) -> AttemptOutcome:
    """A workload that ended well has run; one that is paused waits for somebody; else it failed for good."""
    if status is None:
        return answer
    if status.state is State.SUCCEEDED:
        return _with(answer, Outcome.RUNNING, status)
    if status.state is State.PAUSED:
        return _with(answer, Outcome.PAUSED, status)
    return _with(answer, Outcome.GAVE_UP if status.substate is Substate.GAVE_UP else Outcome.REJECTED, status)


def _with(answer: AttemptOutcome, outcome: Outcome, status: WorkloadStatus) -> AttemptOutcome:
    return answer.model_copy(
        update={
            "outcome": outcome,
            "message": "",
            "state": status.state,
            "substate": status.substate,
            "error": status.last_error,
            "live": status.live,
        }
    )
