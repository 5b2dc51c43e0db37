# SPDX-License-Identifier: Apache-2.0
"""The Podman service that we start ourselves: it can die at any time, and containers do not care."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.runtime.podman_service import PodmanService, default_sockets, find_socket, is_answering
from perdure.runtime.podman_settings import MachineFacts
from perdure.runtime.problems import StackProblem
from tests.support.images import Images
from tests.support.podman import IsolatedPodman, process_is_alive
from tests.support.waiting import eventually


@pytest.fixture
def own_podman() -> Iterator[IsolatedPodman]:
    """A Podman for one test alone, not started."""
    podman = IsolatedPodman()
    yield podman
    podman.destroy()


def test_it_serves_until_it_is_stopped(own_podman: IsolatedPodman) -> None:
    """Start, answer, stop; starting twice and stopping twice do nothing."""
    service = own_podman.service
    service.start()
    first = service.process
    service.start()
    assert first is not None
    assert service.process == first
    assert service.is_answering()
    assert service.stop()
    assert not service.is_answering()
    assert not first.running
    assert not service.stop()


def test_a_service_whose_pid_file_was_lost_is_ended_too(own_podman: IsolatedPodman) -> None:
    """As the child is in which Podman goes on where it is used without root for the first time: no file names it."""
    own_podman.service.start()
    (own_podman.service.home / "podman.pid").unlink()
    again = PodmanService(own_podman.service.home, private=True)
    process = again.process
    assert process is not None
    again.start()
    assert again.process == process, "it is not taken for somebody else's, nor started a second time"
    assert again.stop()
    assert not process.running
    assert not again.is_answering()


def test_containers_go_on_while_the_service_is_killed_and_started_again(
    clean_podman: IsolatedPodman, images: Images
) -> None:
    """SIGKILL of the service ends no container, and the next service knows them all."""
    container = clean_podman.run(images.obedient())
    before = clean_podman.inspect(container)
    assert before is not None
    clean_podman.kill()
    assert process_is_alive(before["State"]["Pid"])
    clean_podman.start()
    after = clean_podman.inspect(container)
    assert after is not None
    assert after["State"]["Pid"] == before["State"]["Pid"]
    assert after["State"]["StartedAt"] == before["State"]["StartedAt"]


def test_a_death_while_the_service_is_down_is_not_lost(clean_podman: IsolatedPodman, images: Images) -> None:
    """The exit code of a container that ended meanwhile is known to the next service, and stands in its events."""
    container = clean_podman.run(images.obedient())
    clean_podman.stop()
    seen = clean_podman.inspect(container)
    assert seen is not None
    os.kill(seen["State"]["Pid"], signal.SIGKILL)
    clean_podman.start()

    def has_exited() -> bool:
        state = clean_podman.inspect(container) or {}
        return bool(state) and state["State"]["Status"] == "exited" and state["State"]["ExitCode"] == 137

    eventually(has_exited, within=10)
    events = clean_podman.cli("events", "--stream=false", "--format=json", f"--filter=container={container}")
    assert "died" in {json.loads(line)["Status"] for line in events.splitlines()}


def test_another_process_finds_the_service_by_its_folder(own_podman: IsolatedPodman) -> None:
    """`down` is another process than `up`: it adopts what it finds, and can stop it."""
    own_podman.start()
    found = PodmanService(own_podman.service.home, private=True)
    found.start()
    assert found.process == own_podman.service.process
    assert found.stop()
    assert not own_podman.service.is_answering()


def test_a_service_that_hangs_is_replaced(own_podman: IsolatedPodman) -> None:
    """A stopped process accepts connections and never answers: it is not adopted."""
    service = own_podman.service
    service.start()
    hung = service.process
    assert hung is not None
    os.kill(hung.pid, signal.SIGSTOP)
    assert not is_answering(service.socket, timeout=timedelta(seconds=0.2))
    service.start()
    assert service.process != hung
    assert service.is_answering()


def test_a_private_storage_leaves_nothing_behind(own_podman: IsolatedPodman) -> None:
    """Also with a live container, and with a service that was killed."""
    own_podman.start()
    container = own_podman.run(Images(own_podman).stubborn())
    seen = own_podman.inspect(container)
    assert seen is not None
    own_podman.kill()
    own_podman.destroy()
    assert not process_is_alive(seen["State"]["Pid"])
    assert not process_is_alive(seen["State"]["ConmonPid"])
    assert not own_podman.service.home.exists()
    assert str(own_podman.service.home) not in Path("/proc/mounts").read_text()


def test_what_a_crashed_engine_forgot_is_ended_too(own_podman: IsolatedPodman) -> None:
    """A container whose monitor died is no longer Podman's to stop; its process goes all the same."""
    own_podman.start()
    container = own_podman.run(Images(own_podman).stubborn())
    seen = own_podman.inspect(container)
    assert seen is not None
    os.kill(seen["State"]["ConmonPid"], signal.SIGKILL)
    own_podman.destroy()
    assert not process_is_alive(seen["State"]["Pid"])
    assert not own_podman.service.home.exists()


