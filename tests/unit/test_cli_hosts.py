# SPDX-License-Identifier: Apache-2.0
"""How hosts look on the command line, letter by letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from client.cli import hosts
from client.cli.render import Format
from client.hosts import HostView
from perdure.model.host import Difference, HostState, HostTransition, ResyncReason, ResyncReport, WorkerInfo
from perdure.model.states import State

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
QUIET = ResyncReport(
    at=NOW - timedelta(seconds=40),
    reason=ResyncReason.PERIODIC,
    took=timedelta(milliseconds=214),
    containers=12,
    workloads=12,
)
TELLING = QUIET.model_copy(
    update={
        "at": NOW - timedelta(hours=2),
        "differences": (
            Difference(workload="web", found="the container is missing", done="told its workload"),
            Difference(workload="database", found="it runs", done="told its workload"),
        ),
        "more_differences": 3,
        "orphans": 1,
        "strangers": 2,
    }
)
READY = HostView(
    host="edge-1",
    state=HostState.READY,
    since=NOW - timedelta(hours=3),
    seen_at=NOW - timedelta(seconds=2),
    worker=WorkerInfo(
        identity="host/edge-1@812",
        version="0.1.0",
        engine="podman",
        engine_version="4.9.3",
        started_at=NOW - timedelta(hours=3, seconds=1),
    ),
    workloads={State.PENDING: 1, State.RUNNING: 11},
    last_resync=QUIET,
    last_differences=TELLING,
    history=(
        HostTransition(at=NOW - timedelta(hours=4), state=HostState.LOST, reason="no sign of life for 20 s"),
        HostTransition(at=NOW - timedelta(hours=3), state=HostState.READY, reason="its worker answers"),
    ),
)
NEVER = HostView(host="edge-22", state=HostState.NEVER_SEEN, workloads={State.PENDING: 2})


def plain(found: list[HostView], form: Format, width: int | None = None) -> str:
    return "\n".join(line.plain for line in hosts.hosts(found, form, now=NOW, width=width))


def test_a_table_of_hosts() -> None:
    assert plain([READY, NEVER], Format.TABLE) == (
        """\
HOST     STATE      SEEN    WORKER  PODMAN  WORKLOADS                  RESYNC
edge-1   Ready      2s ago  0.1.0   4.9.3   12: 11 Running, 1 Pending  40s ago
edge-22  NeverSeen  never   -       -       2: 2 Pending               -"""
    )


def test_differences_are_counted_in_the_table() -> None:
    found = READY.model_copy(update={"last_resync": TELLING})
    assert plain([found], Format.TABLE).endswith("  2h ago, 5 differences")


def test_the_wide_table_tells_which_worker_it_is() -> None:
    header, row = plain([READY], Format.WIDE).splitlines()
    assert header.split()[5:8] == ["SINCE", "IDENTITY", "STARTED"]
    assert "  3h     host/edge-1@812  3h ago   " in row


def test_names_are_what_other_commands_take() -> None:
    assert plain([READY, NEVER], Format.NAME) == "edge-1\nedge-22"


def test_json_is_one_array_of_whole_hosts() -> None:
    shown = json.loads(plain([READY, NEVER], Format.JSON))
    assert [HostView.model_validate(each) for each in shown] == [READY, NEVER]
    assert shown[0]["workloads"] == {"Pending": 1, "Running": 11}
    assert (shown[1]["state"], shown[1]["seenAt"]) == ("NeverSeen", None)
    assert HostView.model_validate_json(hosts.one(READY, Format.JSON, now=NOW)) == READY


def test_the_description_leaves_nothing_out() -> None:
    """The latest resync, what the latest one with differences found, and what happened to the host."""
    assert hosts.description(READY, NOW, "http://ui/x") == (
        """\
edge-1
  State       Ready for 3h, since 2026-11-29 09:00:00Z
  Seen        2026-11-29 11:59:58Z, 2s ago
  Worker      0.1.0, host/edge-1@812, started 2026-11-29 08:59:59Z
  Engine      podman 4.9.3
  Workloads   12: 11 Running, 1 Pending
  Web UI      http://ui/x

Last resync, 40s ago (periodic): 12 containers and 12 workloads in 0.21 s: nothing differed

Last differences, found at 2026-11-29 10:00:00Z
  web       the container is missing: told its workload
  database  it runs: told its workload
  and 3 more

History
  2026-11-29 09:00:00Z  Ready      its worker answers
  2026-11-29 08:00:00Z  Lost       no sign of life for 20 s"""
    )


def test_a_host_that_was_never_seen_is_described_too() -> None:
    """It has no page in the Web UI, and what to do is said instead."""
    assert hosts.description(NEVER, NOW, "http://ui/x") == (
        "edge-22\n  State       NeverSeen\n  Seen        never\n  Workloads   2: 2 Pending\n"
        "  Hint        start `perdure-worker --host edge-22` there, or correct the name in the manifest"
    )


def test_what_to_do_about_a_lost_host_is_said() -> None:
    lost = READY.model_copy(update={"state": HostState.LOST})
    assert "\n  Hint        look at the machine, its link and its `perdure-worker --host edge-1`;" in hosts.description(
        lost, NOW, ""
    )


def test_a_resync_tells_what_it_found_and_did() -> None:
    assert hosts.resynced("edge-1", TELLING, Format.TABLE) == (
        """\
edge-1: 12 containers and 12 workloads in 0.21 s: 5 differences, 1 orphan to be removed, left 2 containers of another server alone
  web       the container is missing: told its workload
  database  it runs: told its workload
  and 3 more"""
    )
    assert ResyncReport.model_validate_json(hosts.resynced("edge-1", TELLING, Format.JSON)) == TELLING
