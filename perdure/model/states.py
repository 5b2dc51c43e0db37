# SPDX-License-Identifier: Apache-2.0
"""The states of a workload, as a user sees them.

```
                apply                      image and container are there
  (nothing) ----------> Pending ------------------------------------------> Running
                        ^  |  ^                                              |  |
       a newer manifest |  |  | the container ended, and policy says restart |  | the container ended,
       or `retry`       |  |  +----------------------------------------------+  | and policy says stop
                        |  | permanent error, or the time limit passed         v
                        +- Failed <----------------------------- Succeeded | Failed(Exited)

  any --pause--> Paused --resume--> Pending          any --remove--> Stopping --> Removed
  any --the host's worker no longer answers--> Unknown(HostLost) --it answers--> what it really is
```

Once a try has failed, the substate stays ``PullBackoff`` or ``StartBackoff`` through the tries that follow, until one succeeds
or a newer generation comes: it never flickers.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What a workload is doing, in one word."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPING = "Stopping"
    PAUSED = "Paused"
    UNKNOWN = "Unknown"
    REMOVED = "Removed"


class Substate(StrEnum):
    """The reason for the state, in one more word."""

    INITIAL = "Initial"
    WAITING_FOR_DEPENDENCIES = "WaitingForDependencies"
    WAITING_FOR_HOST = "WaitingForHost"
    QUEUED = "Queued"
    PULLING = "Pulling"
    PULL_BACKOFF = "PullBackoff"
    STARTING = "Starting"
    START_BACKOFF = "StartBackoff"
    RESTART_BACKOFF = "RestartBackoff"
    OK = "Ok"
    UNHEALTHY = "Unhealthy"
    REJECTED = "Rejected"
    GAVE_UP = "GaveUp"
    EXITED = "Exited"
    STOPPING = "Stopping"
    STOP_BACKOFF = "StopBackoff"
    HOST_LOST = "HostLost"


SUBSTATES: dict[State, frozenset[Substate]] = {
    State.PENDING: frozenset(
        {
            Substate.INITIAL,
            Substate.WAITING_FOR_DEPENDENCIES,
            Substate.WAITING_FOR_HOST,
            Substate.QUEUED,
            Substate.PULLING,
            Substate.PULL_BACKOFF,
            Substate.STARTING,
            Substate.START_BACKOFF,
            Substate.RESTART_BACKOFF,
        }
    ),
    State.RUNNING: frozenset({Substate.OK, Substate.UNHEALTHY}),
    State.SUCCEEDED: frozenset({Substate.OK}),
    State.FAILED: frozenset({Substate.REJECTED, Substate.GAVE_UP, Substate.EXITED}),
    State.STOPPING: frozenset({Substate.STOPPING, Substate.STOP_BACKOFF}),
    State.PAUSED: frozenset({Substate.OK}),
    State.UNKNOWN: frozenset({Substate.HOST_LOST}),
    State.REMOVED: frozenset({Substate.OK}),
}
"""Which substates each state may have."""
