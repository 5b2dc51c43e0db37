# SPDX-License-Identifier: Apache-2.0
"""What the Web UI's page of a host tells of its resyncs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.model.host import Difference, HostState, HostStatus, ResyncReason, ResyncReport
from workflows import host_page

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
QUIET = ResyncReport(at=NOW, reason=ResyncReason.ASKED, took=timedelta(), containers=1, workloads=1)
TELLING = QUIET.model_copy(
    update={
        "at": NOW - timedelta(hours=1),
        "differences": (Difference(workload="web", found="the container is missing", done="its workload is told"),),
    }
)
STATUS = HostStatus(host="edge-1", state=HostState.READY, since=NOW, last_resync=QUIET)


def test_what_a_resync_found_is_still_told_after_one_that_found_nothing() -> None:
    shown = host_page.details(STATUS.model_copy(update={"last_differences": TELLING}))
    assert "2026-11-29 12:00:00 UTC (asked)" in shown
    assert "**What the resync of 2026-11-29 11:00:00 UTC found**\n\n- `web: the container is missing;" in shown


def test_a_host_where_nothing_ever_differed_has_no_list() -> None:
    assert "found" not in host_page.details(STATUS)
