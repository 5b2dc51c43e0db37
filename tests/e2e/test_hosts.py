# SPDX-License-Identifier: Apache-2.0
"""What a user sees of hosts and does with them, from the command line, on a real stack."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime

from temporalio.client import Client

from perdure.model.host import WorkerInfo
from perdure.wire import names
from perdure.wire.converter import data_converter
from tests.e2e.command import Perdure
from tests.support.podman import IsolatedPodman
from tests.support.waiting import eventually

NewHome = Callable[[], Perdure]


def test_a_host_is_shown_with_its_worker_and_its_workloads(perdure: Perdure, image: str) -> None:
    """As a table, as data, and whole; and one that was never seen, because a workload names it."""
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    perdure("apply", "-f", perdure.manifest({"far": {"image": image}}, host="far-away"), "--wait", "none")

    def both() -> bool:
        return perdure("get", "hosts", "-o", "name").out.split() == ["edge-1", "far-away"]

    eventually(both, within=10)
    header, edge, far = perdure("get", "hosts").out.splitlines()
    assert header.split() == ["HOST", "STATE", "SEEN", "WORKER", "PODMAN", "WORKLOADS", "RESYNC"]
    assert edge.split()[:2] == ["edge-1", "Ready"]
    assert "  1: 1 Running  " in edge
    assert far.split()[:3] == ["far-away", "NeverSeen", "never"]
    (host,) = perdure("get", "hosts", "edge-1", "-o", "json").data
    assert (host["state"], host["workloads"]) == ("Ready", {"Running": 1})
    assert host["worker"]["identity"].startswith("host/edge-1@")
    assert host["worker"]["engineVersion"]
    assert host["lastResync"]["at"] >= host["worker"]["startedAt"]
    text = perdure("describe", "host", "edge-1").out
    assert text.startswith("edge-1\n  State       Ready for ")
    assert "\nLast resync, " in text
    assert "/workflows/host%2Fedge-1" in text
    assert perdure("get", "hosts", "--state", "NeverSeen", "-o", "name").out == "far-away\n"


def test_a_resync_tells_what_it_found(perdure: Perdure, image: str, clean_podman: IsolatedPodman) -> None:
    """Nothing where all is as it should be, and an orphan where there is one."""
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}}))
    assert perdure("resync", "edge-1").out.startswith("edge-1: 1 container and 1 workload in ")
    report = perdure("resync", "edge-1", "-o", "json").data
    assert (report["reason"], report["containers"], report["workloads"]) == ("asked", 1, 1)
    (host,) = perdure("get", "hosts", "edge-1", "-o", "json").data
    assert host["lastResync"]["at"] >= report["at"]
    assert clean_podman.is_alive(perdure.status("web")["live"]["containerId"])


def test_what_is_no_host_is_code_3_and_one_without_a_worker_5(perdure: Perdure, image: str) -> None:
    for arguments in (["describe", "host", "x"], ["get", "hosts", "x"], ["resync", "x"], ["forget", "x"]):
        assert "there is no host x" in perdure(*arguments, code=3).err
    perdure("apply", "-f", perdure.manifest({"far": {"image": image}}, host="far-away"), "--wait", "none")
    assert perdure("resync", "far-away", code=5).err.startswith(
        "error: no worker for host far-away, none was ever seen"
    )
    assert "there is no host far-away" in perdure("forget", "far-away", code=3).err
    assert (
        "hint: There is a host of that name: `perdure describe host far-away`."
        in perdure("describe", "far-away", code=3).err
    )


def test_a_workload_of_a_host_that_never_was_can_be_deleted(perdure: Perdure, image: str) -> None:
    """Its name was mistyped: a delete in the ordinary way waits for it, and says what to do."""
    perdure("apply", "-f", perdure.manifest({"far": {"image": image}}, host="far-away"), "--wait", "none")
    done = perdure("delete", "far", code=5)
    assert "no worker for host far-away" in done.err
    assert "perdure delete --force far-away/far" in done.err
    begun = time.monotonic()
    assert perdure("delete", "--force", "far-away/far").out == "far-away/far removed\n"
    assert time.monotonic() - begun < 10
    assert "there is no workload" in perdure("describe", "far-away/far", code=3).err


def test_a_host_in_use_is_not_forgotten(perdure: Perdure) -> None:
    done = perdure("forget", "edge-1", "--force", code=1)
    assert done.err.startswith("error: host edge-1 was heard of ")
    assert "it would be back at once" in done.err


def test_a_host_that_is_gone_is_lost_then_forgotten(perdure: Perdure) -> None:
    """One whose worker was started once, and then never again."""
    asyncio.run(once_there_was(perdure, "edge-7"))

    def state() -> str:
        found = perdure("get", "hosts", "edge-7", "-o", "json", code=None)
        return found.data[0]["state"] if found.code == 0 else ""

    eventually(lambda: state() == "Lost", within=40)
    assert perdure("resync", "edge-7", code=5).err.startswith("error: no worker ")
    assert perdure("forget", "edge-7").out == "edge-7 forgotten\n"
    assert "there is no host edge-7" in perdure("describe", "host", "edge-7", code=3).err


async def once_there_was(perdure: Perdure, host: str) -> None:
    """A worker of a host tells that it was started, and is not heard of again."""
    client = await Client.connect(perdure.address, namespace=perdure.fleet, data_converter=data_converter())
    worker = WorkerInfo(identity=f"host/{host}@1", version="0.0.0", started_at=datetime.now(UTC))
    await client.start_workflow(
        names.HOST_WORKFLOW,
        args=[None],
        id=names.host_id(host),
        task_queue=names.CONTROL_QUEUE,
        start_signal=names.WORKER_STARTED,
        start_signal_args=[worker],
    )


def test_a_lost_host_is_told_by_its_workloads(new_home: NewHome, image: str, clean_podman: IsolatedPodman) -> None:
    """Cases R9 and C10: its worker is stopped by SIGSTOP; within 30 s its workloads show as unknown, and a wait says so.

    One that is deleted by force meanwhile is removed when the host is back; the other one goes on in its container.
    """
    perdure = new_home()
    perdure("up", "--detach", "--temporal-port", "0", "--host", "edge-5")
    perdure("apply", "-f", perdure.manifest({"web": {"image": image}, "old": {"image": image}}, host="edge-5"))
    old = perdure.status("old")["live"]["containerId"]
    worker = perdure.process("host")
    assert worker is not None
    worker.send(signal.SIGSTOP)
    try:
        status = eventually(lambda: (found := perdure.status("web"))["state"] == "Unknown" and found, within=30)
        assert (status["substate"], status["live"]["generation"]) == ("HostLost", 1)
        line = perdure("get", "workloads", "web").out.splitlines()[1]
        assert "  Unknown(HostLost)  " in line
        assert "host edge-5 does not answer, last seen " in line
        assert perdure("get", "hosts").out.splitlines()[1].split()[:2] == ["edge-5", "Lost"]
        done = perdure("wait", "web", code=5)
        assert done.err.startswith(
            ("error: host edge-5 does not answer", "error: no worker for host edge-5, last seen ")
        )
        assert "edge-5/web is Unknown(HostLost)" in done.err
        assert perdure("delete", "--force", "old").out == "edge-5/old removed\n"
        assert clean_podman.is_alive(old)
    finally:
        worker.send(signal.SIGCONT)
    eventually(lambda: clean_podman.inspect(old) is None, within=30)
    assert perdure("wait", "web").out == "edge-5/web Running\n"
    assert perdure.status("web")["live"] == status["live"]
    # Where the host answers, nothing that was called removed runs on until its next look by itself.
    assert perdure("delete", "--force", "web").out == "edge-5/web removed\n"
    eventually(lambda: clean_podman.inspect(status["live"]["containerId"]) is None, within=30)
