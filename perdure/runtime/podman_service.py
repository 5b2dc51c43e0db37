# SPDX-License-Identifier: Apache-2.0
"""A Podman API service that we start ourselves, where none runs.

It serves either the machine's own storage, with the machine's own settings wherever these work, or a private storage
that lives in one folder and leaves nothing behind. Containers do not depend on the service: it can be killed and
started again at any time. It has a working directory of its own, because the container monitor writes files there.

The paths of a private storage are given as flags, never in a configuration file: with ``static_dir`` and ``tmp_dir`` in
a file, Podman 4.3 loses its events.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from perdure.runtime import rediscovery
from perdure.runtime.podman_settings import (
    LAYERED_CONFIG_SINCE,
    Config,
    MachineFacts,
    host_config,
    merged,
    probe_machine,
    service_settings,
    to_toml,
)
from perdure.runtime.problems import StackProblem
from perdure.runtime.processes import PidFile, Process, start_detached
from perdure.runtime.settings import UNIX_SOCKET_LIMIT_BYTES

POLL_SECONDS: Final = 0.02


class PodmanService:
    """One ``podman system service``, found again through its folder by any later process.

    Args:
        home: the folder for the socket, the log and the settings; of a private service also for images and containers.
        private: keep a storage of our own below ``home`` instead of using the machine's.
        insecure_registries: registries (``host:port``) spoken to over plain HTTP or with an unchecked certificate.
        environment: variables for the service on top of this process's own.
        facts: what is known of the machine; probed where not given.
        log_level: what the service writes into its log; with ``info`` a line for each request.
    """

    def __init__(
        self,
        home: Path,
        *,
        private: bool = False,
        insecure_registries: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        facts: MachineFacts | None = None,
        log_level: str = "warn",
    ) -> None:
        self.home = home.resolve()
        self.private = private
        self.socket = self.home / "podman.sock"
        self.log = self.home / "podman.log"
        self._pid_file = PidFile(self.home / "podman.pid")
        self._insecure_registries = tuple(insecure_registries)
        self._extra = dict(environment or {})
        self._log_level = log_level
        self._facts = facts or probe_machine()
        self.settings = service_settings(self._facts, private=private)

    @property
    def url(self) -> str:
        """The address of the API, for clients."""
        return f"unix://{self.socket}"

    @property
    def process(self) -> Process | None:
        """What this folder's service runs in, or None where it does not run."""
        return next(iter(self._processes()), None)

    def start(self, within: timedelta = timedelta(seconds=15)) -> None:
        """Start the service and wait until it answers. One that runs already is adopted, one that hangs is replaced.

        Raises:
            StackProblem: Podman is not installed, died at once, or does not answer.
        """
        if self.is_answering():
            return
        if self.settings.problem:
            hint = "Install Podman 4.3 or later, or name a socket in PERDURE_PODMAN."
            raise StackProblem(self.settings.problem, hint)
        if len(os.fsencode(self.socket)) > UNIX_SOCKET_LIMIT_BYTES:
            message = f"the path of the Podman socket is longer than {UNIX_SOCKET_LIMIT_BYTES} bytes: {self.socket}"
            raise StackProblem(message, "Choose a folder with a shorter path.")
        self.kill()
        environment = self.prepare()
        at_home = ["env", f"--chdir={self.home / 'cwd'}"]
        service = [*self.command(), f"--log-level={self._log_level}", *self._serve()]
        process = start_detached([*at_home, *service], pid_file=self._pid_file, log=self.log, environment=environment)
        self._wait_for_answer(process, within)

    def stop(self, within: timedelta = timedelta(seconds=10)) -> bool:
        """End the service, politely first. Containers go on. Returns whether one ran."""
        ran = self._end(signal.SIGTERM, within) or self._end(signal.SIGKILL, within)
        self._pid_file.remove()
        return ran

    def kill(self) -> bool:
        """End the service as a crash would. Containers go on. Returns whether one ran."""
        return self._end(signal.SIGKILL, timedelta(seconds=10))

    def is_answering(self) -> bool:
        """Whether the API answers now."""
        return is_answering(self.socket)

    def command(self) -> list[str]:
        """How to call the ``podman`` command on the same storage; to be run with the environment of ``prepare``."""
        if not self.private:
            return ["podman"]
        folder = self.home
        return [
            "podman",
            f"--root={folder / 'storage'}",
            f"--runroot={folder / 'run'}",
            f"--tmpdir={folder / 'tmp'}",
            f"--volumepath={folder / 'volumes'}",
            f"--network-config-dir={folder / 'networks'}",
        ]

    def prepare(self, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
        """Write the settings, and return the environment that makes a ``podman`` process read them.

        Args:
            inherited: the variables to build on; this process's own where None.
        """
        folders = ["cwd", *(["storage", "run", "tmp", "volumes", "networks", "copies"] if self.private else [])]
        for name in folders:
            (self.home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = dict(os.environ if inherited is None else inherited)
        override = self.settings.override
        if self.private:
            override = merged(override, {"engine": {"image_copy_tmp_dir": str(self.home / "copies")}})
            environment.pop("CONTAINERS_CONF", None)
            environment["CONTAINERS_STORAGE_CONF"] = self._write("storage.conf", self._storage_conf())
            environment["REGISTRY_AUTH_FILE"] = str(self._empty_auth_file())
        if override:
            environment |= self._config_variables(override, environment)
        if self.private or self._insecure_registries:
            registries = self._registries_conf(environment)
            environment["CONTAINERS_REGISTRIES_CONF"] = self._write("registries.conf", registries)
        return environment | self._extra

    def destroy(self) -> None:
        """Remove a private storage with all that is in it: containers, volumes, networks, mounts, files.

        Works after a crash of any part, too. The machine's own storage is never touched: there only the service ends.
        """
        if self.private and self.home.exists():
            containers = {path.name for path in (self.home / "storage/overlay-containers").glob("?" * 64)}
            environment = self.prepare()
            for arguments in (["rm", "-af", "-t", "0"], ["rm", "-af", "-t", "0"], ["network", "prune", "-f"]):
                with suppress(subprocess.TimeoutExpired):
                    command = [*self.command(), *arguments]
                    subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
            self.stop()
            _kill_leftovers(containers)
            for mount in reversed(_mounts_below(self.home)):
                subprocess.run(["umount", "-l", mount], capture_output=True, check=False)
        else:
            self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _wait_for_answer(self, process: Process, within: timedelta) -> None:
        deadline = time.monotonic() + within.total_seconds()
        while not self.is_answering():
            if not process.running:
                process.reap()
                raise StackProblem(f"podman system service ended at once: {self._last_words()}", f"See {self.log}.")
            if time.monotonic() > deadline:
                self.kill()
                raise StackProblem(f"podman system service does not answer on {self.socket}", f"See {self.log}.")
            time.sleep(POLL_SECONDS)

    def _processes(self) -> list[Process]:
        """The process that was started, and those that serve in its place.

        Where Podman is used without root for the first time since a boot, it goes on in a child that does not end with it.
        """
        written = self._pid_file.running()
        found = rediscovery.working_in(self.home / "cwd", self._is_service)
        return [written, *(process for process in found if process != written)] if written else found

    def _is_service(self, arguments: Sequence[str]) -> bool:
        return arguments[-4:] == self._serve() and Path(arguments[0]).name == "podman"

    def _serve(self) -> list[str]:
        return ["system", "service", "--time=0", self.url]

    def _end(self, how: signal.Signals, within: timedelta) -> bool:
        processes = self._processes()
        for process in processes:
            process.send(how)
        deadline = time.monotonic() + within.total_seconds()
        while any(process.running for process in processes):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        for process in processes:
            process.reap()
        return bool(processes)

    def _config_variables(self, override: Config, environment: Mapping[str, str]) -> dict[str, str]:
        if self.private:
            return {"CONTAINERS_CONF": self._write("containers.conf", to_toml(override))}
        if (self._facts.podman_version or ()) >= LAYERED_CONFIG_SINCE:
            return {"CONTAINERS_CONF_OVERRIDE": self._write("containers.conf", to_toml(override))}
        whole = merged(host_config(environment, is_root=self._facts.is_root), override)
        return {"CONTAINERS_CONF": self._write("containers.conf", to_toml(whole))}

    def _registries_conf(self, environment: Mapping[str, str]) -> str:
        text = 'unqualified-search-registries = []\nshort-name-mode = "disabled"\n'
        if not self.private:
            own = Path(environment.get("CONTAINERS_REGISTRIES_CONF", "/etc/containers/registries.conf"))
            text = own.read_text() if own.is_file() else ""
        for registry in self._insecure_registries:
            text += f"\n[[registry]]\nlocation = {json.dumps(registry)}\ninsecure = true\n"
        return text

    def _storage_conf(self) -> str:
        driver = "vfs" if _filesystem_of(self.home) == "overlay" else "overlay"
        paths = {"driver": driver, "graphroot": str(self.home / "storage"), "runroot": str(self.home / "run")}
        return to_toml({"storage": paths})

    def _empty_auth_file(self) -> Path:
        path = self.home / "auth.json"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text("{}")
        return path

    def _write(self, name: str, text: str) -> str:
        path = self.home / name
        path.write_text(text)
        return str(path)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def default_sockets(environment: Mapping[str, str], *, is_root: bool) -> list[Path]:
    """Where Podman's own socket is, if the machine has set it up."""
    runtime_dir = environment.get("XDG_RUNTIME_DIR")
    sockets = [Path(runtime_dir, "podman/podman.sock")] if runtime_dir else []
    return [Path("/run/podman/podman.sock")] if is_root else sockets


def find_socket(candidates: Iterable[Path]) -> Path | None:
    """The first socket behind which an engine answers, or None."""
    return next((path for path in candidates if is_answering(path)), None)


def is_answering(path: Path, timeout: timedelta = timedelta(seconds=2)) -> bool:
    """Whether an engine answers on this socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout.total_seconds())
        try:
            connection.connect(os.fspath(path))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            response = http.client.HTTPResponse(connection)
            response.begin()
        except (OSError, http.client.HTTPException):
            return False
        with response:
            return response.status == 200


def _kill_leftovers(containers: set[str]) -> None:
    """Kill what a crashed engine left of these containers: Podman no longer knows such processes."""
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        with suppress(OSError):
            if any(container in group.read_text() for container in containers):
                os.kill(int(group.parent.name), signal.SIGKILL)


def _mounts_below(folder: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted(mount for mount in mounts if Path(mount).is_relative_to(folder))


def _filesystem_of(folder: Path) -> str:
    """The type of the file system that holds a folder."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(point), kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(holding, default=(0, ""))[1]
