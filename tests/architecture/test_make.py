# SPDX-License-Identifier: Apache-2.0
"""The two commands of the README, and the others, are there and are told of."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.architecture.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize(
    "target", ["demo", "down", "test", "check", "bench", "bench-peers", "clean", "setup", "help", "lock"]
)
def test_target_exists_and_is_described(target: str) -> None:
    assert target in TARGETS


def test_help_lists_every_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"^  make ([a-z-]+)", shown, re.MULTILINE) == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_target_is_told_of_in_the_guide_for_contributors(target: str) -> None:
    if target != "help":
        assert f"make {target}" in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_documents_name_only_targets_that_exist(document: str) -> None:
    for command in re.findall(r"\bmake ([a-z-]+)\b(?=[`\n ])", "\n".join(code(document))):
        assert command in TARGETS


def code(document: str) -> list[str]:
    """What stands in code blocks and code words."""
    return re.findall(r"```.*?```|`[^`\n]+`", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize("path", [".ci/run", "deploy/install-host.sh"])
def test_script_can_be_executed(path: str) -> None:
    assert os.access(ROOT / path, os.X_OK)


@pytest.mark.parametrize("path", [".ci/run", "deploy/install-host.sh"])
def test_script_is_valid_bash(path: str) -> None:
    checked = subprocess.run(["bash", "-n", path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
