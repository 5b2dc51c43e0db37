# SPDX-License-Identifier: Apache-2.0
"""deploy/install-host.sh on machines that lack something; no real package manager is called."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

SCRIPT = ROOT / "deploy/install-host.sh"
NEEDED = ("bash", "cat", "env", "ldd", "mktemp", "rm", "tail")
ORDINARY_USER = "#!/bin/sh\necho 1000\n"
RECORDING = '#!/bin/sh\necho "${{0##*/}} $*" >> {log}\ncat > /dev/null\n'


class Machine:
    """A PATH with little on it."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.log.touch()
        for name in NEEDED:
            self.add(name)
        self.fake("id", ORDINARY_USER)

    def add(self, name: str) -> None:
        """Have a program of the real machine."""
        found = shutil.which(name)
        assert found is not None
        (self.bin / name).symlink_to(found)

    def fake(self, name: str, script: str = RECORDING) -> None:
        """Have a program that does not do what it is called for."""
        path = self.bin / name
        path.write_text(script.format(log=self.log) if script is RECORDING else script)
        path.chmod(0o755)

    def run(self, group: str, *, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        environment = {"PATH": str(self.bin), "PYTHON": python}
        return subprocess.run([str(SCRIPT), group], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Without Podman, a registry and a package manager."""
    return Machine(tmp_path)


def test_machine_that_has_everything_is_left_alone() -> None:
    done = subprocess.run([str(SCRIPT), "test"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_machine_without_apt_is_told_what_to_install(machine: Machine) -> None:
    done = machine.run("test")
    assert done.returncode == 1
    assert "podman" in done.stderr
    assert "docker-registry" in done.stderr
    assert "hint:" in done.stderr


def test_user_without_root_and_sudo_is_told_the_command(machine: Machine) -> None:
    machine.fake("apt-get")
    done = machine.run("runtime")
    assert done.returncode == 1
    assert "as root: apt-get install podman" in done.stderr
    assert machine.log.read_text() == ""


def test_missing_packages_are_installed_without_starting_their_services(machine: Machine) -> None:
    """Debian asks policy-rc.d whether a service may start; ours says no, and is gone afterwards."""
    for name in ("apt-get", "sudo"):
        machine.fake(name)
    machine.fake("systemctl")
    done = machine.run("test")
    assert done.returncode == 0, done.stderr
    calls = machine.log.read_text().splitlines()
    (install,) = [number for number, call in enumerate(calls) if "apt-get install" in call]
    assert "podman" in calls[install]
    assert "docker-registry" in calls[install]
    if not Path("/usr/sbin/policy-rc.d").exists():
        assert calls.index("sudo tee /usr/sbin/policy-rc.d") < install
        assert calls[-1] == "sudo rm -f /usr/sbin/policy-rc.d"
    assert "sudo systemctl disable docker-registry" in calls


def test_only_the_tests_need_a_browser(machine: Machine) -> None:
    """The demo starts on a fresh machine without the largest of all packages."""
    assert "chromium" in machine.run("test").stderr
    assert "chromium" not in machine.run("demo").stderr


def test_old_python_is_refused_first(machine: Machine) -> None:
    machine.fake("old-python", "#!/bin/sh\nexit 1\n")
    done = machine.run("python", python=str(machine.bin / "old-python"))
    assert done.returncode == 1
    assert "Python 3.11 or later is needed" in done.stderr


def test_unknown_group_is_a_wrong_use(machine: Machine) -> None:
    assert machine.run("everything").returncode == 2
