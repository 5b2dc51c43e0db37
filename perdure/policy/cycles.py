# SPDX-License-Identifier: Apache-2.0
"""Who depends on himself in the end.

A graph says for each node which ones it depends on. What a node depends on need not be a node itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

N = TypeVar("N", bound=Hashable)

Graph = Mapping[N, Collection[N]]


def find_cycles(graph: Graph[N], through: Iterable[N]) -> Iterator[tuple[N, ...]]:
    """For each of these nodes that depends on itself in the end, a shortest way back, from the node to itself.

    A node that stands in one that was told already tells no other.
    """
    if not _has_cycle(graph):
        return
    told: set[N] = set()
    for node in through:
        if node not in told and (cycle := _way_back(graph, node)):
            told.update(cycle)
            yield cycle


def _has_cycle(graph: Graph[N]) -> bool:
    """In linear time, which is all that a good manifest has to pay."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def _way_back(graph: Graph[N], begin: N) -> tuple[N, ...]:
    """The shortest way from a node to itself, both ends named; empty where there is none."""
    came_from: dict[N, N] = {}
    to_visit = deque([begin])
    while to_visit:
        node = to_visit.popleft()
        for other in graph.get(node, ()):
            if other == begin:
                return (*reversed(list(_trail(came_from, node, begin))), begin)
            if other not in came_from:
                came_from[other] = node
                to_visit.append(other)
    return ()


def _trail(came_from: Mapping[N, N], node: N, begin: N) -> Iterator[N]:
    yield node
    while node != begin:
        node = came_from[node]
        yield node
