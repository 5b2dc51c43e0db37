# SPDX-License-Identifier: Apache-2.0
"""Manifests to begin a test with, and what is found wrong with a changed one."""

from __future__ import annotations

from typing import Any

import jsonschema
from pydantic import ValidationError

from perdure.model.manifest import Manifest, json_schema
from perdure.model.workload import WorkloadSpec

IMAGE = "localhost:5000/web:1.2"
SCHEMA = jsonschema.Draft202012Validator(json_schema())


def document(**workload: Any) -> dict[str, Any]:
    """A manifest with one workload, which says this on top of image and host. What is ``...`` is left out."""
    entry = {"host": "edge-1", "image": IMAGE, **workload}
    return {
        "apiVersion": "perdure/v1",
        "name": "shop",
        "workloads": {"web": {key: value for key, value in entry.items() if value is not ...}},
    }


def spec_of(**workload: Any) -> WorkloadSpec:
    """The normal form of a workload that says this; an editor with the schema must not underline it either."""
    (target,) = Manifest.model_validate(document(**workload)).targets()
    SCHEMA.validate(document(**workload))
    return target.spec


def complaints(written: Any) -> dict[str, str]:
    """All that is wrong with a document: by the way to it, the message and the hint."""
    try:
        Manifest.model_validate(written)
    except ValidationError as error:
        return {
            ".".join(map(str, details["loc"])): f"{details['msg']} | {details.get('ctx', {}).get('hint', '')}"
            for details in error.errors()
        }
    return {}


def complaints_of(**workload: Any) -> dict[str, str]:
    """All that is wrong with a workload that says this."""
    return {
        way.removeprefix("workloads.web").removeprefix("."): text
        for way, text in complaints(document(**workload)).items()
    }
