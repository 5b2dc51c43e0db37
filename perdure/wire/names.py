# SPDX-License-Identifier: Apache-2.0
"""Every name that Temporal stores, with its inverse. Histories and running fleets depend on them: add, never change."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from temporalio.common import SearchAttributeKey

WORKLOAD_WORKFLOW: Final = "Workload"
HOST_WORKFLOW: Final = "Host"
CONTROL_QUEUE: Final = "perdure"

APPLY: Final = "apply"
REMOVE: Final = "remove"
PAUSE: Final = "pause"
RESUME: Final = "resume"
RETRY_NOW: Final = "retry_now"
REPORT: Final = "report"
OBSERVE: Final = "observe"
HOST_CHANGED: Final = "host_changed"
ABANDON: Final = "abandon"
WAITING_ON: Final = "waiting_on"
RESYNC: Final = "resync"
"""Both the update that a user sends to a host's workflow, and the activity that does it."""
WORKER_STARTED: Final = "worker_started"
SUPERVISING: Final = "supervising"
FIRST_ATTEMPT: Final = "first_attempt"
STATUS: Final = "status"
SUBSTATE: Final = "substate"
LAST_ERROR: Final = "last_error"

ENSURE: Final = "ensure"
PULL: Final = "pull"
STOP: Final = "stop"
HOST_PRESENCE: Final = "host_presence"
CENTRAL_DEFAULTS: Final = "central_defaults"
SUPERVISE: Final = "supervise"
TELL_WORKLOADS: Final = "tell_workloads"
DEPENDENCIES: Final = "dependencies"

NO_WORKER: Final = "NoWorker"
"""The type of the error that ``resync`` answers where no worker serves the host."""
RESYNC_FAILED: Final = "ResyncFailed"
"""The type of the error that ``resync`` answers where the worker could not do it."""

MEMO_STATUS: Final = "status"
"""The memo key that holds the whole WorkloadStatus, or HostStatus; the keys below repeat parts of it for people in the Web UI."""
MEMO_STATE: Final = "state"
MEMO_LAST_ERROR: Final = "lastError"
MEMO_LAST_ERROR_KIND: Final = "lastErrorKind"
MEMO_LAST_ERROR_AT: Final = "lastErrorAt"
MEMO_HINT: Final = "hint"
MEMO_IMAGE: Final = "image"

SA_HOST: Final = SearchAttributeKey.for_keyword("PerdureHost")
SA_WORKLOAD: Final = SearchAttributeKey.for_keyword("PerdureWorkload")
SA_MANIFEST: Final = SearchAttributeKey.for_keyword("PerdureManifest")
SA_STATE: Final = SearchAttributeKey.for_keyword("PerdureState")
SA_SUBSTATE: Final = SearchAttributeKey.for_keyword("PerdureSubstate")
SA_ERROR_KIND: Final = SearchAttributeKey.for_keyword("PerdureErrorKind")
SA_GENERATION: Final = SearchAttributeKey.for_int("PerdureGeneration")
SEARCH_ATTRIBUTES: Final = {
    "PerdureHost": "Keyword",
    "PerdureWorkload": "Keyword",
    "PerdureManifest": "Keyword",
    "PerdureState": "Keyword",
    "PerdureSubstate": "Keyword",
    "PerdureErrorKind": "Keyword",
    "PerdureGeneration": "Int",
}
"""What a server must know before a workflow starts, and its types there."""


def workload_id(host: str, name: str) -> str:
    """The workflow id of a workload, for example ``workload/edge-1/web``."""
    return f"workload/{host}/{name}"


def parse_workload_id(workflow_id: str) -> tuple[str, str] | None:
    """Host and name of a workflow id, or None where it is not a workload's."""
    match workflow_id.split("/"):
        case ["workload", host, name] if host and name:
            return host, name
    return None


def host_id(host: str) -> str:
    """The workflow id of a host, for example ``host/edge-1``."""
    return f"host/{host}"


def parse_host_id(workflow_id: str) -> str | None:
    """The host of a workflow id, or None where it is not a host's."""
    match workflow_id.split("/"):
        case ["host", host] if host:
            return host
    return None


def host_queue(host: str) -> str:
    """The task queue of a host's short work."""
    return f"perdure/host/{host}"


def pull_queue(host: str) -> str:
    """The task queue of a host's pulls."""
    return f"perdure/pull/{host}"


def host_of_queue(queue: str) -> str | None:
    """The host that a task queue belongs to, or None."""
    match queue.split("/"):
        case ["perdure", "host" | "pull", host] if host:
            return host
    return None


def worker_identity(role: str, name: str, pid: int) -> str:
    """How a worker signs its work, for example ``host/edge-1@812``."""
    return f"{role}/{name}@{pid}"


def activity_id(phase: str, generation: int, number: int = 1) -> str:
    """The activity id of a step: ``pull-g2``, then ``pull-g2-2`` where the same step is scheduled again in one run."""
    return f"{phase}-g{generation}" + (f"-{number}" if number > 1 else "")


def workload_url(ui: str, namespace: str, host: str, name: str) -> str:
    """The page of a workload in the Temporal Web UI."""
    return _url(ui, namespace, workload_id(host, name))


def host_url(ui: str, namespace: str, host: str) -> str:
    """The page of a host in the Temporal Web UI."""
    return _url(ui, namespace, host_id(host))


def _url(ui: str, namespace: str, workflow_id: str) -> str:
    return f"{ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
