# SPDX-License-Identifier: Apache-2.0
"""Small images made on the spot from a static busybox: no internet, no build tool, 0.2 s each."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from activities.architecture import our_architecture
from tests.support.podman import IsolatedPodman

OBEDIENT: Final = 'trap "echo stopping; exit 0" TERM INT; echo started; while :; do sleep 3600 & wait $!; done'
"""Writes a line, sleeps, and ends at once on SIGTERM."""
STUBBORN: Final = 'trap "" TERM; echo started; while :; do sleep 1; done'
"""Ignores SIGTERM."""

PASSWD: Final = "root:x:0:0:root:/:/bin/sh\napp:x:1000:1000:app:/:/bin/sh\n"
GROUP: Final = "root:x:0:\napp:x:1000:\n"


def busybox() -> Path:
    """The static busybox of this machine (Debian: package ``busybox-static``)."""
    if (found := shutil.which("busybox")) is None:
        raise FileNotFoundError("busybox is not installed: apt-get install busybox-static")
    return Path(found)


def applets() -> list[str]:
    """The commands that this busybox knows."""
    listed = subprocess.run([busybox(), "--list"], check=True, capture_output=True, text=True).stdout
    return [applet for applet in listed.split() if applet != "busybox"]


def rootfs(programs: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    """A tar archive of a root file system: programs and symbolic links by path, with users and a /tmp."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)
        files = {"etc/passwd": (PASSWD.encode(), 0o644), "etc/group": (GROUP.encode(), 0o644)}
        files |= {path: (data, 0o755) for path, data in programs.items()}
        for path, (data, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return archive.getvalue()


def libraries_of(program: Path) -> list[Path]:
    """The shared libraries that a program is loaded with; none for a static one."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", listed)]


class Images:
    """Makes images in one Podman, and pushes them to registries."""

    def __init__(self, podman: IsolatedPodman) -> None:
        self._podman = podman

    def make(
        self,
        name: str,
        command: Sequence[str] = ("sh", "-c", OBEDIENT),
        *,
        architecture: str | None = None,
        extra: Mapping[str, bytes] | None = None,
        changes: Sequence[str] = (),
    ) -> str:
        """Make an image ``localhost/NAME`` that runs a command, and return its reference.

        Args:
            name: name with tag, for example ``obedient:1``.
            command: what it runs.
            architecture: what the image claims to be, for example ``arm64``.
            extra: more files by path, executable.
            changes: more Dockerfile instructions, for example ``EXPOSE 80/tcp``.
        """
        programs = {"bin/busybox": busybox().read_bytes(), **(extra or {})}
        links = {f"bin/{applet}": "busybox" for applet in applets()}
        instructions = [f"CMD {json.dumps(list(command))}", "ENV PATH=/bin", *changes]
        return self._import(name, rootfs(programs, links), instructions, architecture)

    def server(
        self, name: str, program: Path, arguments: Sequence[str], *, port: int, extra: Mapping[str, bytes]
    ) -> str:
        """Make an image of one program of this machine, with the libraries that it needs and nothing else."""
        files = {str(path.relative_to("/")): path.read_bytes() for path in libraries_of(program)}
        files |= {program.name: program.read_bytes(), **extra}
        entrypoint = json.dumps([f"/{program.name}", *arguments])
        instructions = [f"ENTRYPOINT {entrypoint}", f"EXPOSE {port}/tcp", "ENV HOME=/tmp"]
        return self._import(name, rootfs(files), instructions, None)

    def _import(self, name: str, archive: bytes, instructions: Sequence[str], architecture: str | None) -> str:
        reference = f"localhost/{name}"
        options = [option for instruction in instructions for option in ("--change", instruction)]
        if architecture:
            options += ["--arch", architecture]
        self._podman.cli("import", "--quiet", *options, "-", reference, stdin=archive)
        return reference

    def checked(self, name: str, test: Sequence[str]) -> str:
        """Like ``obedient``, with a healthcheck of its own, as Docker writes it. ``podman import`` cannot make such a one."""
        layer = rootfs({"bin/busybox": busybox().read_bytes()}, {f"bin/{applet}": "busybox" for applet in applets()})
        config = {
            "architecture": our_architecture(),
            "os": "linux",
            "config": {"Cmd": ["sh", "-c", OBEDIENT], "Env": ["PATH=/bin"], "Healthcheck": {"Test": list(test)}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [f"localhost/{name}"], "Layers": ["layer.tar"]}]
        parts = {
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
        archive = self._podman.service.home / "checked.tar"
        with tarfile.open(archive, "w") as tar:
            for path, data in parts.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        self._podman.cli("load", "--quiet", f"--input={archive}")
        return f"localhost/{name}"

    def obedient(self, tag: str = "1") -> str:
        """Writes "started", sleeps, ends at once on SIGTERM with code 0."""
        return self.make(f"obedient:{tag}", extra={"tag": tag.encode()})

    def stubborn(self) -> str:
        """Writes "started" and ignores SIGTERM."""
        return self.make("stubborn:1", ("sh", "-c", STUBBORN))

    def exiting(self, code: int) -> str:
        """Writes "started" and ends with a code."""
        return self.make(f"exiting:{code}", ("sh", "-c", f"echo started; exit {code}"))

    def foreign(self) -> str:
        """Claims to be for arm64."""
        return self.make("foreign:1", architecture="arm64", extra={"tag": b"arm64"})

    def large(self, mebibytes: int) -> str:
        """Carries that much data which cannot be compressed, for slow pulls."""
        return self.make(f"large:{mebibytes}", extra={"ballast": os.urandom(mebibytes << 20)})

    def push(
        self, image: str, destination: str, *, credentials: tuple[str, str] | None = None, ca: Path | None = None
    ) -> str:
        """Push a local image as ``destination`` (``host:port/repository:tag``), and return the manifest's digest."""
        return self._push(["push"], image, destination, credentials, ca)

    def push_index(self, images: Sequence[str], destination: str) -> str:
        """Push an image index that lists these images, each for its own architecture, and return its digest."""
        index = f"localhost/index-{os.urandom(4).hex()}:1"
        self._podman.cli("manifest", "create", index)
        for image in images:
            self._podman.cli("manifest", "add", index, f"containers-storage:{image}")
        digest = self._push(["manifest", "push", "--all"], index, destination, None, None)
        self._podman.cli("manifest", "rm", index)
        return digest

    def forget(self, image: str) -> None:
        """Remove an image, and the containers that use it, so that it must be pulled again."""
        self._podman.cli("image", "rm", "--force", "--ignore", image)

    def _push(
        self,
        how: list[str],
        image: str,
        destination: str,
        credentials: tuple[str, str] | None,
        ca: Path | None,
    ) -> str:
        digest_file = self._podman.service.home / "pushed-digest"
        options = ["--quiet", f"--digestfile={digest_file}"]
        options += [f"--cert-dir={ca.parent}"] if ca else ["--tls-verify=false"]
        if credentials:
            options += ["--creds", ":".join(credentials)]
        self._podman.cli(*how, *options, image, f"docker://{destination}")
        return digest_file.read_text().strip()
