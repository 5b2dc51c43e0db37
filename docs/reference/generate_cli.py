# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: INP001 - a script beside what it writes, in no package
"""Writes the reference page of the command line and its settings. ``python -m docs.reference.generate_cli``."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic.alias_generators import to_camel
from pydantic_core import PydanticUndefined

from client.cli.exits import WORST_FIRST, Exit
from perdure.model.values import format_duration
from perdure.runtime.settings import ENV_PREFIX, FILE_NAME, Settings

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/reference/cli.md"
COMMAND: Final = "python -m docs.reference.generate_cli"
HEAD: Final = f"""\
<!-- Made by `{COMMAND}`: change the commands, not this page. -->
# Command line

Data goes to standard output, everything else to standard error. Colours appear on a terminal only, and never with `NO_COLOR`.
Elsewhere than on a terminal no output is cut. `-o json` is meant for programs: one array from `get workloads` and `get hosts`,
one status from `describe`, one report from `resync`, with the keys that [Words](../concepts/words.md) tells of.

"""
SETTINGS_HEAD: Final = f"""\
## Settings

By variables, or by keys of `{FILE_NAME}` in the current folder and in the home; variables win, then the current folder. The
home itself can only be set by its variable. How Temporal is reached is Temporal's own configuration: the `TEMPORAL_*` variables
and the profiles of `temporal.toml`. Where these name no address, the running stack of the home is meant.

| variable | key | default | what |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The text of the page."""
    return f"{HEAD}{_exit_codes()}\n{_settings()}\n{_commands()}"


def _exit_codes() -> str:
    rows = [f"| {int(code)} | {text} |" for code, text in _docstrings(Exit).items()]
    order = ", ".join(str(int(code)) for code in WORST_FIRST)
    return "\n".join(
        [
            "## Exit codes",
            "",
            "| code | means |",
            "| --- | --- |",
            *rows,
            "",
            f"A command about several workloads ends with the worst code, in this order: {order}.",
            "",
        ]
    )


def _docstrings(kind: type[Exit]) -> dict[Exit, str]:
    """The text below each member."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for member, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name):
            assert isinstance(text, ast.Expr)
            assert isinstance(text.value, ast.Constant)
            found[kind[member.targets[0].id]] = str(text.value.value)
    return found


def _settings() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(default, timedelta):
            default = format_duration(default)
        shown = "" if default in (None, "", PydanticUndefined) else f"`{default}`"
        text = (field.description or "").replace("``", "`").replace("\n", " ")
        rows.append(f"| `{(ENV_PREFIX + name).upper()}` | `{to_camel(name)}` | {shown} | {text} |")
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


def _commands() -> str:
    """The commands, by the docs writer of typer, with headings one level lower."""
    typer = Path(sys.executable).parent / "typer"
    written = subprocess.run(
        [typer, "client.cli.app", "utils", "docs", "--name", "perdure"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},  # noqa: TID251 - a child's environment
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in written.strip().splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
