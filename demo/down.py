# SPDX-License-Identifier: Apache-2.0
"""Stop and remove all that the story made."""

from __future__ import annotations

import sys

from demo.stage import Stage


def main() -> int:
    """Tear the stage down, and say what was left."""
    stage = Stage()
    if not stage.folder.exists():
        print("nothing to remove: the demo is not up")
        return 0
    problems = stage.tear_down()
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        return 1
    print("the demo is gone: its processes, containers, mounts and files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
