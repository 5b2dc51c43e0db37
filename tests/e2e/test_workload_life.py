# SPDX-License-Identifier: Apache-2.0
"""What a user does with workloads, from the command line, on a real stack."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.e2e.command import Perdure
from tests.support.images import Images
from tests.support.podman import IsolatedPodman
from tests.support.ports import free_port
from tests.support.registry import Registry
from tests.support.waiting import eventually


@pytest.fixture
def silent_registry() -> Iterator[str]:
    """A registry that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"localhost:{server.getsockname()[1]}"


def test_from_apply_to_delete(perdure: Perdure, image: str, clean_podman: IsolatedPodman) -> None:
    """Every command of a quiet life."""
    file = perdure.manifest({"web": {"image": image}})
    assert perdure("apply", "-f", file, "--dry-run").out.splitlines()[1].split()[:3] == ["edge-1/web", "new", "-"]
    assert perdure("apply", "-f", file).out.splitlines()[1].split()[:3] == ["edge-1/web", "running", "1"]
    assert perdure("apply", "-f", file, "--dry-run").out.splitlines()[1].split()[:3] == ["edge-1/web", "unchanged", "1"]
    assert perdure("apply", "-f", file).out.splitlines()[1].split()[:3] == ["edge-1/web", "unchanged", "1"]
    (status,) = perdure("get", "workloads", "-o", "json").data
    assert (status["state"], status["substate"], status["generation"]) == ("Running", "Ok", 1)
    assert status == perdure.status("web") == perdure.status("edge-1/web")
    assert clean_podman.is_alive(status["live"]["containerId"])
    assert perdure("wait", "web", "--for", "running").out == "edge-1/web Running\n"
    assert perdure("pause", "web").out == "edge-1/web Paused\n"
    assert perdure("resume", "edge-1/web").out == "edge-1/web Running\n"
    assert perdure("retry", "web").out == "edge-1/web Running\n"
    assert perdure("delete", "web").out == "edge-1/web removed\n"
    assert perdure("get", "workloads", "-o", "json").data == []
    assert clean_podman.containers() == []


def test_a_failing_pull_returns_after_the_first_attempt_and_heals(
    perdure: Perdure, images: Images, registry: Registry
) -> None:
    """Code 7, the whole truth in the status, and nothing to do but to push the image."""
    reference = f"{registry.address}/team/late:1"
    done = perdure("apply", "-f", perdure.manifest({"late": {"image": reference}}), code=7)
    assert done.out.splitlines()[1].split()[:4] == ["edge-1/late", "retrying", "1", "ImageNotFound:"]
    assert done.err.startswith("hint: edge-1/late: ")
    status = eventually(lambda: (found := perdure.status("late"))["attempt"] >= 3 and found, within=60)
    assert (status["state"], status["substate"]) == ("Pending", "PullBackoff")
    error = status["lastError"]
    assert (error["kind"], error["class"], error["phase"]) == ("ImageNotFound", "transient", "pull")
    assert error["count"] == error["attempt"] >= 2
    assert error["firstAt"] < error["lastAt"]
    local = images.obedient("late")
    images.push(local, reference)
    assert perdure("wait", "late").out == "edge-1/late Running\n"


def test_apply_can_stay_until_all_run(perdure: Perdure, image: str, images: Images, registry: Registry) -> None:
    """It ends well when the missing image comes, with 6 where that takes too long, with 1 where it never can."""
    reference = f"{registry.address}/team/later:1"
    file = perdure.manifest({"web": {"image": image}, "later": {"image": reference}})
    assert "inProgress" in perdure("apply", "-f", file, "--wait", "running", "--timeout", "10s", code=6).out
    applying = perdure.start("apply", "-f", file, "--wait", "running", "--timeout", "120s")
    images.push(images.obedient("later"), reference)
    out, err = applying.communicate(timeout=120)
    assert applying.returncode == 0, out + err
    # Which of the two it is for the late one depends on whether its image or the second apply came first.
    web, later = (line.split()[:2] for line in out.splitlines()[1:])
    assert web == ["edge-1/web", "unchanged"]
    assert later in (["edge-1/later", "running"], ["edge-1/later", "unchanged"])
    once = {"image": image, "command": ["true"], "restart": "never"}
    perdure("apply", "-f", perdure.manifest({"once": once}), "--wait", "running")
    bad = perdure.manifest({"bad": {"image": image, "entrypoint": ["/no/such/program"]}})
    perdure("apply", "-f", bad, "--wait", "running", code=1)


