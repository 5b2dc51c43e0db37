# SPDX-License-Identifier: Apache-2.0
"""How statuses look on the command line, letter by letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from client.applying import ApplyResult, Progress
from client.cli import render, results, tables
from client.cli.commands.apply import is_without_worker
from client.cli.render import Format
from client.planning import Change, Planned
from perdure.model.faults import FaultClass, FaultKind, LastError, Phase
from perdure.model.messages import AttemptOutcome, Outcome
from perdure.model.observation import Health, LastExit, Live
from perdure.model.states import State, Substate
from perdure.model.status import Transition, WorkloadStatus

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ERROR = LastError(
    kind=FaultKind.REGISTRY_UNREACHABLE,
    fault_class=FaultClass.TRANSIENT,
    phase=Phase.PULL,
    message="pinging container registry localhost:5000:\ndial tcp 127.0.0.1:5000: connect: connection refused",
    hint="check that localhost:5000 is up",
    attempt=5,
    generation=2,
    first_at=NOW - timedelta(hours=1),
    last_at=NOW - timedelta(seconds=20),
    count=5,
)
WAITING = WorkloadStatus(
    state=State.PENDING,
    substate=Substate.PULL_BACKOFF,
    last_error=ERROR,
    host="edge-1",
    name="web",
    manifest="shop",
    image="localhost:5000/web:2",
    generation=2,
    revision=42,
    since=NOW - timedelta(hours=1),
    attempt=5,
    next_attempt_at=NOW + timedelta(seconds=12),
    live=Live(generation=1, container_id="f00dcafe" * 8, started_at=NOW - timedelta(days=2)),
    last_exit=LastExit(code=137, signal="SIGKILL", oom=True, at=NOW),
    restarts=3,
    host_seen_at=NOW - timedelta(seconds=20),
    history=(
        Transition(at=NOW - timedelta(days=2), state=State.RUNNING, substate=Substate.OK, generation=1),
        Transition(
            at=NOW - timedelta(hours=1),
            state=State.PENDING,
            substate=Substate.PULL_BACKOFF,
            generation=2,
            reason="RegistryUnreachable",
        ),
    ),
)
RUNNING = WAITING.model_copy(
    update={"state": State.RUNNING, "substate": Substate.OK, "name": "db", "attempt": 0, "next_attempt_at": None}
)


def plain(found: list[WorkloadStatus], form: Format, width: int | None = None) -> str:
    return "\n".join(line.plain for line in render.statuses(found, form, now=NOW, width=width))


def test_a_table_elsewhere_than_on_a_terminal_is_never_cut() -> None:
    """An error that is over is not in it: a running workload has none."""
    assert plain([RUNNING, WAITING], Format.TABLE) == (
        "HOST    NAME  STATE                 GEN  SINCE  ATTEMPT  NEXT TRY  LAST ERROR\n"
        "edge-1  db    Running               2    1h     -        -         -\n"
        "edge-1  web   Pending(PullBackoff)  2    1h     5        in 12s    RegistryUnreachable: pinging container registry "
        "localhost:5000: dial tcp 127.0.0.1:5000: connect: connection refused"
    )


@pytest.mark.parametrize(
    ("state", "substate", "shown"),
    [
        (State.PENDING, Substate.RESTART_BACKOFF, "the container ended: code 137 (SIGKILL) out of memory"),
        (State.FAILED, Substate.EXITED, "the container ended: code 137 (SIGKILL) out of memory"),
        (State.PENDING, Substate.PULLING, "-"),
        (State.PENDING, Substate.WAITING_FOR_HOST, "-"),
        (State.STOPPING, Substate.STOPPING, "-"),
    ],
)
def test_an_error_that_does_not_explain_the_state_is_not_shown_as_if_it_did(
    state: State, substate: Substate, shown: str
) -> None:
    status = WAITING.model_copy(update={"state": state, "substate": substate})
    assert plain([status], Format.TABLE).splitlines()[1].endswith(f"  {shown}")
    assert "Last error, over by now: RegistryUnreachable" in render.one(status, Format.TABLE, now=NOW)


def test_a_workload_whose_host_is_away_says_so_in_the_table() -> None:
    away = Transition(
        at=NOW,
        state=State.PENDING,
        substate=Substate.WAITING_FOR_HOST,
        generation=1,
        reason="no worker for host edge-1",
    )
    status = WAITING.model_copy(update={"substate": Substate.WAITING_FOR_HOST, "history": (*WAITING.history, away)})
    assert plain([status], Format.TABLE).splitlines()[1].endswith("  no worker for host edge-1")


def test_a_workload_whose_host_is_lost_says_when_it_was_seen_last() -> None:
    """Its error, which may be over by now or not, is not shown as the cause; in the description it is not said to be over."""
    lost = {"state": State.UNKNOWN, "substate": Substate.HOST_LOST, "next_attempt_at": None}
    status = WAITING.model_copy(update={**lost, "last_known": "Running/Ok", "host_lost_at": NOW})
    line = plain([status], Format.TABLE).splitlines()[1]
    assert line.split()[2] == "Unknown(HostLost)"
    assert line.endswith("  host edge-1 does not answer, last seen 20s ago")
    assert "\nLast error: RegistryUnreachable\n" in render.description(status, NOW, "")
    assert "\n  Last known  Running\n" in render.description(status, NOW, "")
    assert "\n  Host lost   since 2026-11-29 12:00:00Z\n" in render.description(status, NOW, "")
    due = status.model_copy(update={"next_attempt_at": NOW})
    assert plain([due], Format.TABLE).splitlines()[1].split()[6] == "-", "nothing is tried on a lost host"
    assert "Next try" not in render.description(due, NOW, "")
    unseen = status.model_copy(update={"host_seen_at": None})
    assert plain([unseen], Format.TABLE).endswith("  host edge-1 does not answer, never seen")


def test_an_error_before_the_latest_start_is_over_even_while_the_workload_is_paused() -> None:
    paused = WAITING.model_copy(update={"state": State.PAUSED, "substate": Substate.OK, "next_attempt_at": None})
    assert "RegistryUnreachable" in plain([paused], Format.TABLE)
    live = Live(generation=2, container_id="f00d", started_at=NOW)
    ran = paused.model_copy(update={"live": live})
    assert plain([ran], Format.TABLE).endswith("  -")
    assert "Last error, over by now: RegistryUnreachable" in render.description(ran, NOW, "")


def test_what_explains_a_wait_for_a_restart() -> None:
    ended = WAITING.model_copy(update={"substate": Substate.RESTART_BACKOFF, "live": None})
    assert plain([ended], Format.TABLE).endswith("  the container ended: code 137 (SIGKILL) out of memory")
    gone = ended.model_copy(update={"last_exit": LastExit(code=None, at=NOW)})
    assert plain([gone], Format.TABLE).endswith("  the container vanished")
    live = Live(generation=2, container_id="f00d", started_at=NOW, health=Health.UNHEALTHY)
    assert plain([gone.model_copy(update={"live": live})], Format.TABLE).endswith("  the container is unhealthy")


def test_a_workload_that_waits_for_others_says_for_which() -> None:
    reason = "edge-1/db is Pending/Pulling, wanted: running"
    status = WAITING.model_copy(update={"substate": Substate.WAITING_FOR_DEPENDENCIES, "waiting_on": (reason, "other")})
    assert plain([status], Format.TABLE).endswith(f"  {reason}; other")
    assert f"  Waits for   {reason}; other\n" in render.description(status, NOW, "")


def test_a_table_on_a_terminal_is_cut_in_the_middle_of_the_error() -> None:
    """Its head tells the kind, its end the culprit; no line is longer than the terminal."""
    lines = plain([RUNNING, WAITING], Format.TABLE, width=110).splitlines()
    assert lines[2].endswith("  RegistryUnreachable: …t: connection refused")
    assert max(map(len, lines)) == 110


def test_the_wide_table_has_more_columns() -> None:
    header, row = plain([WAITING], Format.WIDE).splitlines()
    assert header.split()[7:12] == ["TRY", "IMAGE", "MANIFEST", "LIVE", "RESTARTS"]
    assert "localhost:5000/web:2  shop      generation 1  3         code 137 (SIGKILL) out of memory  Registry" in row


def test_a_try_under_way_has_no_next_time() -> None:
    trying = WAITING.model_copy(update={"next_attempt_at": None})
    assert plain([trying], Format.TABLE).splitlines()[1].split()[6] == "trying"


def test_names_are_what_other_commands_take() -> None:
    assert plain([RUNNING, WAITING], Format.NAME) == "edge-1/db\nedge-1/web"


def test_json_is_one_array_of_whole_statuses() -> None:
    """camelCase, and the error uncut."""
    (shown,) = json.loads(plain([WAITING], Format.JSON))
    assert shown["lastError"]["message"] == ERROR.message
    assert shown["lastError"]["class"] == "transient"
    assert WorkloadStatus.model_validate(shown) == WAITING
    assert plain([], Format.JSON) == "[]"


def test_yaml_says_the_same_as_json() -> None:
    shown = YAML(typ="safe").load(plain([WAITING], Format.YAML))
    assert shown == json.loads(plain([WAITING], Format.JSON))


def test_one_as_json_is_one_object() -> None:
    assert WorkloadStatus.model_validate_json(render.one(WAITING, Format.JSON, now=NOW)) == WAITING


def test_the_description_leaves_nothing_out() -> None:
    assert render.description(WAITING, NOW, "http://ui/x") == (
        """\
