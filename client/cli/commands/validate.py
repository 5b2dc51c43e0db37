# SPDX-License-Identifier: Apache-2.0
"""``perdure validate``, ``schema`` and ``version``: what needs no server."""

from __future__ import annotations

import json

import typer

from client.cli import console, session


def validate(files: session.Files) -> None:
    """Check manifests, and send nothing."""
    from client import manifests

    for loaded in manifests.load(files):
        targets = loaded.manifest.targets()
        count = f"{len(targets)} workload" + ("" if len(targets) == 1 else "s")
        console.out(f"{loaded.source}:{loaded.line}: manifest {loaded.manifest.name} is valid, {count}")


def schema() -> None:
    """Print the JSON Schema of manifests, for editors."""
    from perdure.model.manifest import json_schema

    console.out(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def version() -> None:
    """Print the version."""
    from perdure import __version__

    console.out(f"perdure {__version__}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (validate, schema, version):
        app.command()(command)
