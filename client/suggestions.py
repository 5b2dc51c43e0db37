# SPDX-License-Identifier: Apache-2.0
"""Guesses what a user meant: the nearest valid key or value, and words of other systems for ours."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from client.yaml_tree import Node, Scalar
from perdure.model.manifest import json_schema

_WORDS_FOR_KEYS = {
    "agent": "host",
    "args": "command",
    "cmd": "command",
    "env": "environment",
    "volumes": "mounts",
    "tmpfs": "mounts",
    "devicemappings": "devices",
    "network": "networks",
    "networkmode": "networks",
    "securitycontext": "privileged",
    "imagepullpolicy": "pullPolicy",
    "pull": "pullPolicy",
    "cpu": "resources",
    "stopsignal": "stop",
    "stopgraceperiod": "stop",
    "terminationgraceperiodseconds": "stop",
    "livenessprobe": "healthcheck",
    "metadata": "name",
    "version": "apiVersion",
    "services": "workloads",
    "containers": "workloads",
}
_WORDS_FOR_VALUES = {
    "no": "never",
    "false": "never",
    "unless-stopped": "always",
    "true": "always",
    "yes": "always",
    "ifnotpresent": "missing",
    "onfailure": "onFailure",
    "on-failure": "onFailure",
}


def suggest_key(key: str, trail: Sequence[str | int]) -> str:
    """A hint for a key that is not valid at the end of the trail."""
    here = _keys_below(trail)
    if not trail and key in here["defaults"]:
        return "it belongs to a workload or to defaults: indent it more"
    for name, below in here.items():
        if key in below:
            return f"it belongs into {name}: write {name}: {{{key}: ...}}"
    near = _nearest(key, list(here), _WORDS_FOR_KEYS)
    if near is not None:
        return f"did you mean {near}?"
    if len(trail) == 2 and trail[0] == "workloads" and key in _keys_below(()):
        return "it belongs to the manifest: indent it less"
    return f"known here are {', '.join(here)}" if here else ""


def suggest_value(node: Node, allowed: list[str]) -> str:
    """A hint for a value that is none of the allowed ones."""
    near = _nearest(node.text, allowed, _WORDS_FOR_VALUES) if isinstance(node, Scalar) else None
    return f"did you mean {near}?" if near is not None else f"write one of {', '.join(allowed)}"


def _nearest(word: str, known: list[str], synonyms: dict[str, str]) -> str | None:
    folded = word.lower().replace("_", "").replace(" ", "")
    by_folded = {name.lower(): name for name in known}
    if synonyms.get(folded) in known:
        return synonyms[folded]
    near = difflib.get_close_matches(folded.replace("-", ""), by_folded, 1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def _keys_below(trail: Sequence[str | int]) -> dict[str, list[str]]:
    """The valid keys at the end of a trail, each with the keys that are valid below it."""
    schema = _schema()
    places = [schema]
    for part in trail:
        places = [below for place in places for below in _below(place, part)]
    found: dict[str, list[str]] = {}
    for place in itertools.chain.from_iterable(map(_resolved, places)):
        for name, below in place.get("properties", {}).items():
            keys = [key for resolved in _resolved(below) for key in resolved.get("properties", {})]
            found.setdefault(name, []).extend(keys)
    return found


def _below(place: dict[str, Any], part: str | int) -> Iterator[dict[str, Any]]:
    for resolved in _resolved(place):
        if isinstance(part, int):
            yield from [resolved["items"]] if "items" in resolved else []
        elif part in resolved.get("properties", {}):
            yield resolved["properties"][part]
        else:
            yield from resolved.get("patternProperties", {}).values()


def _resolved(place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The place with references followed and alternatives taken apart."""
    if "$ref" in place:
        yield from _resolved(_schema()["$defs"][place["$ref"].rpartition("/")[2]])
        return
    yield place
    for alternative in (*place.get("anyOf", ()), *place.get("oneOf", ())):
        yield from _resolved(alternative)


@cache
def _schema() -> dict[str, Any]:
    return json_schema()
