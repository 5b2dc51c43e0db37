# SPDX-License-Identifier: Apache-2.0
"""Puts up what a workload shows of itself in Temporal. What to show is for ``presentation`` and ``wording`` to say."""

from __future__ import annotations

import asyncio

from perdure.model.status import WorkloadStatus
from temporalio import workflow

from workflows import options, presentation, wording


class Display:
    """Memo, search attributes, current details and the sign of one run."""

    def __init__(self) -> None:
        self._shown: WorkloadStatus | None = None
        self._sign = ""
        self._sign_stands: asyncio.Task[None] | None = None

    def show(self, status: WorkloadStatus) -> None:
        """Tell the world what changed; costs no history if nothing did."""
        if status == self._shown:
            return
        workflow.upsert_memo(presentation.memo(status, self._shown))
        attributes = presentation.search_attributes(status, self._shown)
        if attributes:
            workflow.upsert_search_attributes(attributes)
        workflow.set_current_details(wording.details(status))
        self._put_up(wording.sign(status))
        self._shown = status

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