def test_wait_is_not_fooled_by_the_old_generation(perdure: Perdure, image: str) -> None:
    """Case U2: after an apply, "running" means the new generation runs."""
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    for generation in range(2, 6):
        file = perdure.manifest({"web": {"image": image, "environment": {"GENERATION": str(generation)}}})
        perdure("apply", "-f", file, "--wait", "none")
        perdure("wait", "web", "--for", "running")
        status = perdure.status("web")
        assert (status["generation"], status["live"]["generation"], status["state"]) == (
            generation,
            generation,
            "Running",
        )


def test_wait_fails_fast_on_a_parked_workload(perdure: Perdure, image: str) -> None:
    """Case U2: with a code of its own, long before the timeout; apply says so too, also when repeated."""
    file = perdure.manifest({"web": {"image": image, "entrypoint": ["/no/such/program"]}})
    done = perdure("apply", "-f", file, code=1)
    assert done.out.splitlines()[1].split()[:4] == ["edge-1/web", "rejected", "1", "CommandNotFound:"]
    begun = time.monotonic()
    done = perdure("wait", "web", "--timeout", "60s", code=1)
    assert time.monotonic() - begun < 20
    assert "will not be running by itself: CommandNotFound" in done.err
    assert perdure("get", "workloads", "--state", "Rejected", "-o", "name").out == "edge-1/web\n"
    perdure("apply", "-f", file, code=1)


def test_wait_times_out_with_its_own_code(perdure: Perdure) -> None:
    """Case U2."""
    file = perdure.manifest({"web": {"image": f"localhost:{free_port()}/app:1"}})
    perdure("apply", "-f", file, code=7)
    done = perdure("wait", "web", "--timeout", "1s", code=6)
    assert done.err.startswith("error: edge-1/web is not running after 1 s: it is Pending(PullBackoff)")


def test_a_delete_elsewhere_ends_a_waiting_apply(perdure: Perdure, silent_registry: str) -> None:
    """Case U3: within two seconds, with the code for "not found"."""
    file = perdure.manifest({"web": {"image": f"{silent_registry}/app:1"}})
    applying = perdure.start("apply", "-f", file, "--timeout", "120s")
    eventually(lambda: "Pulling" in perdure("get", "workloads", "web", code=None).out, within=60)
    perdure("delete", "web", "--no-wait")
    begun = time.monotonic()
    out, _ = applying.communicate(timeout=30)
    assert time.monotonic() - begun < 4  # two seconds, and a busy machine
    assert (applying.returncode, out.splitlines()[1].split()[1]) == (3, "removed")


def test_of_two_applies_that_expect_the_same_generation_one_wins(perdure: Perdure, image: str) -> None:
    """Case S6: the other is told so, with a code of its own."""
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    files = [perdure.manifest({"web": {"image": image, "environment": {"SIDE": side}}}) for side in ("a", "b")]
    rivals = [perdure.start("apply", "-f", file, "--expect-generation", "1") for file in files]
    outputs = [rival.communicate(timeout=120)[0] for rival in rivals]
    codes = [rival.returncode for rival in rivals]
    assert sorted(codes) == [0, 4], outputs
    assert "conflict" in outputs[codes.index(4)]
    assert perdure.status("web")["generation"] == 2


def test_an_apply_that_expects_nothing_is_refused_where_something_is(perdure: Perdure, image: str) -> None:
    file = perdure.manifest({"web": {"image": image}})
    perdure("apply", "-f", file, "--expect-generation", "0")
    done = perdure(
        "apply", "-f", perdure.manifest({"web": {"image": image, "user": "1"}}), "--expect-generation", "0", code=4
    )
    assert "conflict" in done.out


def test_a_host_without_a_worker_is_told_in_time(perdure: Perdure, image: str) -> None:
    """Case C10: within ten seconds, and a few for the program itself."""
    file = perdure.manifest({"far": {"image": image}}, host="far-away")
    begun = time.monotonic()
    done = perdure("apply", "-f", file, code=5)
    assert time.monotonic() - begun < 30
    assert "no worker for host far-away" in done.out
    assert perdure.status("far")["substate"] == "WaitingForHost"
    done = perdure("wait", "far", code=5)
    assert done.err.startswith("error: no worker for host far-away")
    perdure("delete", "far", "--no-wait")


def test_a_name_on_two_hosts_must_be_written_with_its_host(perdure: Perdure, image: str) -> None:
    for host in ("edge-1", "far-away"):
        perdure("apply", "-f", perdure.manifest({"web": {"image": image}}, host=host), "--wait", "none")
    done = perdure("describe", "web", code=2)
    assert done.err.startswith("error: web is on 2 hosts: edge-1/web, far-away/web")
    assert len(perdure("get", "workloads", "web", "-o", "json").data) == 2
    assert perdure("get", "workloads", "--host", "edge-1", "-o", "name").out == "edge-1/web\n"


