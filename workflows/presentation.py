# SPDX-License-Identifier: Apache-2.0
"""What a workload shows of itself in Temporal's own fields: memo and search attributes. It never decides anything.

The memo holds everything, since it can be read while no worker is there; ``workflows.wording`` says the same in sentences. A
search attribute of more than 2 KiB would end the workflow: only short words go there.
"""

from __future__ import annotations

from typing import Any

from perdure.model.status import WorkloadStatus
from perdure.wire import names
from temporalio.common import SearchAttributeUpdate

from workflows import wording
from workflows.display import Page


def page(status: WorkloadStatus) -> Page:
    """The whole status, and beside it what a person looks for first."""
    return Page(_memo(status), _attributes(status), wording.details(status), wording.sign(status))


def _memo(status: WorkloadStatus) -> dict[str, object]:
    error = status.last_error
    return {
        names.MEMO_STATE: f"{status.state}/{status.substate}",
        names.MEMO_LAST_ERROR: error.message if error else "",
        names.MEMO_LAST_ERROR_KIND: error.kind.value if error else "",
        names.MEMO_LAST_ERROR_AT: wording.stamp(error.last_at) if error else "",
        names.MEMO_HINT: wording.advice(status),
        names.MEMO_IMAGE: status.image,
        names.MEMO_STATUS: status.model_dump(mode="json"),
    }


def _attributes(status: WorkloadStatus) -> dict[str, SearchAttributeUpdate[Any]]:
    error = wording.error_in_effect(status)
    return {
        "host": names.SA_HOST.value_set(status.host),
        "workload": names.SA_WORKLOAD.value_set(status.name),
        "manifest": names.SA_MANIFEST.value_set(status.manifest),
        "state": names.SA_STATE.value_set(status.state.value),
        "substate": names.SA_SUBSTATE.value_set(status.substate.value),
        "kind": names.SA_ERROR_KIND.value_set(error.kind.value) if error else names.SA_ERROR_KIND.value_unset(),
        "generation": names.SA_GENERATION.value_set(status.generation),
    }