edge-1/web
  State       Pending(PullBackoff) for 1h, since 2026-11-29 11:00:00Z
  Image       localhost:5000/web:2
  Manifest    shop, revision 42
  Generation  2
  Live        generation 1, container f00dcafef00d
  Started     2026-11-27 12:00:00Z
  Attempt     5
  Next try    2026-11-29 12:00:12Z, in 12s
  Restarts    3
  Last exit   code 137 (SIGKILL) out of memory
  Host seen   2026-11-29 11:59:40Z, 20s ago
  Web UI      http://ui/x

Last error: RegistryUnreachable
  transient, pull, attempt 5 of generation 2, 5 times, from 2026-11-29 11:00:00Z to 2026-11-29 11:59:40Z
  | pinging container registry localhost:5000:
  | dial tcp 127.0.0.1:5000: connect: connection refused
  Hint: check that localhost:5000 is up

History
  2026-11-29 11:00:00Z  Pending(PullBackoff)  gen 2    RegistryUnreachable
  2026-11-27 12:00:00Z  Running               gen 1"""
    )


def test_the_description_of_a_running_workload_says_that_its_error_is_over() -> None:
    assert "Last error, over by now: RegistryUnreachable" in render.description(RUNNING, NOW, "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (192, "3m12s"), (3_600, "1h"), (3_601, "1h"), (90_061, "1d1h"), (-5, "0s")],
)
def test_ages(seconds: int, text: str) -> None:
    assert render.ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_due_try_is_now() -> None:
    assert render.next_try(NOW - timedelta(minutes=1), NOW) == "now"


@given(text=st.text(max_size=80), room=st.integers(min_value=3, max_value=60))
def test_a_cut_text_fits_and_keeps_its_ends(text: str, room: int) -> None:
    cut = tables.middle_cut(text, room)
    assert len(cut) <= room or cut == text
    assert len(text) <= room or (cut[0], cut[-1]) == (text[0], text[-1])


def test_results_of_an_apply() -> None:
    """One line for each, with what explains it; an error of an earlier generation explains nothing."""
    found = [
        ApplyResult(
            "edge-1",
            "a",
            "1",
            Progress.ANSWERED,
            AttemptOutcome(outcome=Outcome.RUNNING, generation=3, state=State.RUNNING, error=ERROR, live=WAITING.live),
        ),
        ApplyResult(
            "edge-1", "b", "2", Progress.ANSWERED, AttemptOutcome(outcome=Outcome.RETRYING, generation=2, error=ERROR)
        ),
        ApplyResult(
            "edge-1",
            "c",
            "3",
            Progress.ANSWERED,
            AttemptOutcome(outcome=Outcome.STALE, generation=2, error=ERROR, message="revision 1 is older"),
        ),
        ApplyResult(
            "edge-1",
            "d",
            "4",
            Progress.ANSWERED,
            AttemptOutcome(outcome=Outcome.UNCHANGED, generation=2, state=State.RUNNING, substate=Substate.OK),
        ),
        ApplyResult("edge-1", "e", "5", Progress.UNCERTAIN, None, "the server did not answer"),
        ApplyResult("edge-1", "f", "6"),
    ]
    assert "\n".join(line.plain for line in results.results(found, None)) == (
        """\
