# SPDX-License-Identifier: Apache-2.0
"""What a client can be told.

```
ReconcilerError
├── NotFound          there is no such workload, or no such host
├── Ambiguous         a bare name that several hosts have
├── TooLarge          an apply that Temporal would not take; nothing was sent
├── Duplicate         two manifests want the same workload; nothing was sent
├── Circular          workloads that would wait for each other; nothing was sent
├── NoWorker          nobody does the work: no control worker, or none on the host
├── Parked            it failed for good, so there is nothing to wait for
├── Superseded        a newer apply, or a removal, took the place of what was waited for
├── TimedOut          it did not come in time; it goes on without us
├── HostFailed        a host's worker answers, and could not do what was asked
├── InUse             a host that is not to be forgotten: its worker answers, or it has workloads
└── Incompatible      the server, or what a workload says of itself, is not of this version

perdure.runtime.problems.Problem
├── SettingsProblem   a wrong variable or file
└── Unreachable       Temporal does not answer
```

All have a ``message``, and a ``hint`` that may be empty. Errors of Temporal's SDK never come out of ``client.api``: they are the
``__cause__`` of these.
"""

from __future__ import annotations

from datetime import datetime

from perdure.model.status import WorkloadStatus


class ReconcilerError(Exception):
    """The base of all."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotFound(ReconcilerError):
    """There is no such workload or host, or it was removed."""

    @classmethod
    def workload(cls, label: str) -> NotFound:
        """Say that a workload is not there."""
        return cls(f"there is no workload {label}", "List them by `perdure get workloads`.")

    @classmethod
    def host(cls, host: str) -> NotFound:
        """Say that a host is not there."""
        return cls(f"there is no host {host}: no worker ever served it", "List them by `perdure get hosts`.")


class Ambiguous(ReconcilerError):
    """Several hosts have a workload of that name."""

    def __init__(self, name: str, hosts: list[str]) -> None:
        found = ", ".join(f"{host}/{name}" for host in sorted(hosts))
        super().__init__(f"{name} is on {len(hosts)} hosts: {found}", "Write HOST/NAME.")
        self.hosts = sorted(hosts)


class TooLarge(ReconcilerError):
    """A workload's spec is larger than what can be sent."""


class Duplicate(ReconcilerError):
    """Two manifests want the same workload."""


class Circular(ReconcilerError):
    """Workloads that would wait for each other for ever."""


class NoWorker(ReconcilerError):
    """Nobody does the work now. What was sent is kept and takes effect when a worker comes."""

    def __init__(self, message: str, hint: str, seen_at: datetime | None) -> None:
        super().__init__(message, hint)
        self.seen_at = seen_at


class _AboutWorkload(ReconcilerError):
    """An error that carries the latest status."""

    def __init__(self, message: str, hint: str, status: WorkloadStatus | None) -> None:
        super().__init__(message, hint)
        self.status = status


class Parked(_AboutWorkload):
    """The workload is not tried again until something changes."""


class Superseded(_AboutWorkload):
    """What was waited for will not come: something newer took its place."""


class TimedOut(_AboutWorkload):
    """The condition was not met in time."""


class HostFailed(ReconcilerError):
    """A host could not do what was asked. The message tells why."""


class InUse(ReconcilerError):
    """The host is not to be forgotten."""


class Incompatible(ReconcilerError):
    """Something is of another version, or configured for something else."""
