# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence, is short, and names nothing of the machine that it was written on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.repository import PRODUCT, ROOT, text_of, tracked

LONGEST_MODULE = 400
"""Lines. A longer module holds more than one noun or verb."""

FOREIGN = re.compile(
    "|".join(
        (
            re.escape("/" + "work/"),
            re.escape("/" + "root/"),
            r"(pypi|pythonhosted|npmjs)\." + r"(org|com)",
            re.escape("deb." + "debian.org"),
            r"(index|extra-index)-u" + "rl",
        )
    )
)
"""Paths of one machine, and hosts of package registries: each user has their own."""


@pytest.mark.parametrize("path", tracked("*.py"), ids=str)
def test_python_file_begins_with_its_licence(path: Path) -> None:
    assert (ROOT / path).read_text().partition("\n")[0] == "# SPDX-License-Identifier: Apache-2.0"


@pytest.mark.parametrize("path", tracked(*(f"{name}*" for name in PRODUCT)), ids=str)
def test_module_is_short_enough_to_hold_one_thing(path: Path) -> None:
    if path.suffix == ".py":
        lines = len((ROOT / path).read_text().splitlines())
        assert lines <= LONGEST_MODULE, f"{path} has {lines} lines: look for the second noun or verb in it"


@pytest.mark.parametrize("path", tracked("*.py"), ids=str)
def test_nobody_imports_the_composition_root(path: Path) -> None:
    """Ruff bans it too, but not where a folder is exempt from the table."""
    tree = ast.parse((ROOT / path).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    if path.parts[0] != "tests":
        assert "worker" not in imported


def test_no_file_names_one_machine_or_a_package_registry() -> None:
    found = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in tracked()
        if (text := text_of(path)) is not None
        for number, line in enumerate(text.splitlines(), 1)
        if FOREIGN.search(line) and "--no-emit-index-url" not in line
    ]
    assert found == []


def test_no_file_is_large_without_being_listed_here() -> None:
    """Half a MiB of text is a data set; who adds one says so."""
    assert [path for path in tracked() if (ROOT / path).stat().st_size > 512 * 1024] == []