WORKLOAD  RESULT     GEN  DETAIL
edge-1/a  running    3    container f00dcafef00d
edge-1/b  retrying   2    RegistryUnreachable: pinging container registry localhost:5000: \
dial tcp 127.0.0.1:5000: connect: connection refused
edge-1/c  stale      2    revision 1 is older
edge-1/d  unchanged  2    Running
edge-1/e  uncertain  -    the server did not answer
edge-1/f  notSent    -    -"""
    )


def test_an_apply_of_what_ended_badly_says_so() -> None:
    """It has no error: its container did start."""
    ended = AttemptOutcome(outcome=Outcome.REJECTED, generation=1, state=State.FAILED, substate=Substate.EXITED)
    _, line = results.results([ApplyResult("edge-1", "job", "1", Progress.ANSWERED, ended)], None)
    assert line.plain.split() == ["edge-1/job", "rejected", "1", "Failed(Exited)"]


def test_only_a_host_without_a_worker_gets_the_hint_to_start_one() -> None:
    def result(message: str) -> ApplyResult:
        answer = AttemptOutcome(outcome=Outcome.NO_WORKER, generation=1, message=message)
        return ApplyResult("edge-1", "web", "1", Progress.ANSWERED, answer)

    assert is_without_worker(result("no worker for host edge-1, never seen"))
    assert not is_without_worker(result("no control worker, none was ever seen"))


def test_plans() -> None:
    found = [
        Planned("edge-1", "a", Change.NEW, 0, "app:1"),
        Planned("edge-1", "b", Change.REPLACED, 4, "app:1 -> app:2"),
    ]
    assert "\n".join(line.plain for line in results.plans(found, None)) == (
        """\
WORKLOAD  CHANGE    GEN  DETAIL
edge-1/a  new       -    app:1
edge-1/b  replaced  4    app:1 -> app:2"""
    )
