# SPDX-License-Identifier: Apache-2.0
"""Workloads that wait for each other would wait for ever: they are found before anything is sent.

Found in files, each step is told with its line. The Python client looks once more, since manifests may come from elsewhere, and
then with what was applied before. Two users who apply at the same moment can still make a cycle; its workloads then say for
whom they wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from client.errors import Circular
from client.problems import Problem
from client.yaml_tree import Node, follow, key_node
from perdure.policy.cycles import find_cycles

if TYPE_CHECKING:
    from perdure.model.manifest import Manifest, Target

Document = tuple[str, Node, "Manifest"]
"""The file, what stands there, and what it means."""

HINT: Final = "leave one of these dependencies out"


def in_files(documents: Sequence[Document]) -> Iterator[Problem]:
    """Every cycle, at its first dependency; the same one on many hosts is told once."""
    found = [(file, node, target) for file, node, manifest in documents for target in manifest.targets()]
    places = {_label(target): (file, node, target.name) for file, node, target in found}
    told: set[tuple[tuple[str, int, int], ...]] = set()
    for cycle in find_cycles(_graph(target for _, _, target in found), places):
        steps = [(places[label][0], *_place(*places[label][1:], other)) for label, other in pairwise(cycle)]
        if (mark := tuple(sorted(steps))) not in told:
            told.add(mark)
            said = [f"{label} ({file}:{line})" for label, (file, line, _) in zip(cycle, steps, strict=False)]
            file, line, column = steps[0]
            yield Problem(file, line, column, f"these wait for each other: {' -> '.join([*said, cycle[-1]])}", HINT)


def refuse(targets: Iterable[Target], before: Mapping[str, Iterable[str]] | None = None) -> None:
    """Refuse what is to be applied if some of it waits for itself in the end.

    Args:
        targets: what is to be applied.
        before: what workloads that were applied before depend on, by ``HOST/NAME``.

    Raises:
        Circular: some do.
    """
    now = _graph(targets)
    graph = {label: tuple(depends_on) for label, depends_on in (before or {}).items()} | now
    for cycle in find_cycles(graph, now):
        said = [label if label in now else f"{label} (applied before)" for label in cycle]
        raise Circular(f"these wait for each other: {' -> '.join(said)}", f"Nothing was sent: {HINT}.")


def _graph(targets: Iterable[Target]) -> dict[str, tuple[str, ...]]:
    return {_label(target): tuple(target.spec.depends_on) for target in targets}


def _label(target: Target) -> str:
    return f"{target.host}/{target.name}"


def _place(document: Node, name: str, dependency: str) -> tuple[int, int]:
    """Where a workload says that it depends on another one: with its host or without, in its own words or in defaults."""
    for begin in (("workloads", name), ("defaults",)):
        for key in (dependency, dependency.partition("/")[2]):
            way = (*begin, "dependsOn", key)
            if follow(document, way)[1] == way:
                node = key_node(document, way)
                return node.line, node.column
    raise AssertionError(f"{name} does not depend on {dependency}")