def test_the_socket_must_fit_into_the_kernels_limit() -> None:
    """A path that is too long is told before anything is started."""
    with tempfile.TemporaryDirectory() as folder:
        service = PodmanService(Path(folder, "x" * 100), private=True)
        with pytest.raises(StackProblem, match="longer than 107 bytes") as caught:
            service.start()
        assert "shorter path" in caught.value.hint
        assert not service.home.exists()


def test_a_machine_without_podman_is_told_what_to_install(tmp_path: Path) -> None:
    """The hint names both ways out."""
    service = PodmanService(tmp_path, facts=MachineFacts(podman_version=None))
    with pytest.raises(StackProblem, match="not installed") as caught:
        service.start()
    assert "PERDURE_PODMAN" in caught.value.hint


def test_a_service_that_cannot_start_says_why() -> None:
    """The last words of Podman are in the message."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        service = PodmanService(Path(folder), environment={"CONTAINERS_CONF": "/nonexistent.conf"})
        with pytest.raises(StackProblem, match=r"ended at once: .*nonexistent"):
            service.start()
        assert service.process is None


def test_usual_sockets_are_looked_for(tmp_path: Path, podman: IsolatedPodman) -> None:
    """Root has one, a user has one in the runtime folder; only an answer counts."""
    environment = {"XDG_RUNTIME_DIR": "/run/user/1000"}
    assert default_sockets(environment, is_root=True) == [Path("/run/podman/podman.sock")]
    assert default_sockets(environment, is_root=False) == [Path("/run/user/1000/podman/podman.sock")]
    assert default_sockets({}, is_root=False) == []
    podman.start()
    dead = tmp_path / "dead.sock"
    dead.touch()
    assert find_socket([tmp_path / "absent.sock", dead, podman.socket]) == podman.socket
    assert find_socket([dead]) is None


def test_an_old_podman_gets_the_hosts_settings_and_ours_in_one_file(tmp_path: Path) -> None:
    """Before 4.6 CONTAINERS_CONF replaces all of the host's files: what they say must be in it."""
    host = tmp_path / "host.conf"
    host.write_text('[containers]\ntz = "local"\n[engine]\ncgroup_manager = "systemd"\n')
    facts = MachineFacts(podman_version=(4, 3, 1), has_systemd=False, has_cni=True)
    service = PodmanService(tmp_path / "home", facts=facts, environment={})
    environment = service.prepare({"CONTAINERS_CONF": str(host)})
    assert Path(environment["CONTAINERS_CONF"]).read_text().splitlines() == [
        "[containers]",
        'tz = "local"',
        "[engine]",
        'cgroup_manager = "cgroupfs"',
        'events_logger = "file"',
    ]


def test_a_new_podman_gets_our_settings_on_top(tmp_path: Path) -> None:
    """From 4.6 on the host's files are left to Podman."""
    facts = MachineFacts(podman_version=(5, 6, 2), has_systemd=False, has_cni=True)
    environment = PodmanService(tmp_path, facts=facts).prepare({})
    assert Path(environment["CONTAINERS_CONF_OVERRIDE"]).read_text().startswith("[engine]")
    assert "CONTAINERS_CONF" not in environment


def test_a_host_that_works_by_itself_gets_no_settings_at_all(tmp_path: Path) -> None:
    """No file, no variable."""
    environment = PodmanService(tmp_path, facts=MachineFacts(podman_version=(5, 6, 2), has_cni=True)).prepare({})
    assert environment == {}


def test_insecure_registries_are_added_to_the_hosts_own(tmp_path: Path) -> None:
    """What the host says of registries stays."""
    own = tmp_path / "registries.conf"
    own.write_text('unqualified-search-registries = ["quay.io"]\n')
    facts = MachineFacts(podman_version=(5, 6, 2), has_cni=True)
    service = PodmanService(tmp_path / "home", facts=facts, insecure_registries=["localhost:5000"])
    environment = service.prepare({"CONTAINERS_REGISTRIES_CONF": str(own)})
    text = Path(environment["CONTAINERS_REGISTRIES_CONF"]).read_text()
    assert text.startswith(own.read_text())
    assert 'location = "localhost:5000"\ninsecure = true' in text
