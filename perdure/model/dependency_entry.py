# SPDX-License-Identifier: Apache-2.0
"""What ``dependsOn`` of a manifest names: which workload a bare name means for a copy on some host, and names that mean none.

A bare name means the copy on the same host where there is one. That is what somebody wants who puts a shop with its cache on a
hundred hosts; only where it is not on the same host does it mean the one that there is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from perdure.model.rules import Matching, Misfit
from perdure.model.workload import DependencyCondition, WorkloadSpec

DEPENDENCIES_LIMIT = 100
"""The most dependencies of one workload: each of them is looked at again and again."""

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DependencyName = Annotated[
    str,
    Matching(
        f"(?:{_LABEL}/)?{_LABEL}",
        "the NAME of a workload of this manifest, or HOST/NAME of any",
        "dependency",
        ("db", "edge-1/db"),
    ),
]
"""The key of ``dependsOn``."""

Dependencies = Mapping[str, DependencyCondition]


class Places:
    """The workloads of a manifest, and the hosts that each of them is on."""

    def __init__(self, hosts: Mapping[str, Sequence[str]]) -> None:
        self._hosts = hosts

    def resolved(self, depends_on: Dependencies, host: str) -> dict[str, DependencyCondition]:
        """What a copy on a host depends on, by ``HOST/NAME``. What means nothing is left out; ``misfits`` tells it."""
        return {
            labels[0]: condition
            for name, condition in depends_on.items()
            if len(labels := self._meant(name, host)) == 1
        }

    def misfits(self, name: str, depends_on: Dependencies, specs: Mapping[str, WorkloadSpec]) -> Iterator[Misfit]:
        """What is wrong with the dependencies of a workload; each of them is told once, whatever the number of hosts."""
        told: set[str] = set()
        for host in self._hosts[name]:
            known: dict[tuple[str, ...], str] = {}
            for key, condition in depends_on.items():
                wrong = self._wrong(name, host, key, condition, specs)
                first = known.setdefault(self._meant(key, host), key)
                if wrong is None and first != key:
                    wrong = f"for host {host} it is the same as {first}", "name it once"
                if wrong is not None and key not in told:
                    told.add(key)
                    yield Misfit(("dependsOn", key, "[key]"), *wrong)

    def _meant(self, key: str, host: str) -> tuple[str, ...]:
        """The ``HOST/NAME`` that a key means on a host; several where nobody can tell, none where there is no such workload."""
        if "/" in key:
            return (key,)
        hosts = self._hosts.get(key, ())
        return (f"{host}/{key}",) if host in hosts else tuple(f"{other}/{key}" for other in hosts)

    def _wrong(
        self, name: str, host: str, key: str, condition: DependencyCondition, specs: Mapping[str, WorkloadSpec]
    ) -> tuple[str, str] | None:
        meant = self._meant(key, host)
        if not meant:
            near = difflib.get_close_matches(key, self._hosts, 1)
            hint = f"did you mean {near[0]}?" if near else "write HOST/NAME for a workload of another manifest"
            return f"there is no workload {key!r} in this manifest", hint
        if len(meant) > 1:
            return f"for host {host} it may be any of {', '.join(meant)}", "write one of them"
        if meant[0] == f"{host}/{name}":
            return "a workload cannot depend on itself", "leave it out, or name another one"
        other_host, _, other = meant[0].partition("/")
        spec = specs.get(other) if other_host in self._hosts.get(other, ()) else None
        check = spec.container.healthcheck if spec else None
        if condition is DependencyCondition.HEALTHY and check is not None and check.test == ("NONE",):
            return f"{other} switches its healthcheck off, so it is never healthy", "write running, or give it a test"
        return None
