# SPDX-License-Identifier: Apache-2.0
"""L1: registries that say nothing, or nearly nothing, and those that are only slow. All wait as long as the product does."""

from __future__ import annotations

import pytest

from perdure.model.faults import FaultClass, FaultKind
from tests.cases.long_cases import WINDOW_SECONDS, LongCases

LATE_SECONDS = WINDOW_SECONDS + 30


@pytest.mark.parametrize("name", ["silent", "handshake", "trickle"])
async def test_l1_l3_silence_is_a_transient_fault(long_cases: LongCases, name: str) -> None:
    """It accepts and is silent, with TLS or without, or sends a byte a minute: a deadline fires, and it is tried again."""
    case = await long_cases.case(name)
    (web,) = case.workloads
    status = await web.has("has failed", lambda status: status.last_error is not None, within=LATE_SECONDS)
    assert status.last_error is not None
    assert (status.last_error.kind, status.last_error.fault_class) == (FaultKind.PULL_STALLED, FaultClass.TRANSIENT)
    assert status.last_error.message.endswith(f"the registry was silent for {WINDOW_SECONDS} s")
    assert case.front.address in status.last_error.hint
    await web.has("is tried again", lambda status: status.attempt >= 2)
    case.front.recover()
    if name != "handshake":
        await web.runs(within=20)
    await case.end()
    assert await case.broken_promises() == []


async def test_l1_a_healthy_slow_pull_succeeds(long_cases: LongCases) -> None:
    """It takes longer than the deadline, and bytes keep coming: nothing is cut off, nothing is tried twice."""
    case = await long_cases.case("healthy")
    (web,) = case.workloads
    status = await web.runs(within=LATE_SECONDS)
    assert status.last_error is None
    pulled = [step.at for step in status.history if step.substate in ("Pulling", "Starting")]
    assert (pulled[2] - pulled[1]).total_seconds() > WINDOW_SECONDS
    assert len(case.front.requests(case.repository(), "manifest", "GET")) == 1
    await case.end()
    assert await case.broken_promises() == []
