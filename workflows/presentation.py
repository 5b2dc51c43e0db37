# SPDX-License-Identifier: Apache-2.0
"""What a workload shows of itself in Temporal's own fields: memo and search attributes. It never decides anything.

The memo holds everything, since it can be read while no worker is there; ``workflows.wording`` says the same in sentences. A
search attribute of more than 2 KiB would end the workflow: only short words go there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.model.status import WorkloadStatus
from perdure.wire import names
from temporalio.common import SearchAttributeUpdate

from workflows import wording


def memo(status: WorkloadStatus, before: WorkloadStatus | None) -> Mapping[str, object]:
    """The whole status, and beside it what a person looks for first; only what differs from the status before."""
    then = _memo(before) if before else {}
    return {key: value for key, value in _memo(status).items() if then.get(key, "") != value}


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


def search_attributes(status: WorkloadStatus, before: WorkloadStatus | None) -> list[SearchAttributeUpdate[Any]]:
    """The attributes that differ from those of the status before."""
    now, then = _attributes(status), _attributes(before) if before else {}
    return [update for key, update in now.items() if before is None or then[key].value != update.value]


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
