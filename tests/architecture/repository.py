# SPDX-License-Identifier: Apache-2.0
"""What is in the repository, as git sees it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("perdure", "workflows", "activities", "client", "worker.py")
"""What the wheel holds."""


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """The files that are, or are about to be, under version control, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = [Path(name) for name in sorted(set(listed.split("\0"))) if name]
    return tuple(path for path in paths if (ROOT / path).is_file())


def text_of(path: Path) -> str | None:
    """The content of a text file, None for any other."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
