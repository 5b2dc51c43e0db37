# SPDX-License-Identifier: Apache-2.0
"""Exit codes: every result, outcome and error has one, and the worst wins."""

from __future__ import annotations

import itertools

import pytest

from client import errors
from client.applying import ApplyResult, Progress
from client.cli import exits
from client.cli.exits import Exit
from client.manifests import ManifestError
from perdure.model.messages import AttemptOutcome, Outcome
from perdure.model.states import State, Substate
from perdure.runtime import problems


def answered(outcome: Outcome, state: State = State.RUNNING, substate: Substate = Substate.OK) -> ApplyResult:
    answer = AttemptOutcome(outcome=outcome, generation=1, state=state, substate=substate)
    return ApplyResult("edge-1", "web", "id", Progress.ANSWERED, answer)


def test_every_progress_has_a_code() -> None:
    assert set(exits.OF_PROGRESS) == {progress.value for progress in Progress}


def test_every_outcome_has_a_code() -> None:
    assert set(exits.OF_OUTCOME) | set(exits.LEFT_ALONE) == {outcome.value for outcome in Outcome}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.RUNNING, 0),
        (Outcome.PAUSED, 0),
        (Outcome.WAITING, 0),
        (Outcome.REJECTED, 1),
        (Outcome.GAVE_UP, 1),
        (Outcome.REMOVED, 3),
        (Outcome.STALE, 4),
        (Outcome.CONFLICT, 4),
        (Outcome.SUPERSEDED, 4),
        (Outcome.NO_WORKER, 5),
        (Outcome.RETRYING, 7),
    ],
)
def test_outcomes(outcome: Outcome, code: int) -> None:
    assert exits.of_result(answered(outcome)) == code


@pytest.mark.parametrize(
    ("state", "substate", "code"),
    [
        (State.RUNNING, Substate.OK, 0),
        (State.SUCCEEDED, Substate.OK, 0),
        (State.PENDING, Substate.PULL_BACKOFF, 7),
        (State.PENDING, Substate.WAITING_FOR_HOST, 5),
        (State.UNKNOWN, Substate.HOST_LOST, 5),
        (State.FAILED, Substate.REJECTED, 1),
        (State.FAILED, Substate.EXITED, 1),
    ],
)
@pytest.mark.parametrize("outcome", [Outcome.UNCHANGED, Outcome.UPDATED])
def test_an_unchanged_workload_counts_as_what_it_is(
    outcome: Outcome, state: State, substate: Substate, code: int
) -> None:
    """Applying the same manifest again must not turn a failed workload into a success."""
    assert exits.of_result(answered(outcome, state, substate)) == code


def test_the_order_of_the_worst_has_every_code_once() -> None:
    assert sorted(exits.WORST_FIRST) == sorted(Exit)


def test_the_worst_code_wins() -> None:
    for first, second in itertools.combinations(exits.WORST_FIRST, 2):
        assert exits.worst([second, first]) is first
    assert exits.worst([]) is Exit.DONE


def test_every_error_of_ours_has_a_code() -> None:
    """Also those that a later release adds: the bases have one."""
    for kind in (errors.ReconcilerError, problems.Problem):
        for error in (kind, *kind.__subclasses__()):
            assert exits.of_error(error.__new__(error)) is not None
    assert exits.of_error(ManifestError(())) is Exit.USAGE


def test_a_fault_of_ours_has_none() -> None:
    """It must be seen with its traceback, not hidden behind a code."""
    assert exits.of_error(ZeroDivisionError()) is None
