# SPDX-License-Identifier: Apache-2.0
"""Which containers we end ourselves, so that whoever watches the host does not report our own work as news."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

REMEMBERED: Final = 4096
"""Ids are never used twice, so old marks only cost memory."""


class ExpectedEnds:
    """The ids of containers whose end or removal is our own doing.

    An id is marked before the first step and stays marked, because the news of it may come late. It is unmarked when
    the same container is started again.
    """

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._ids

    def add(self, container_id: str) -> None:
        """We are about to end or remove it."""
        self._ids[container_id] = None
        self._ids.move_to_end(container_id)
        if len(self._ids) > REMEMBERED:
            self._ids.popitem(last=False)

    def discard(self, container_id: str) -> None:
        """It is about to run again: from now on its end is news."""
        self._ids.pop(container_id, None)
