# SPDX-License-Identifier: Apache-2.0
"""Workloads that wait for others, from the command line, on a real stack."""

from __future__ import annotations

from typing import Any

from tests.e2e.command import Perdure


def test_what_waits_says_for_whom_and_goes_on_by_itself(perdure: Perdure, image: str) -> None:
    """It is accepted with code 0; every view names what it waits for; nothing has to be done when that comes."""
    web = {"image": image, "dependsOn": {"edge-1/db": "running"}}
    done = perdure("apply", "-f", perdure.manifest({"web": web}))
    says = "edge-1/db does not exist yet, wanted: running"
    assert done.out.splitlines()[1].split(maxsplit=3) == ["edge-1/web", "waiting", "1", says]
    assert perdure("get", "workloads", "web").out.splitlines()[1].endswith(says)
    assert f"  Waits for   {says}\n" in perdure("describe", "web").out
    assert perdure.status("web")["waitingOn"] == [says]
    perdure("apply", "-f", perdure.manifest({"db": {"image": image}}, name="databases"))
    perdure("wait", "web", "--for", "running", "--timeout", "30s")
    assert perdure.status("web")["waitingOn"] == []


def test_apply_can_stay_for_a_chain(perdure: Perdure, image: str) -> None:
    """From its last link on; the results are in the order of the manifest."""
    chain: dict[str, dict[str, Any]] = {
        "web": {"image": image, "dependsOn": {"db": "running"}},
        "db": {"image": image, "dependsOn": {"seed": "succeeded"}},
        "seed": {"image": image, "command": ["sh", "-c", "sleep 2"], "restart": "never"},
    }
    done = perdure("apply", "-f", perdure.manifest(chain), "--wait", "running")
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [
        ["edge-1/web", "running"],
        ["edge-1/db", "running"],
        ["edge-1/seed", "running"],
    ]


def test_a_cycle_is_refused_before_anything_is_sent(perdure: Perdure, image: str) -> None:
    """In files with each line; and through what was applied before."""
    file = perdure.manifest({name: {"image": image, "dependsOn": {other: "running"}} for name, other in ("ab", "ba")})
    for command in (("validate", "-f", file), ("apply", "-f", file, "--dry-run")):
        done = perdure(*command, code=2)
        assert f"these wait for each other: edge-1/a ({file}:1) -> edge-1/b ({file}:1) -> edge-1/a" in done.err
    perdure("apply", "-f", perdure.manifest({"a": {"image": image, "dependsOn": {"edge-1/b": "running"}}}))
    other = perdure.manifest({"b": {"image": image, "dependsOn": {"edge-1/a": "running"}}}, name="other")
    done = perdure("apply", "-f", other, code=2)
    assert "error: these wait for each other: edge-1/b -> edge-1/a (applied before) -> edge-1/b\n" in done.err
    assert perdure("get", "workloads", "-o", "name").out.split() == ["edge-1/a"]