def test_the_worst_result_is_the_code_and_failures_hide_nothing(perdure: Perdure, image: str) -> None:
    """One runs, one is retried, one is rejected: 1, and a line for each in the order of the manifest."""
    file = perdure.manifest(
        {
            "good": {"image": image},
            "late": {"image": f"localhost:{free_port()}/app:1"},
            "bad": {"image": image, "entrypoint": ["/no/such/program"]},
        }
    )
    lines = perdure("apply", "-f", file, code=1).out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["edge-1/good", "running"],
        ["edge-1/late", "retrying"],
        ["edge-1/bad", "rejected"],
    ]
    codes = perdure("delete", "good", "nosuch", "late", code=3)
    assert codes.out.splitlines() == ["edge-1/good removed", "edge-1/late removed"]


def test_what_is_not_there_is_code_3(perdure: Perdure) -> None:
    for arguments in (
        ["describe", "x"],
        ["delete", "edge-1/x"],
        ["wait", "x"],
        ["get", "workloads", "x"],
        ["retry", "edge-1/x"],
    ):
        assert "there is no workload" in perdure(*arguments, code=3).err


def test_a_manifest_over_the_limit_is_refused_before_anything_is_sent(perdure: Perdure, image: str) -> None:
    """Also the good workload beside it is not sent."""
    files = [{"path": f"/{letter}", "content": letter * 600 * 1024} for letter in "ab"]
    large = {"image": image, "files": files}
    done = perdure("apply", "-f", perdure.manifest({"good": {"image": image}, "large": large}), code=2)
    assert done.err.startswith("error: ")
    assert perdure("get", "workloads", "-o", "json").data == []


def test_ctrl_c_ends_with_130_and_the_workload_goes_on(perdure: Perdure, silent_registry: str) -> None:
    file = perdure.manifest({"web": {"image": f"{silent_registry}/app:1"}})
    applying = perdure.start("apply", "-f", file, "--timeout", "120s")
    eventually(lambda: "Pulling" in perdure("get", "workloads", "web", code=None).out, within=60)
    applying.send_signal(signal.SIGINT)
    _, err = applying.communicate(timeout=30)
    assert (applying.returncode, err.splitlines()[-1]) == (130, "interrupted")
    assert perdure.status("web")["state"] == "Pending"


def test_a_watch_shows_what_changes(perdure: Perdure, image: str) -> None:
    """First all, then each change once, and at last what is gone."""
    file = perdure.manifest({"web": {"image": image}})
    watching = perdure.start("get", "workloads", "--watch")
    try:
        # Each change is waited for before the next: a watch looks once a second, and a short life would fit in between.
        perdure("apply", "-f", file)
        read_until("Running", watching)
        perdure("delete", "web")
        read_until("Removed", watching)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=30)
    assert watching.returncode == 130


def read_until(word: str, process: subprocess.Popen[str]) -> None:
    """Read a process's output up to the line that has a word."""
    assert process.stdout is not None
    while word not in (line := process.stdout.readline()):
        assert line, f"the output ended without {word!r}"


def test_a_manifest_may_come_from_standard_input(perdure: Perdure, image: str) -> None:
    document = (perdure.folder / perdure.manifest({"web": {"image": image}})).read_text()
    perdure("apply", "-f", "-", "--wait", "running", stdin=document)
    assert perdure.status("web")["manifest"] == json.loads(document)["name"]


def test_a_reader_that_leaves_early_is_no_error(perdure: Perdure) -> None:
    watching = perdure.start("get", "workloads", "-o", "json")
    assert watching.stdout is not None
    watching.stdout.close()
    assert watching.wait(60) == 0
    assert watching.stderr is not None
    assert watching.stderr.read() == ""
    watching.stderr.close()


def test_the_wrong_use_of_a_running_stack_is_told(perdure: Perdure) -> None:
    """Options that it cannot take on are refused, and nothing is stopped."""
    done = perdure("up", "--detach", "--temporal-port", "1", "--host", "other", code=1)
    assert "is up with Temporal's port" in done.err
    assert "and host edge-1, not other" in done.err
    done = perdure("up", code=0)
    assert done.err == "it was up already\n"


def test_a_container_that_was_paused_by_hand_goes_on(
    perdure: Perdure, image: str, clean_podman: IsolatedPodman
) -> None:
    """It did no work, and was shown as running."""
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    container = perdure.status("web")["live"]["containerId"]
    clean_podman.cli("pause", container)

    def goes_on() -> bool:
        seen = clean_podman.inspect(container)
        return seen is not None and seen["State"]["Status"] == "running"

    eventually(goes_on, within=30)
    status = eventually(lambda: (found := perdure.status("web"))["state"] == "Running" and found, within=10)
    assert "the container was paused on its host" in [change["reason"] for change in status["history"]]
    assert (status["restarts"], status["live"]["containerId"]) == (0, container)
