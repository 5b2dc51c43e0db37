# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a file: it is read, or refused with places that are in the file. Nothing else ever happens."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.manifests import LoadedManifest, ManifestError, load
from client.yaml_reader import read_documents
from client.yaml_tree import plain_data
from perdure.model.manifest import Manifest, json_schema
from perdure.model.workload import WorkloadSpec

EXAMPLE = (Path(__file__).parents[2] / "examples/every-key.yaml").read_text()
EVERY_KEY = plain_data(read_documents("every-key", EXAMPLE.encode())[0][0])
KEYS = sorted({key for entry in json_schema()["$defs"].values() for key in entry.get("properties", ())})


def read(raw: bytes) -> list[LoadedManifest]:
    """Read bytes as standard input. Each problem must have a message fit for a terminal, and a place that is in the file."""
    try:
        return load(["-"], stdin=io.BytesIO(raw))
    except ManifestError as error:
        problems = error.problems
    lines = len(re.split(r"\r\n|[\r\n\x85\u2028\u2029]", raw.decode("utf-8", errors="replace")))
    assert problems
    assert all(problem.message and 0 <= problem.line <= lines for problem in problems)
    assert all((problem.place + problem.message + problem.hint).isprintable() for problem in problems)
    return []


# ---- texts ----

TOKENS = st.sampled_from(
    [
        *(
            "\n",
            "\n  ",
            "\n    ",
            ": ",
            "- ",
            "? ",
            "[",
            "]",
            "{",
            "}",
            ", ",
            "&a ",
            "*a",
            "!x ",
            "!!str ",
            "|\n",
            ">-\n",
        ),
        *('"', "'", "#", "---\n", "...\n", "%YAML 1.2\n", "%TAG ! x\n", "\t", "\\x", '"\\U00110000"', '"\\u"'),
        *("<<", "=", "@", "`", "0x1F", "~", ".inf", "1e400", "9" * 5000),
        *("\ufeff", "\r", "\u2028", "\x85", "\0", "\ud800", "é", "\U0001f44b"),
    ]
)


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    read(raw)


@settings(max_examples=120)
@given(st.lists(st.one_of(TOKENS, st.text(max_size=5), st.sampled_from(KEYS)), max_size=30).map("".join))
@example('a: "\\U00110000"')
@example("? ? ? a")
@example("a: |9\n x")
@example("%YAML 99999999999.2\n---\na")
def test_any_yaml_is_read_or_refused(text: str) -> None:
    read(text.encode("utf-8", errors="surrogatepass"))


@settings(max_examples=40)
@given(st.integers(0, len(EXAMPLE)), st.integers(0, 40), st.lists(TOKENS, max_size=3).map("".join))
def test_a_manifest_with_a_slip_of_the_pen_is_read_or_refused(start: int, length: int, inserted: str) -> None:
    read((EXAMPLE[:start] + inserted + EXAMPLE[start + length :]).encode("utf-8", errors="surrogatepass"))


# ---- documents ----

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
    st.sampled_from(
        ["5s", "64Mi", "8080:80", "/data", "cache:/x", "edge-1", "NO", "0644", "localhost/x", "always", "SIGTERM"]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=5)), inner, max_size=3)
    ),
    max_leaves=8,
)


def replaced(data: Any, way: list[int], value: Any) -> Any:
    """The data with one part of it, found by going down by index, replaced."""
    if not way or not isinstance(data, (dict, list)) or not data:
        return value
    first, *rest = way
    if isinstance(data, list):
        index = first % len(data)
        return [replaced(item, rest, value) if at == index else item for at, item in enumerate(data)]
    chosen = sorted(data)[first % len(data)]
    return {key: replaced(item, rest, value) if key == chosen else item for key, item in data.items()}


@settings(max_examples=40)
@given(st.lists(st.integers(0, 50), max_size=5), VALUES)
def test_a_manifest_with_any_value_anywhere_is_read_or_refused(way: list[int], value: Any) -> None:
    read(json.dumps(replaced(EVERY_KEY, way, value)).encode())


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_workload_is_read_or_refused(workload: dict[str, Any]) -> None:
    written = {
        "apiVersion": "perdure/v1",
        "name": "shop",
        "defaults": workload,
        "workloads": {"web": workload, "db": {}},
    }
    read(json.dumps(written).encode())


@settings(max_examples=40)
@given(st.lists(st.integers(0, 50), min_size=3, max_size=6), VALUES)
def test_a_good_manifest_is_the_same_after_every_round(way: list[int], value: Any) -> None:
    """What was accepted once is accepted again as JSON, and its normal form survives the wire."""
    for loaded in read(json.dumps(replaced(EVERY_KEY, way, value)).encode()):
        for target in loaded.manifest.targets():
            assert WorkloadSpec.model_validate_json(target.spec.model_dump_json()) == target.spec


def test_the_example_of_every_key_is_the_same_as_yaml_and_as_json() -> None:
    (from_yaml,) = read(EXAMPLE.encode())
    (from_json,) = read(json.dumps(EVERY_KEY).encode())
    assert from_yaml.manifest == from_json.manifest
    assert Manifest.model_validate(EVERY_KEY).targets() == from_yaml.manifest.targets()
