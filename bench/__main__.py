# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: JSON on standard output, a table and the progress on standard error."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from bench import scenarios
from bench.plain import PlainPodman
from bench.report import Measure, as_json, as_table
from bench.scenarios import Rounds
from bench.stage import IMAGE, Stage

QUICK = Rounds(start=5, supersede=3, kill=3, many=1, workloads=10)


async def measure(stage: Stage, rounds: Rounds) -> list[Measure]:
    """All stories, one after the other."""
    async with await stage.connect() as fleet:
        with PlainPodman(stage.podman.socket, IMAGE, stage.stamps) as plain:
            stories: dict[str, Callable[[], Awaitable[list[Measure]]]] = {
                "from apply to running": lambda: scenarios.start(stage, fleet, plain, rounds),
                "superseding a pull that hangs": lambda: scenarios.supersede(stage, fleet, rounds),
                "from kill to running": lambda: scenarios.kill(stage, fleet, plain, rounds),
                "many workloads at once": lambda: scenarios.many(stage, fleet, plain, rounds),
                "history": lambda: scenarios.history(stage, fleet),
            }
            measures: list[Measure] = []
            for title, story in stories.items():
                print(f"measuring: {title}", file=sys.stderr, flush=True)
                measures += await story()
            return measures


def main() -> None:
    """Measure, print, and remove all that was made."""
    parser = argparse.ArgumentParser("bench", description="Measure Perdure beside plain Podman in the same run.")
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; the numbers say little")
    quick = parser.parse_args().quick
    with Stage() as stage:
        measures = asyncio.run(measure(stage, QUICK if quick else Rounds()))
    print(f"\n{as_table(measures)}\n", file=sys.stderr)
    print(as_json(measures))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a known crash of the SDK's native part at interpreter exit (sdk-python#300)


if __name__ == "__main__":
    main()
