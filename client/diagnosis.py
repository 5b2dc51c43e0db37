# SPDX-License-Identifier: Apache-2.0
"""Turns what the model refuses into problems at places of the file, each with what to write instead.

``defaults`` is merged into the workloads before they are checked, so that one mistake there is found again in each of them.
Such a finding is looked up where it was written, and told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.problems import Problem
from client.suggestions import suggest_key, suggest_value
from client.yaml_tree import Node, Scalar, Unclear, follow, key_node, kind_of
from perdure.model.rules import REFUSED, shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Loc = tuple[str | int, ...]

_KEY = "[key]"
"""How pydantic says that a key of an object is wrong, and not its value."""

_TYPE_ERRORS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "tuple_type": "a list",
}
_HINTS_OF_SHAPE = {
    "a list": "write [ITEM, ...], or each item on a line that begins with -",
    "an object": "write KEY: VALUE on lines of their own, indented",
}
_HINTS_OF_WORKLOAD: dict[str | int, str] = {
    "image": "write image: REGISTRY/REPOSITORY:TAG here or in defaults",
    "host": "write host: NAME or hosts: [NAME, ...] here or in defaults",
}
_LIMITS = {"greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}"}


def diagnose(file: str, document: Node, error: ValidationError) -> list[Problem]:
    """All that is wrong with a document, in the order of its lines and without repetitions."""
    return sorted({_problem(file, document, details) for details in error.errors(include_url=False)})


def _problem(file: str, document: Node, details: ErrorDetails) -> Problem:
    way = tuple(part for part in details["loc"] if part != _KEY)
    node, found = _locate(document, way)
    match details["type"]:
        case "missing":
            hint = _HINTS_OF_WORKLOAD.get(way[-1]) if len(way) == 3 else None
            return _at(file, node, found, f"{way[-1]} is missing", hint or f"write {way[-1]}: ... here")
        case "extra_forbidden":
            return _at(file, key_node(document, found), found[:-1], *_unknown_key(str(way[-1]), found[:-1]))
    place = key_node(document, found) if _KEY in details["loc"] else node
    return _at(file, place, found, *_explain(details, node))


def _at(file: str, node: Node, way: Loc, message: str, hint: str) -> Problem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in way).lstrip(".")
    return Problem(file, node.line, node.column, f"{path}: {message}" if path else message, hint)


def _unknown_key(key: str, trail: Loc) -> tuple[str, str]:
    return f"unknown key {shown(key)}", suggest_key(key, trail)


def _explain(details: ErrorDetails, node: Node) -> tuple[str, str]:
    """Message and hint of an error that is not about a key's name."""
    kind, context = details["type"], details.get("ctx", {})
    written = shown(node.text) if isinstance(node, Scalar) and node.value is not None else kind_of(node)
    if kind == REFUSED:
        return str(context["text"]), str(context["hint"])
    if kind in ("enum", "literal_error"):
        allowed = [part.strip("'") for part in str(context["expected"]).replace(" or ", ", ").split(", ")]
        allowed = [part for part in allowed if part]
        return f"{written} is not one of {', '.join(allowed)}", suggest_value(node, allowed)
    if kind in _TYPE_ERRORS:
        return _wrong_type(kind, node)
    if kind in _LIMITS:
        return f"{written} is out of range", "write " + _LIMITS[kind].format_map(context)
    if kind == "union_tag_not_found":
        return "type is missing", "write type: bind, volume or tmpfs"
    if kind == "union_tag_invalid":
        expected = str(context["expected_tags"]).replace("'", "")
        return f"{context['tag']!r} is not a type", f"write one of {expected}"
    if kind == "too_short":
        return f"{kind_of(node)} must not be empty", ""
    if kind == "string_too_long":
        return f"the text is longer than {context['max_length']} characters", "shorten it"
    message, _, hint = details["msg"].removeprefix("Value error, ").partition(": ")
    return message, hint


def _wrong_type(kind: str, node: Node) -> tuple[str, str]:
    """Message and hint of a value of the wrong type."""
    wanted = _TYPE_ERRORS[kind]
    if not isinstance(node, Scalar):
        return f"it is {kind_of(node)}, not {wanted}", _HINTS_OF_SHAPE.get(wanted, f"write {wanted}")
    if isinstance(node.value, Unclear):
        message = f"{node.text} means different things to different readers of YAML"
        return message, f'quote it: "{node.text}"' if wanted == "a text" else f"write {wanted} in its plain form"
    if node.value is None:
        empty = (
            'write "" for an empty text, or leave it out' if wanted == "a text" else f"write {wanted}, or leave it out"
        )
        return "there is no value", empty
    if isinstance(node.value, str):
        return f"{shown(node.text)} is not {wanted}", _HINTS_OF_SHAPE.get(wanted, f"write {wanted}, without quotes")
    hint = f'quote it: "{node.text}"' if wanted == "a text" else _HINTS_OF_SHAPE.get(wanted, f"write {wanted}")
    return f"{node.text} is {kind_of(node)}, not {wanted}", hint


def _locate(document: Node, way: Loc) -> tuple[Node, tuple[str | int, ...]]:
    """The deepest node on the way; where the way leads through a workload, what defaults says is part of it."""
    node, found = follow(document, way)
    if len(way) > 2 and way[0] == "workloads" and len(found) < len(way):
        inherited, inherited_way = follow(document, ("defaults", *way[2:]))
        if len(inherited_way) >= len(found):
            return inherited, inherited_way
    return node, found
