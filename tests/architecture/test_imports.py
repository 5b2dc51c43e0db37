# SPDX-License-Identifier: Apache-2.0
"""Who may import whom, and what a workflow may not call."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

BIN = Path(sys.executable).parent


def test_every_layer_keeps_to_its_place() -> None:
    linted = subprocess.run([BIN / "lint-imports"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_workflows_repeat_every_ban_of_the_whole_project() -> None:
    """The table of the nested ruff.toml replaces the project's one: an entry that is not repeated is lost."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    nested = tomllib.loads((ROOT / "workflows/ruff.toml").read_text())["lint"]
    bans = ("flake8-tidy-imports", "banned-api")
    assert whole[bans[0]][bans[1]].keys() <= nested[bans[0]][bans[1]].keys()


@pytest.mark.parametrize(
    "statement",
    [
        "import datetime\n\nnow = datetime.datetime.now(datetime.UTC)",
        "from datetime import UTC, datetime\n\nnow = datetime.now(UTC)",
        "import time\n\nnow = time.monotonic()",
        "import random\n\nchance = random.random()",
        "import asyncio\n\nfirst = asyncio.wait([])",
        "from activities import engine\n\nprint(engine)",
        "import os\n\nhome = os.environ",
    ],
)
def test_ruff_refuses_what_a_replay_would_not_repeat(statement: str) -> None:
    linted = subprocess.run(
        [BIN / "ruff", "check", "--no-cache", "--select", "TID251", "--stdin-filename", "workflows/example.py", "-"],
        cwd=ROOT,
        input=statement + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "TID251" in linted.stdout
