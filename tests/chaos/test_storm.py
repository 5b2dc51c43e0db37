# SPDX-License-Identifier: Apache-2.0
"""A short storm in every test run; ``python -m tests.chaos`` makes long ones."""

from __future__ import annotations

import json
import random

import pytest

from tests.chaos.storm import Storm

KILLS = 20


@pytest.mark.timeout(300)
async def test_no_promise_breaks_in_a_storm() -> None:
    """Twenty kills of workers, Podman and Temporal: one live container each, nothing lost, all converged."""
    seed = random.randrange(10**6)
    report = await Storm(kills=KILLS, seed=seed, workloads=3).run()
    assert report.passed, json.dumps(report.as_json(), indent=2)
    assert report.kills.total() == KILLS
