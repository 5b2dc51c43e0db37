# SPDX-License-Identifier: Apache-2.0
"""The table of cases names tests that exist, and leaves out none of ``tests/cases``."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, tracked

ROW = re.compile(r"^\| (?P<case>[A-Z]\d+) \|.*\|(?P<tests>[^|]*)\|$", re.MULTILINE)
TEST = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<name>\w+)`")
PROMISED = [
    *(f"S{number}" for number in range(1, 11)),
    *(f"L{number}" for number in range(1, 8)),
    *(f"C{number}" for number in range(1, 11)),
    *("R1", "R4", "R6", "U1", "U2", "U4", "U5", "U6", "U7"),
]


@cache
def rows() -> dict[str, set[tuple[str, str]]]:
    """The tests of each case."""
    page = (ROOT / "docs/contributing/cases.md").read_text()
    return {row["case"]: set(TEST.findall(row["tests"])) for row in ROW.finditer(page)}


@cache
def defined_in(path: str) -> set[str]:
    """The tests that a file defines."""
    tree = ast.parse((ROOT / path).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("case", PROMISED)
def test_case_is_shown_by_a_test(case: str) -> None:
    assert rows().get(case)


@pytest.mark.parametrize("case", rows())
def test_named_tests_exist(case: str) -> None:
    assert [f"{path}::{name}" for path, name in rows()[case] if name not in defined_in(path)] == []


@pytest.mark.parametrize("path", tracked("tests/cases/test_*.py"), ids=str)
def test_every_case_that_is_played_stands_in_the_table(path: Path) -> None:
    """But for tests of the search for secrets itself."""
    named = {name for tests in rows().values() for _, name in tests}
    assert defined_in(str(path)) - named <= {"test_u7_the_forms_are_those_that_an_encoding_makes"}
