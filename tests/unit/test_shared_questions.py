# SPDX-License-Identifier: Apache-2.0
"""Questions asked at the same time are asked once, and no answer is older than its asking."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from activities.engine import EngineFault
from activities.shared_questions import SharedQuestions
from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase

AWAY = engine_fault(FaultKind.ENGINE_UNREACHABLE, Phase.START, "ask", "it is away")


class Oracle:
    """Answers when it is let, with the number of the question."""

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []
        self.may_answer = asyncio.Event()
        self.fault: EngineFault | None = None
        self.bad: set[str] = set()
        self.questions: SharedQuestions[str, int] = SharedQuestions(self._ask)

    async def _ask(self, keys: frozenset[str]) -> Mapping[str, int | EngineFault]:
        self.asked.append(keys)
        number = len(self.asked)
        await self.may_answer.wait()
        if self.fault is not None:
            raise self.fault
        return {key: AWAY if key in self.bad else number for key in keys}


async def asking(oracle: Oracle, *keys: str) -> list[asyncio.Task[int]]:
    """Some who ask, and have gone as far as they can."""
    tasks = [asyncio.create_task(oracle.questions.ask(key)) for key in keys]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_who_comes_while_a_question_is_under_way_shares_the_next_one() -> None:
    """Its answer may be from before they came."""
    oracle = Oracle()
    first = await asking(oracle, "a")
    later = await asking(oracle, "a", "b", "b", "c")
    oracle.may_answer.set()
    assert await asyncio.gather(*first, *later) == [1, 2, 2, 2, 2]
    assert oracle.asked == [{"a"}, {"a", "b", "c"}]


async def test_who_asks_alone_is_answered_alone() -> None:
    """Nothing is kept: each asks anew."""
    oracle = Oracle()
    oracle.may_answer.set()
    assert [await oracle.questions.ask("a") for _ in range(3)] == [1, 2, 3]


async def test_each_gets_a_failure_of_its_own() -> None:
    """A shared exception would collect everybody's traceback; and the next question is asked all the same."""
    oracle = Oracle()
    oracle.fault = AWAY
    oracle.may_answer.set()
    tasks = await asking(oracle, "a", "b")
    raised = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, EngineFault) for one in raised] == [True, True]
    assert raised[0] is not raised[1]
    oracle.fault = None
    assert await oracle.questions.ask("a") == 2


async def test_the_failure_of_one_is_no_failure_of_the_others() -> None:
    """One bad name of an image must not park everybody who asked with it."""
    oracle = Oracle()
    oracle.bad = {"a"}
    oracle.may_answer.set()
    failed, answered = await asyncio.gather(*await asking(oracle, "a", "b"), return_exceptions=True)
    assert isinstance(failed, EngineFault)
    assert answered == 1


async def test_who_gives_up_takes_nothing_from_the_others() -> None:
    """Nor does a question that nobody waits for any more stand in the way of the next."""
    oracle = Oracle()
    one, other = await asking(oracle, "a", "a")
    one.cancel()
    oracle.may_answer.set()
    assert await other == 1
    with pytest.raises(asyncio.CancelledError):
        await one
    oracle.may_answer.clear()
    (lonely,) = await asking(oracle, "a")
    lonely.cancel()
    oracle.may_answer.set()
    assert await oracle.questions.ask("b") == 3
