# SPDX-License-Identifier: Apache-2.0
"""Records the histories: ``python -m tests.replay.record NAME...``. One that a release has written is never recorded anew."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from temporalio.testing import WorkflowEnvironment

from perdure import __version__
from tests.fakes.engine import FakeEngine
from tests.replay.scenarios import SCENARIOS, subject
from tests.support.temporal import TemporalServer
from tests.workflow.fleet import fleet_of

HISTORIES = Path(__file__).parent / "histories"


async def record(name: str, server: TemporalServer) -> Path:
    """Play a scenario on the real server, and keep the history of what it is about."""
    client = await server.connect()
    engine = FakeEngine()
    async with fleet_of(WorkflowEnvironment.from_client(client), engine) as fleet:
        await SCENARIOS[name](fleet, engine)
        history = await client.get_workflow_handle(subject(name)).fetch_history()
    path = HISTORIES / f"{name}-{__version__}.json"
    path.write_text(json.dumps(history.to_json_dict(), indent=1, sort_keys=True) + "\n")
    return path


async def main(wanted: list[str]) -> None:
    """Record the named scenarios, or all."""
    for name in wanted or list(SCENARIOS):
        with TemporalServer() as server:
            print(await record(name, server))  # noqa: T201 - a tool for developers


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
