# SPDX-License-Identifier: Apache-2.0
"""``dependsOn`` of manifests: what a name means, and workloads that wait for each other, found before anything is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.client import Client

from client import cycles
from client.applying import Applying, Progress, prepare
from client.errors import Circular
from client.manifests import ManifestError, load
from perdure.model.manifest import Manifest
from tests.support.workloads import manifest
from tests.unit.manifests import SCHEMA, complaints

IMAGE = "localhost/app:1"


def document(**workloads: dict[str, Any]) -> dict[str, Any]:
    """A manifest of workloads on edge-1, unless they say otherwise."""
    entries = {
        name.replace("_", "-"): {"image": IMAGE, **({} if "hosts" in entry else {"host": "edge-1"}), **entry}
        for name, entry in workloads.items()
    }
    return {"apiVersion": "perdure/v1", "name": "shop", "workloads": entries}


def depends_on(**workloads: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What each workload on each host depends on, in the normal form."""
    written = document(**workloads)
    SCHEMA.validate(written)
    return {
        f"{target.host}/{target.name}": {label: it.value for label, it in target.spec.depends_on.items()}
        for target in Manifest.model_validate(written).targets()
        if target.spec.depends_on
    }


# ---- what a name means ----


def test_a_name_is_the_workload_on_the_same_host() -> None:
    assert depends_on(web={"dependsOn": {"db": "running"}}, db={}) == {"edge-1/web": {"edge-1/db": "running"}}


def test_a_name_is_the_only_workload_of_that_name() -> None:
    found = depends_on(web={"dependsOn": {"db": "healthy"}}, db={"host": "edge-2"})
    assert found == {"edge-1/web": {"edge-2/db": "healthy"}}


def test_each_copy_depends_on_the_copy_on_its_own_host() -> None:
    both = ["edge-1", "edge-2"]
    found = depends_on(
        web={"hosts": both, "dependsOn": {"db": "running", "seed": "succeeded"}}, db={"hosts": both}, seed={}
    )
    assert found == {
        "edge-1/web": {"edge-1/db": "running", "edge-1/seed": "succeeded"},
        "edge-2/web": {"edge-2/db": "running", "edge-1/seed": "succeeded"},
    }


def test_a_name_with_its_host_may_stand_in_another_manifest() -> None:
    found = depends_on(web={"dependsOn": {"edge-9/db": "failed", "edge-1/cache": "running"}})
    assert found == {"edge-1/web": {"edge-9/db": "failed", "edge-1/cache": "running"}}


def test_defaults_may_name_a_dependency_of_all() -> None:
    written = document(web={}, api={"dependsOn": {"edge-1/api-db": "healthy"}})
    written["defaults"] = {"dependsOn": {"edge-1/vpn": "running"}}
    web, api = Manifest.model_validate(written).targets()
    assert set(web.spec.depends_on) == {"edge-1/vpn"}
    assert set(api.spec.depends_on) == {"edge-1/vpn", "edge-1/api-db"}


@pytest.mark.parametrize(
    ("workloads", "way", "says"),
    [
        (
            {"web": {"host": "edge-3", "dependsOn": {"db": "running"}}, "db": {"hosts": ["edge-1", "edge-2"]}},
            "workloads.web.dependsOn.db.[key]",
            "for host edge-3 it may be any of edge-1/db, edge-2/db | write one of them",
        ),
        (
            {"web": {"dependsOn": {"dbs": "running"}}, "db": {}},
            "workloads.web.dependsOn.dbs.[key]",
            "there is no workload 'dbs' in this manifest | did you mean db?",
        ),
        (
            {"web": {"dependsOn": {"db": "running", "edge-1/db": "healthy"}}, "db": {}},
            "workloads.web.dependsOn.edge-1/db.[key]",
            "for host edge-1 it is the same as db | name it once",
        ),
        (
            {"web": {"hosts": ["edge-1", "edge-2"], "dependsOn": {"edge-2/web": "running"}}},
            "workloads.web.dependsOn.edge-2/web.[key]",
            "a workload cannot depend on itself",
        ),
        (
            {"web": {"dependsOn": {"db": "healthy"}}, "db": {"healthcheck": {"test": ["NONE"]}}},
            "workloads.web.dependsOn.db.[key]",
            "db switches its healthcheck off, so it is never healthy | write running, or give it a test",
        ),
    ],
)
def test_what_means_nothing_is_refused(workloads: dict[str, Any], way: str, says: str) -> None:
    found = complaints(document(**workloads))
    assert list(found) == [way]
    assert says in found[way]


def test_without_a_healthcheck_of_its_own_the_image_may_have_one() -> None:
    assert depends_on(web={"dependsOn": {"db": "healthy"}}, db={}) == {"edge-1/web": {"edge-1/db": "healthy"}}


def test_a_mistake_is_told_once_for_a_thousand_hosts() -> None:
    hosts = [f"edge-{number}" for number in range(1000)]
    assert len(complaints(document(web={"hosts": hosts, "dependsOn": {"dbs": "running"}}, db={"hosts": hosts}))) == 1


# ---- cycles in files ----

SHOP = """\
apiVersion: perdure/v1
name: shop
defaults: {hosts: [edge-1, edge-2], image: localhost/app:1}
workloads:
  a:
    dependsOn: {b: running}
  b:
    dependsOn:
      c: healthy
      edge-9/x: running
  c:
    dependsOn: {a: running}
"""


