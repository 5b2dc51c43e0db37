# SPDX-License-Identifier: Apache-2.0
"""A YAML document as a tree in which every key and value knows its place and how it was written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LONGEST_FILE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Unclear:
    """A plain scalar that people and programs read in different ways, such as ``0123`` or ``0x1F``. It fits no field."""

    text: str


@dataclass(slots=True)
class Scalar:
    """A text, number, truth value or nothing. Places are counted from 1."""

    line: int
    column: int
    value: str | int | float | bool | Unclear | None
    text: str
    """As it was written, without quotes."""
    size: int = 1


@dataclass(slots=True)
class Sequence:
    """A list."""

    line: int
    column: int
    items: list[Node] = field(default_factory=list)
    size: int = 1
    """How many nodes it stands for, aliases expanded."""


@dataclass(slots=True)
class Mapping:
    """An object: for each key the node of the key and that of the value."""

    line: int
    column: int
    entries: dict[str, tuple[Scalar, Node]] = field(default_factory=dict)
    size: int = 1
    """How many nodes it stands for, aliases expanded."""


Node = Scalar | Sequence | Mapping


def plain_data(node: Node) -> Any:
    """The value as plain Python data."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [plain_data(item) for item in node.items]
        case Mapping():
            return {key: plain_data(value) for key, (_, value) in node.entries.items()}


def kind_of(node: Node) -> str:
    """What it is, for a message."""
    match node:
        case Sequence():
            return "a list"
        case Mapping():
            return "an object"
        case Scalar(value=str()):
            return "a text"
        case Scalar(value=bool()):
            return "a truth value"
        case Scalar(value=None):
            return "nothing"
        case Scalar():
            return "a number"


def follow(document: Node, way: Iterable[str | int]) -> tuple[Node, tuple[str | int, ...]]:
    """Go along keys and indices, passing over those that are not there. Returns the last node and the way that was found."""
    node = document
    found: list[str | int] = []
    for part in way:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node.entries:
            node = node.entries[part][1]
            found.append(part)
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            found.append(part)
    return node, tuple(found)


def key_node(document: Node, way: tuple[str | int, ...]) -> Node:
    """The key at the end of a way, or the value where it has no key."""
    above, _ = follow(document, way[:-1])
    if way and isinstance(above, Mapping) and way[-1] in above.entries:
        return above.entries[str(way[-1])][0]
    return follow(document, way)[0]


_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_LOOKS_LIKE_A_NUMBER = re.compile(
    r"[-+]?[0-9][0-9_]*"  # leading zeros, signs, very long ones; with _ for YAML 1.1
    r"|0[xXoObB][0-9a-fA-F_]+"
    r"|[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"  # a date in YAML 1.1
)


def meaning(text: str) -> str | int | float | bool | Unclear | None:
    """What a plain scalar means by the core schema of YAML 1.2.

    ``NO``, ``on``, ``y`` and ``2122:22`` are texts there. What another reader would take for another value than we do is unclear.
    """
    if text in _NOTHING:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _LOOKS_LIKE_A_NUMBER.fullmatch(text):
        return Unclear(text)
    return text
