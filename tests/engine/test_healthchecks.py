# SPDX-License-Identifier: Apache-2.0
"""Healthchecks are run by Podman's hand when we say so: bounded in time, with their reason, and never two in one container."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from activities.engine import EngineFault
from activities.podman_health import MARGIN, healthcheck_in
from perdure.model.faults import FaultKind
from perdure.model.workload import Healthcheck
from tests.engine.workload import Workload
from tests.support.images import Images
from tests.support.podman import IsolatedPodman

SECOND = timedelta(seconds=1)


async def test_a_failed_check_says_why(workload: Workload) -> None:
    """What it printed, without secrets."""
    script = "echo 'cannot log in: password=hunter2'; exit 7"
    live = await workload.ensure(workload.spec(healthcheck=Healthcheck(test=("CMD-SHELL", script))))
    probe = await workload.engine.check_health(live.container_id)
    assert not probe.healthy
    assert probe.detail == "cannot log in: password=***"


async def test_a_check_whose_program_is_missing_fails(workload: Workload) -> None:
    """It is a verdict, not an error of ours."""
    live = await workload.ensure(workload.spec(healthcheck=Healthcheck(test=("CMD", "no-such-program"))))
    probe = await workload.engine.check_health(live.container_id)
    assert (probe.healthy, probe.detail) == (False, "it failed, and printed nothing")


async def test_the_check_of_an_image_is_run_too(workload: Workload, images: Images) -> None:
    """What it leaves open is the usual, also in Podman's eyes: with a time limit of 0 it would call every run too long."""
    workload.image = images.checked("checked:1", ["CMD", "test", "-e", "/tmp"])
    live = await workload.ensure()
    assert await workload.engine.healthcheck_of(live.container_id) == Healthcheck(test=("CMD", "test", "-e", "/tmp"))
    assert (await workload.engine.check_health(live.container_id)).healthy


async def test_a_check_that_hangs_counts_as_failed_after_its_time(workload: Workload, podman: IsolatedPodman) -> None:
    """Podman would wait for it for ever. As long as it hangs there is no second one, and starts go on meanwhile."""
    check = Healthcheck(test=("CMD-SHELL", "touch /tmp/began; sleep 60"), timeout=SECOND)
    live = await workload.ensure(workload.spec(healthcheck=check))
    other = Workload(workload.engine, workload.image, name="other")
    began = time.monotonic()
    probing = asyncio.create_task(workload.engine.check_health(live.container_id))
    await other.ensure()
    probe = await probing
    assert time.monotonic() - began < (SECOND + MARGIN + SECOND).total_seconds()
    assert (probe.healthy, probe.detail) == (False, "it did not end within 1 s")
    again = await workload.engine.check_health(live.container_id)
    assert (again.healthy, "has still not ended" in again.detail) == (False, True)
    assert podman.cli("top", live.container_id, "args").count("sleep 60") == 1
    await other.remove()


async def test_a_check_can_be_called_off(workload: Workload) -> None:
    """At once, although it goes on in its container."""
    live = await workload.ensure(workload.spec(healthcheck=Healthcheck(test=("CMD", "sleep", "5"))))
    probing = asyncio.create_task(workload.engine.check_health(live.container_id))
    await asyncio.sleep(0.3)
    probing.cancel()
    await asyncio.wait([probing], timeout=1)
    assert probing.cancelled()


async def test_a_container_without_a_check_has_none(workload: Workload) -> None:
    """To run it is a fault, to ask for it is not."""
    for spec in (workload.spec(), workload.spec(healthcheck=Healthcheck(test=("NONE",)))):
        live = await workload.ensure(spec, generation=2)
        assert await workload.engine.healthcheck_of(live.container_id) is None
        with pytest.raises(EngineFault) as raised:
            await workload.engine.check_health(live.container_id)
        assert raised.value.fault.kind is FaultKind.ENGINE_ERROR
        await workload.remove()


def test_what_an_image_leaves_open_is_the_usual() -> None:
    """Docker writes 0 for it. No check may have the time limit 0: Podman would call each run of it too long."""
    config = {"Test": ["CMD-SHELL", "true"], "Interval": 0, "Timeout": 0, "Retries": 0, "StartPeriod": 5_000_000_000}
    assert healthcheck_in({"Config": {"Healthcheck": config}}) == Healthcheck(
        test=("CMD-SHELL", "true"), start_period=timedelta(seconds=5)
    )
    assert healthcheck_in({"Config": {"Healthcheck": {"Test": ["NONE"]}}}) is None
    assert healthcheck_in({"Config": {}}) is None