def test_a_cycle_is_told_in_order_with_each_line(tmp_path: Path) -> None:
    """Once, though it is on two hosts."""
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)
    with pytest.raises(ManifestError) as caught:
        load([str(file)])
    (problem,) = caught.value.problems
    assert str(problem) == (
        f"{file}:6:17: these wait for each other: "
        f"edge-1/a ({file}:6) -> edge-1/b ({file}:9) -> edge-1/c ({file}:12) -> edge-1/a"
    )
    assert problem.hint == "leave one of these dependencies out"


def test_a_cycle_across_manifests_is_found(tmp_path: Path) -> None:
    head = "apiVersion: perdure/v1\nname: NAME\nworkloads:\n  NAME:\n    host: HOST\n    image: localhost/x\n"
    one, two = tmp_path / "1.yaml", tmp_path / "2.yaml"
    one.write_text(head.replace("NAME", "one").replace("HOST", "edge-1") + "    dependsOn: {edge-2/two: failed}\n")
    two.write_text(head.replace("NAME", "two").replace("HOST", "edge-2") + "    dependsOn: {edge-1/one: running}\n")
    assert load([str(one)])
    with pytest.raises(ManifestError, match=rf"edge-1/one \({one}:7\) -> edge-2/two \({two}:7\) -> edge-1/one"):
        load([str(one), str(two)])


def test_a_cycle_by_defaults_is_told_at_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    head = "apiVersion: perdure/v1\nname: NAME\ndefaults: {image: localhost/x, dependsOn: {OTHER: running}}\n"
    one = head.replace("NAME", "one").replace("OTHER", "edge-2/b") + "workloads: {a: {host: edge-1}}\n"
    two = head.replace("NAME", "two").replace("OTHER", "edge-1/a") + "workloads: {b: {host: edge-2}}\n"
    file.write_text(f"{one}---\n{two}")
    with pytest.raises(ManifestError) as caught:
        load([str(file)])
    assert [str(problem) for problem in caught.value.problems] == [
        f"{file}:3:44: these wait for each other: edge-1/a ({file}:3) -> edge-2/b ({file}:8) -> edge-1/a"
    ]


# ---- cycles by the Python client, and with what was applied before ----


def test_the_python_client_refuses_a_cycle() -> None:
    one = manifest({"a": {"image": IMAGE, "dependsOn": {"edge-2/b": "running"}}}, name="one")
    two = manifest({"b": {"image": IMAGE, "dependsOn": {"edge-1/a": "running"}}}, host="edge-2", name="two")
    with pytest.raises(Circular) as caught:
        prepare([one, two], expect_generation=None, by="a test")
    assert caught.value.message == "these wait for each other: edge-1/a -> edge-2/b -> edge-1/a"
    assert caught.value.hint == "Nothing was sent: leave one of these dependencies out."


def test_a_cycle_through_what_was_applied_before_is_refused() -> None:
    targets = manifest({"a": {"image": IMAGE, "dependsOn": {"edge-2/b": "running"}}}).targets()
    before = {"edge-2/b": ["edge-2/c"], "edge-2/c": ["edge-1/a"], "edge-2/x": ["edge-2/x"]}
    with pytest.raises(
        Circular, match=r"edge-1/a -> edge-2/b \(applied before\) -> edge-2/c \(applied before\) -> edge"
    ):
        cycles.refuse(targets, before)
    cycles.refuse(targets, before | {"edge-2/c": []})


def test_what_is_applied_now_counts_and_not_what_was_before() -> None:
    targets = manifest({"a": {"image": IMAGE}, "b": {"image": IMAGE, "dependsOn": {"a": "running"}}}).targets()
    cycles.refuse(targets, {"edge-1/a": ["edge-1/b"]})


# ---- the order of sending ----


class Recorder:
    """Takes note of what is begun, in which order, and lets others go first as often as it can."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def start_workflow(self, _: str, *, id: str, **__: Any) -> None:  # noqa: A002 - the SDK's name
        """Take a while, the later ones less."""
        await asyncio.sleep(0)
        self.taken.append(id.removeprefix("workload/edge-1/"))


@settings(max_examples=40)
@given(st.permutations(range(7)), st.data())
def test_dependencies_are_sent_first_and_results_stay_in_order(order: list[int], data: st.DataObject) -> None:
    """Any manifest without a cycle is taken; the results are in its order."""
    workloads: dict[str, dict[str, Any]] = {}
    for place, number in enumerate(order):
        sooner = data.draw(st.lists(st.sampled_from(order[:place]), unique=True)) if place else []
        workloads[f"w{number}"] = {"image": IMAGE, "dependsOn": {f"w{other}": "running" for other in sooner}}
    written = dict(sorted(workloads.items()))
    recorder = Recorder()
    wishes = prepare([manifest(written)], expect_generation=None, by="a test")
    client: Any = recorder
    results = asyncio.run(_sent(client, wishes))
    assert [result.name for result in results] == list(written)
    assert {result.progress for result in results} == {Progress.ACCEPTED}
    assert sorted(recorder.taken) == list(written)
    for name, entry in workloads.items():
        assert all(recorder.taken.index(other) < recorder.taken.index(name) for other in entry["dependsOn"])


async def _sent(client: Client, wishes: Any) -> Any:
    return await Applying(client, wishes, lambda _: None).send()
