# SPDX-License-Identifier: Apache-2.0
"""R2: what people do to containers by hand, and what breaks beside them, is noticed and answered by itself."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.cases.case import Case, Workload


async def monitor(case: Case, web: Workload) -> int:
    """The process of the container's conmon."""
    status = await web.runs()
    assert status.live is not None
    return int((await case.podman.inspect(status.live.container_id))["State"]["ConmonPid"])


async def test_r2_a_container_that_is_restarted_by_hand_stays_alone(case: Case, sleeper: str) -> None:
    """No second container; the new run is told as a restart, and it is no crash."""
    web = case.workload()
    await web.apply(sleeper)
    before = await web.runs()
    assert before.live is not None
    await asyncio.sleep(1.1)  # Podman's list knows whole seconds: within one, two runs look like one
    await case.podman.cli("restart", "--time=1", before.live.container_id)
    after = await web.has("was restarted", lambda status: status.restarts == 1, within=10)
    assert after.live is not None
    assert after.live.started_at != before.live.started_at
    assert (await web.runs()).restarts == 1
    assert [one["Id"] for one in await web.containers()] == [before.live.container_id]


@pytest.mark.parametrize("how", ["monitor", "monitor and process"])
async def test_r2_a_killed_monitor_is_noticed(case: Case, sleeper: str, how: str) -> None:
    """Podman shows `running` for ever: within ten seconds there is another container, and nothing is left of the first."""
    web = case.workload()
    await web.apply(sleeper, stop={"timeout": "1s"})
    before = await web.runs()
    pid = await case.podman.pid(before)
    os.kill(await monitor(case, web), signal.SIGKILL)
    if how != "monitor":
        os.kill(pid, signal.SIGKILL)
    after = await web.has("is another one", lambda status: status.live not in (None, before.live), within=15)
    assert after.live is not None
    assert before.live is not None
    assert after.live.container_id != before.live.container_id
    assert not case.podman.is_alive(pid)
    await web.runs()
    assert len(await web.containers()) == 1


async def test_r2_what_is_stopped_and_started_by_hand(case: Case, sleeper: str) -> None:
    """A stop is an end like any other; where policy lets it rest, a start by hand is taken as it is."""
    web = case.workload()
    await web.apply(sleeper, restart="never")
    before = await web.runs()
    assert before.live is not None
    await case.podman.cli("stop", before.live.container_id)
    ended = await web.has("has ended", lambda status: status.live is None and status.state != "Running", within=10)
    assert ended.last_exit is not None
    assert ended.state == ("Succeeded" if ended.last_exit.code == 0 else "Failed")
    await case.podman.cli("start", before.live.container_id)
    after = await web.runs(within=15)
    assert after.live is not None
    assert after.live.container_id == before.live.container_id
    assert after.restarts == before.restarts
