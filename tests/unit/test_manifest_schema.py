# SPDX-License-Identifier: Apache-2.0
"""What is made from the model is checked in and fresh, and says the same as the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from client.manifests import load
from client.yaml_reader import read_documents
from client.yaml_tree import plain_data
from perdure.model.manifest import json_schema
from perdure.model.workload_entry import WorkloadEntry
from schema.generate import COMMAND, ROOT, generated
from tests.unit.manifests import SCHEMA, document

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_what_is_made_from_the_model_is_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated()[path], f"the model has changed: run `{COMMAND}`"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that describes an object."""
    if isinstance(schema, list):
        for part in schema:
            yield from objects(part)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)


def test_no_object_of_the_schema_takes_unknown_keys() -> None:
    for part in objects(json_schema()):
        assert part["additionalProperties"] is False, part


def test_every_key_of_the_schema_is_described() -> None:
    schema = json_schema()
    for part in objects(schema):
        for key, value in part.get("properties", {}).items():
            target = schema["$defs"].get(str(value.get("$ref")).rpartition("/")[2], {})
            assert value.get("description") or target.get("description"), key


def test_no_default_of_the_schema_is_in_a_form_that_the_model_refuses() -> None:
    """An editor offers defaults for completion: ``PT30S`` or ``420`` would be wrong."""
    entry = document()["workloads"]["web"]
    for key, value in _defaults(json_schema()["$defs"]["WorkloadEntry"]):
        WorkloadEntry.model_validate({**entry, key: value})
    defs = json_schema()["$defs"]
    assert defs["HealthcheckEntry"]["properties"]["interval"]["default"] == "30s"
    assert defs["FileEntry"]["properties"]["mode"]["default"] == "0644"


def _defaults(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in schema["properties"].items():
        if value.get("default") not in (None, ""):
            yield key, value["default"]


def test_the_schema_takes_the_smallest_manifest() -> None:
    SCHEMA.validate(document())


@pytest.mark.parametrize(
    "workload",
    [
        {"ports": [{"host": 1}]},
        {"ports": [8080]},
        {"mounts": [{"type": "bind", "target": "/x"}]},
        {"mounts": [{"source": "/a", "target": "/x"}]},
        {"mounts": [{"type": "tmpfs", "target": "/x", "source": "/a"}]},
        {"command": "httpd -f"},
        {"command": []},
        {"environment": {"A": 1.5}},
        {"environment": {"A": True}},
        {"environment": {"": "x"}},
        {"ulimits": {"files": 1}},
        {"image": "nginx"},
        {"image": "docker.io/Nginx"},
        {"host": "Edge"},
        {"restart": "no"},
        {"retry": {"giveUpAfter": 5}},
        {"resources": {"memory": "64m"}},
        {"resources": {"cpus": 0}},
        {"files": [{"path": "/x", "content": "", "mode": 644}]},
        {"restartpolicy": "always"},
        {"dependsOn": {"db": "up"}},
        {"dependsOn": {"a/b/c": "running"}},
        {"dependsOn": ["db"]},
        {"pull_policy": "always"},
    ],
    ids=repr,
)
def test_an_editor_underlines_what_the_model_refuses(workload: dict[str, Any]) -> None:
    assert not SCHEMA.is_valid(document(**workload))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_good_by_the_model_and_by_the_schema(example: Path) -> None:
    assert load([str(example)])
    (tree,), problems = read_documents(str(example), example.read_bytes())
    assert not problems
    SCHEMA.validate(plain_data(tree))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_begins_with_the_line_that_editors_read(example: Path) -> None:
    line = example.read_text().splitlines()[0]
    _, _, schema = line.partition("# yaml-language-server: $schema=")
    assert (example.parent / schema).resolve() == (ROOT / "schema/perdure-v1.schema.json").resolve()


def test_the_examples_can_be_applied_together() -> None:
    assert len(load([str(ROOT / "examples")])) == len(EXAMPLES) >= 3


def test_every_key_stands_in_the_example_of_every_key() -> None:
    """A new key is shown there; the short forms and one key of each pair that excludes itself are in other places."""
    (tree,), _ = read_documents("every-key", (ROOT / "examples/every-key.yaml").read_bytes())
    written = set(_keys(plain_data(tree)))
    for part in objects(json_schema()):
        assert set(part.get("properties", ())) <= written


def _keys(data: Any) -> Iterator[str]:
    if isinstance(data, list):
        for item in data:
            yield from _keys(item)
    elif isinstance(data, dict):
        for key, value in data.items():
            yield key
            yield from _keys(value)
