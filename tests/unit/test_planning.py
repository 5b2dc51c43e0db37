# SPDX-License-Identifier: Apache-2.0
"""What an apply would do, told beforehand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from client.applying import Wish, prepare
from client.planning import Change, planned
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.policy import drift
from tests.support.workloads import manifest

BEFORE = {"image": "localhost/app:1", "restart": "always"}


def wish(workload: dict[str, Any], revision: int | None = None) -> Wish:
    more: dict[str, Any] = {} if revision is None else {"revision": revision}
    (only,) = prepare([manifest({"web": workload}, **more)], expect_generation=None, by="alice@laptop")
    return only


def accepted(workload: dict[str, Any], revision: int | None = None) -> WorkloadStatus:
    """The status of a workload that was applied so before."""
    spec = wish(workload).target.spec
    return WorkloadStatus(
        state=State.RUNNING,
        substate=Substate.OK,
        host="edge-1",
        name="web",
        image=spec.container.image,
        generation=3,
        revision=revision,
        spec_hash=drift.spec_hash(spec),
        container_hash=drift.container_hash(spec.container),
        since=datetime(2026, 11, 29, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("now", "change", "detail"),
    [
        (BEFORE, Change.UNCHANGED, ""),
        ({**BEFORE, "tags": {"team": "shop"}}, Change.SETTINGS, ""),
        ({**BEFORE, "restart": "never"}, Change.SETTINGS, ""),
        ({**BEFORE, "environment": {"A": "1"}}, Change.REPLACED, ""),
        ({**BEFORE, "image": "localhost/app:2"}, Change.REPLACED, "localhost/app:1 -> localhost/app:2"),
    ],
)
def test_changes(now: dict[str, Any], change: Change, detail: str) -> None:
    plan = planned(wish(now), accepted(BEFORE))
    assert (plan.change, plan.detail, plan.generation) == (change, detail, 3)


def test_what_is_not_there_is_new() -> None:
    plan = planned(wish(BEFORE), None)
    assert (plan.change, plan.detail, plan.generation) == (Change.NEW, "localhost/app:1", 0)


def test_an_older_revision_is_stale() -> None:
    plan = planned(wish(BEFORE, revision=1), accepted(BEFORE, revision=2))
    assert (plan.change, plan.detail) == (Change.STALE, "revision 1 is older than 2")
