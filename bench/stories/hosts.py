# SPDX-License-Identifier: Apache-2.0
"""A host as a whole: what a full resync costs, and how soon it is seen that a host does not answer."""

from __future__ import annotations

import signal
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from bench.report import Aim, Figure, Of
from bench.rpcs import Requests
from bench.scene import Scene
from bench.stage import HOST, IMAGE
from bench.waiting import until
from perdure.model.states import State

STEPS = 4
"""The requests are counted with this part of the containers, then with all: more containers must not mean more requests."""
ALWAYS = (
    "PollWorkflowTaskQueue",
    "PollActivityTaskQueue",
    "PollNexusTaskQueue",
    "RecordWorkerHeartbeat",
    "RecordActivityTaskHeartbeat",
    "ListWorkers",
)
"""What workers do all the time, whether there is a resync or not, and clients that wait."""
LOST_WITHIN_SECONDS = 60.0


async def resync(scene: Scene) -> list[Figure]:
    """Resyncs of many containers, as asked for by ``perdure resync``, and the requests that one sends."""
    names = tuple(f"perdure-resync-{number}" for number in range(scene.rounds.resynced))
    few = len(names) // STEPS
    await scene.perdure.run(*names[:few], image=IMAGE)
    await scene.stamps.wait_all(names[:few])
    _, _, requests_of_few = await _resyncs(scene)
    await scene.perdure.run(*names[few:], image=IMAGE)
    await scene.stamps.wait_all(names)
    took, asked, requests = await _resyncs(scene)
    await scene.perdure.remove(*names)
    count = len(names)
    return [
        Figure(f"full resync of {count} containers", "s", took, Aim(1.0, Of.LARGEST), detail=requests),
        Figure(f"perdure resync of {count} containers, from asking to the answer", "s", asked),
        Figure(
            f"requests of a resync of {count} containers more than of one of {few}",
            "requests",
            [sum(requests.values()) - sum(requests_of_few.values())],
            Aim(0.0),
            detail=requests_of_few,
        ),
    ]


async def _resyncs(scene: Scene) -> tuple[Sequence[float], Sequence[float], dict[str, float]]:
    """How long some resyncs took, how long the answer took, and the median of the requests of each kind."""
    counts = Requests(scene.stage)
    took, asked = [], []
    sent: list[Counter[str]] = []
    for _ in range(scene.rounds.resync):
        before = await counts.so_far()
        begun = time.time()
        report = await scene.perdure.fleet.resync(HOST)
        asked.append(time.time() - begun)
        took.append(report.took.total_seconds())
        sent.append(await counts.so_far() - before)
    kinds = sorted(set().union(*sent) - {f"Temporal {kind}" for kind in ALWAYS})
    return took, asked, {kind: statistics.median(one[kind] for one in sent) for kind in kinds}


async def lost(scene: Scene) -> list[Figure]:
    """The host's worker falls silent, as at a cut cable (SIGSTOP), and speaks again (SIGCONT); seen by what a user is shown."""
    name = "perdure-lost"
    await scene.perdure.run(name, image=IMAGE)
    await until(lambda: scene.perdure.shows(name, State.RUNNING), "running is shown")
    gone, found = [], []
    for _ in range(scene.rounds.lost):
        worker = scene.perdure.worker()
        worker.send(signal.SIGSTOP)
        silent_at = time.time()
        try:
            seen_at = await until(
                lambda: scene.perdure.shows(name, State.UNKNOWN),
                "unknown is shown",
                within_seconds=LOST_WITHIN_SECONDS,
                poll_seconds=0.1,
            )
        finally:
            worker.send(signal.SIGCONT)
        back_at = time.time()
        gone.append(seen_at - silent_at)
        found.append(
            await until(lambda: scene.perdure.shows(name, State.RUNNING), "running is shown again", poll_seconds=0.05)
            - back_at
        )
    await scene.perdure.remove(name)
    return [
        Figure("host falls silent -> shown as unknown", "s", gone, Aim(30.0, Of.LARGEST)),
        Figure("host speaks again -> shown as running", "s", found),
    ]
