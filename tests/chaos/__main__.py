# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.chaos --kills 120``: one storm, its report as JSON on stdout; code 1 where a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys

from tests.chaos.storm import Storm
from tests.support.leftovers import sweep


def main() -> int:
    """Run one storm and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=120, help="kills of parts of Perdure (default: %(default)s)")
    parser.add_argument("--workloads", type=int, default=5, help="workloads kept (default: %(default)s)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="of the storm's plan (default: random)"
    )
    chosen = parser.parse_args()
    sys.stderr.write(f"seed {chosen.seed}\n")
    sweep()
    report = asyncio.run(Storm(kills=chosen.kills, seed=chosen.seed, workloads=chosen.workloads).run())
    sys.stdout.write(json.dumps(report.as_json(), indent=2) + "\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the SDK's native part may crash at interpreter exit (sdk-python#300)
