# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - a script beside what it writes, in no package
"""Writes what is made from the manifest's model: its JSON Schema and its reference page. ``python -m schema.generate``."""

from __future__ import annotations

import json
from pathlib import Path

from perdure.model.manifest import json_schema
from perdure.model.manifest_page import as_markdown

ROOT = Path(__file__).parent.parent
COMMAND = "make docs"


def generated() -> dict[Path, str]:
    """Every file that is made from the model, with its text."""
    return {
        ROOT / "schema/perdure-v1.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
        ROOT / "docs/reference/manifest.md": as_markdown(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
