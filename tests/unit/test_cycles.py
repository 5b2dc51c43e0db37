# SPDX-License-Identifier: Apache-2.0
"""Any cycle is found, and nothing else is taken for one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perdure.policy.cycles import find_cycles

NODES = st.integers(0, 8)
GRAPHS = st.dictionaries(NODES, st.lists(NODES, max_size=3, unique=True), max_size=8)


def reaches(graph: dict[int, list[int]], begin: int, end: int) -> bool:
    """Whether a way of at least one step leads from one to the other: looked up the slow way."""
    reached: set[int] = set()
    while new := {other for node in {begin, *reached} for other in graph.get(node, ())} - reached:
        reached |= new
    return end in reached


@given(GRAPHS)
def test_every_cycle_is_found(graph: dict[int, list[int]]) -> None:
    """What is told is a way in the graph, from a node to itself; every node that is on a cycle is in one, or touches one."""
    found = list(find_cycles(graph, graph))
    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert all(other in graph[node] for node, other in pairwise(cycle))
        assert len(set(cycle)) == len(cycle) - 1
    told = {node for cycle in found for node in cycle}
    assert told >= {cycle[0] for cycle in found}
    assert {node for node in graph if reaches(graph, node, node)} <= told | {
        node for node in graph if any(reaches(graph, node, other) for other in told)
    }
    assert bool(found) == any(reaches(graph, node, node) for node in graph)


@given(GRAPHS, NODES)
def test_a_cycle_that_does_not_go_through_them_is_not_theirs(graph: dict[int, list[int]], node: int) -> None:
    """What others did before is no reason to refuse an apply."""
    assert bool(list(find_cycles(graph, [node]))) == reaches(graph, node, node)


def test_the_shortest_way_is_told() -> None:
    graph = {"a": ["b", "d"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["e"]}
    assert list(find_cycles(graph, graph)) == [("a", "d", "a"), ("b", "c", "a", "b"), ("e", "e")]


def test_a_chain_of_ten_thousand_is_no_trouble() -> None:
    chain = {number: [number + 1] for number in range(10_000)}
    assert list(find_cycles(chain, chain)) == []
    assert len(next(find_cycles(chain | {9_999: [0]}, [0]))) == 10_001
