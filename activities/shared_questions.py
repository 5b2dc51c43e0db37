# SPDX-License-Identifier: Apache-2.0
"""Questions that many ask at the same time are asked once.

Fifty starts at once would each list the containers of the host, and most of those lists would say the same. Who asks while a
question is under way shares the next one with all others who came meanwhile. So an answer is never older than its asking, which
is what makes it as good as one's own; and who asks alone never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from activities.engine import EngineFault

Key = TypeVar("Key")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Round(Generic[Key, Answer]):
    keys: set[Key] = field(default_factory=set)
    answers: asyncio.Task[Mapping[Key, Answer | EngineFault] | EngineFault] | None = None


class SharedQuestions(Generic[Key, Answer]):
    """One kind of question, asked for many things at once.

    Args:
        ask: answers for each of the keys, or tells the failure of one. Raises EngineFault alone, where that concerns them all.
    """

    def __init__(self, ask: Callable[[frozenset[Key]], Awaitable[Mapping[Key, Answer | EngineFault]]]) -> None:
        self._ask = ask
        self._turn = asyncio.Lock()
        self._next: _Round[Key, Answer] | None = None

    async def ask(self, key: Key) -> Answer:
        """The answer for one thing, as of now or later. Raises EngineFault."""
        shared = self._next
        if shared is None:
            shared = self._next = _Round()
            shared.answers = asyncio.create_task(self._answer(shared))
        shared.keys.add(key)
        assert shared.answers is not None
        # Others may wait for it too. A question changes nothing, so it may as well be answered when nobody waits any more.
        answers = await asyncio.shield(shared.answers)
        answer = answers if isinstance(answers, EngineFault) else answers[key]
        if isinstance(answer, EngineFault):
            # Each gets an exception of its own: a shared one would collect everybody's traceback.
            raise EngineFault(answer.fault, answer.retry_after)
        return answer

    async def _answer(self, shared: _Round[Key, Answer]) -> Mapping[Key, Answer | EngineFault] | EngineFault:
        async with self._turn:
            self._next = None
            try:
                return await self._ask(frozenset(shared.keys))
            except EngineFault as fault:
                return fault
