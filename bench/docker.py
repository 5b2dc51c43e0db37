# SPDX-License-Identifier: Apache-2.0
"""A Docker of the benchmark's own: containerd and dockerd in a folder, with nothing of the machine's Docker in it.

``dockerd --restart=always`` and Docker Swarm get one each. Networks are the host's, as for everybody here: so dockerd needs
neither a bridge nor iptables.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from bench import cpu
from bench.waiting import until
from perdure.runtime.processes import PidFile, Process, start_detached

ADMINISTRATOR: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
ANSWER_SECONDS: Final = 30
RECOVERY_SECONDS: Final = 180
"""After dockerd was killed: it first ends what ran, one container after the other."""
GRACE_SECONDS: Final = 20


class NoDocker(Exception):
    """It cannot be run here; the text says why."""


class Docker:
    """One containerd and one dockerd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = httpx.Client(
            base_url="http://docker/v1.41",
            transport=httpx.HTTPTransport(uds=str(folder / "docker.sock")),
            timeout=60,
            trust_env=False,
        )
        self._daemon = PidFile(folder / "dockerd.pid")
        self._containerd = PidFile(folder / "containerd.pid")

    async def start(self) -> None:
        """Start both, and wait until they answer. Raises NoDocker."""
        for program in ("containerd", "dockerd", "docker"):
            if shutil.which(program, path=ADMINISTRATOR) is None:
                raise NoDocker(f"{program} is not installed")
        if os.geteuid() != 0:
            raise NoDocker("dockerd needs root")
        self.folder.mkdir(parents=True)
        # The machine may not let us make ourselves harder to kill than others: both are told not to try.
        configuration = (
            f'version = 2\nroot = "{self.folder}/containerd/root"\nstate = "{self.folder}/containerd/state"\n'
            'oom_score = 0\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\n  address = "{self._socket}"\n'
        )
        (self.folder / "containerd.toml").write_text(configuration)
        (self.folder / "daemon.json").write_text("{}")
        containerd = ["containerd", "--config", str(self.folder / "containerd.toml"), "--log-level", "warn"]
        self._run(containerd, self._containerd)
        await until(self._socket.exists, "containerd", within_seconds=ANSWER_SECONDS)
        await self.start_daemon()

    async def start_daemon(self, within_seconds: float = ANSWER_SECONDS) -> Process:
        """Start dockerd, and wait until it answers. Raises NoDocker."""
        command = ["dockerd", "--containerd", str(self._socket), "--host", f"unix://{self.folder / 'docker.sock'}"]
        command += ["--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")]
        command += ["--pidfile", str(self.folder / "own.pid"), "--config-file", str(self.folder / "daemon.json")]
        command += ["--oom-score-adjust=0", "--bridge=none", "--iptables=false", "--ip-masq=false", "--log-level=warn"]
        process = self._run(command, self._daemon)
        try:
            await until(lambda: not process.running or self._is_answering(), "dockerd", within_seconds=within_seconds)
        except TimeoutError:
            raise NoDocker(f"dockerd does not answer: {self._last_words()}") from None
        if not process.running:
            process.reap()
            raise NoDocker(f"dockerd ended at once: {self._last_words()}")
        return process

    async def kill_daemon(self) -> None:
        """Kill -9 dockerd; containerd goes on."""
        process = self._daemon.running()
        if process is not None:
            process.send(signal.SIGKILL)
            await process.ended()
        (self.folder / "own.pid").unlink(missing_ok=True)

    async def destroy(self) -> None:
        """End all that was started, and remove all that was made. Works after a crash of any part, too."""
        self.client.close()
        for pid_file in (self._daemon, self._containerd):
            if (process := pid_file.running()) is not None:
                await process.stop(GRACE_SECONDS)
                process.reap()
        for monitor in cpu.monitors(self.folder):
            for pid in (*cpu.children(monitor), monitor):
                if (leftover := Process.of(pid)) is not None:
                    leftover.send(signal.SIGKILL)
        await asyncio.to_thread(_remove, self.folder)

    def import_image(self, rootfs: bytes, name: str) -> None:
        """Make an image of one layer."""
        self.command("import", "--change", "ENV PATH=/bin", "-", name, stdin=rootfs)

    def command(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run Docker's command line, as a person would."""
        program = shutil.which("docker", path=ADMINISTRATOR) or "docker"
        command = [program, "--host", f"unix://{self.folder / 'docker.sock'}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout.decode().strip()

    def get(self, path: str, filters: Mapping[str, list[str]] | None = None) -> Any:
        """Ask the API."""
        parameters = {"filters": json.dumps(filters)} if filters else {}
        return self.client.get(path, params=parameters).raise_for_status().json()

    def post(self, path: str, body: object = None, **parameters: str) -> Any:
        """Tell the API."""
        answer = self.client.post(path, json=body, params=parameters).raise_for_status()
        return answer.json() if answer.content else None

    def cpu(self) -> dict[str, float]:
        """CPU seconds of both daemons, and of the containers with their monitors."""
        own = {"dockerd": self._daemon.running(), "containerd": self._containerd.running()}
        used = {name: cpu.cpu_seconds(process.pid) for name, process in own.items() if process is not None}
        return used | {"containers": cpu.cpu_seconds_of_containers(self.folder)}

    def memory(self) -> float:
        """MiB of both daemons and the monitors."""
        own = {process.pid for file in (self._daemon, self._containerd) if (process := file.running()) is not None}
        return cpu.memory_mib(own | cpu.monitors(self.folder))

    @property
    def _socket(self) -> Path:
        return self.folder / "containerd.sock"

    def _run(self, command: list[str], pid_file: PidFile) -> Process:
        program = shutil.which(command[0], path=ADMINISTRATOR) or command[0]
        environment = {**os.environ, "PATH": ADMINISTRATOR}
        log = self.folder / f"{command[0]}.log"
        return start_detached([program, *command[1:]], pid_file=pid_file, log=log, environment=environment)

    def _is_answering(self) -> bool:
        try:
            return self.client.get("/_ping", timeout=2).is_success
        except httpx.HTTPError:
            return False

    def _last_words(self) -> str:
        lines = (self.folder / "dockerd.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _remove(folder: Path) -> None:
    for mount in reversed(_mounts_below(folder)):
        subprocess.run(["umount", "-l", mount], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _mounts_below(folder: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted(mount for mount in mounts if Path(mount).is_relative_to(folder))
