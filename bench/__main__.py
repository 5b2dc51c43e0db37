# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``: JSON on standard output, the report and the progress on standard error, and both in files."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.peers import Peers, clear
from bench.perdure import Perdure
from bench.plain import PlainPodman
from bench.report import Figure, Report, told
from bench.scene import QUICK, Rounds, Scene
from bench.stage import ROOT, Stage
from bench.stories import apply, fairness, healing, history, hosts, outage, standing

logger = logging.getLogger("bench")

RESULTS: Final = ROOT / "build" / "bench"
STORIES: Final[dict[str, Callable[[Scene], Awaitable[list[Figure]]]]] = {
    "apply": apply.one,
    "newer": apply.newer,
    "many": apply.many,
    "killed": healing.killed,
    "removed": healing.removed,
    "standing": standing.standing,
    "outage": outage.outage,
    "fairness": fairness.fairness,
    "lost": hosts.lost,
    "resync": hosts.resync,
    "history": history.history,
}


async def measure(stage: Stage, stories: Sequence[str], rounds: Rounds, *, with_docker: bool) -> Report:
    """Tell the stories, one after the other."""
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    async with Peers.started(stage.stamps, with_docker=with_docker) as peers:
        with PlainPodman(stage.plain_podman, stage.stamps) as plain:
            scene = Scene(stage, await Perdure.connect(stage), plain, peers.others, peers.tuned, rounds)
            for story in stories:
                print(f"measuring: {story}", file=sys.stderr, flush=True)
                try:
                    measured = await STORIES[story](scene)
                except Exception as error:
                    logger.exception("a story broke off, the others are told")
                    failed[story] = f"{type(error).__name__}: {error}"
                    continue
                figures += measured
                for line in [line for figure in measured for line in told(figure)]:
                    print(f"  {line}", file=sys.stderr, flush=True)
    return Report(figures, is_quick=rounds is QUICK, absent=peers.absent, failed=failed)


def main() -> None:
    """Measure, tell, and remove all that was made."""
    parser = argparse.ArgumentParser("bench", description="Measure Perdure beside its peers, in the same run.")
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; the numbers say little")
    parser.add_argument(
        "--peers", action="store_true", help="beside Docker and Docker Swarm too, where they are installed"
    )
    parser.add_argument("--only", nargs="+", choices=STORIES, default=list(STORIES), help="only these stories")
    chosen = parser.parse_args()
    asyncio.run(clear())
    with Stage() as stage:
        rounds = QUICK if chosen.quick else Rounds()
        report = asyncio.run(measure(stage, chosen.only, rounds, with_docker=chosen.peers))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "report.txt").write_text(f"{report.as_text()}\n")
    (RESULTS / "report.json").write_text(f"{report.as_json()}\n")
    print(f"\n{report.as_text()}\n\nalso in {RESULTS}/report.txt and report.json\n", file=sys.stderr)
    print(report.as_json())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(bool(report.failed))  # a known crash of the SDK's native part at interpreter exit (sdk-python#300)


if __name__ == "__main__":
    main()
