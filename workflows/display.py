# SPDX-License-Identifier: Apache-2.0
"""Puts up what a workflow shows of itself in Temporal. What to show is for ``presentation`` and ``wording`` to say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

from workflows import options

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Page:
    """What a status looks like."""

    memo: Mapping[str, object]
    attributes: Mapping[str, SearchAttributeUpdate[Any]]
    details: str
    sign: str
    """One line for the first page of the Web UI. Empty where nobody has to look."""


class Display(Generic[S]):
    """Memo, search attributes, current details and the sign of one run."""

    def __init__(self, draw: Callable[[S], Page]) -> None:
        self._draw = draw
        self._status: S | None = None
        self._shown: Page | None = None
        self._sign = ""
        self._sign_stands: asyncio.Task[None] | None = None

    def show(self, status: S) -> None:
        """Tell the world what changed; costs no history if nothing did."""
        if status == self._status:
            return
        page = self._draw(status)
        before = self._shown.memo if self._shown else {}
        workflow.upsert_memo({key: value for key, value in page.memo.items() if before.get(key, "") != value})
        attributes = self._changed(page.attributes)
        if attributes:
            workflow.upsert_search_attributes(attributes)
        workflow.set_current_details(page.details)
        self._put_up(page.sign)
        self._status, self._shown = status, page

    @property
    def memo(self) -> Mapping[str, object]:
        """What the next run is to begin with. Left alone it shows what the very first one did, until it is taken up."""
        return {key: value for key, value in self._shown.memo.items() if value is not None} if self._shown else {}

    def _changed(self, attributes: Mapping[str, SearchAttributeUpdate[Any]]) -> list[SearchAttributeUpdate[Any]]:
        shown = self._shown.attributes if self._shown else {}
        return [update for key, update in attributes.items() if key not in shown or shown[key].value != update.value]

    def _put_up(self, sign: str) -> None:
        """Show a sign on the first page of the Web UI in the place of the one before.

        That page shows pending work and nothing else that we could write on. So the sign is the summary of a timer for which
        nobody waits; what is well, or on its way, has none.
        """
        if sign == self._sign:
            return
        if self._sign_stands is not None:
            self._sign_stands.cancel()
        self._sign = sign
        self._sign_stands = asyncio.create_task(workflow.sleep(options.SIGN, summary=sign)) if sign else None
