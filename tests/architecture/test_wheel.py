# SPDX-License-Identifier: Apache-2.0
"""What a user installs: the wheel, alone in a fresh virtual environment."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import perdure
from tests.architecture.repository import PRODUCT, ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the working tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment that holds the wheel.

    Its dependencies are those of this environment, added as a path: that way nothing is downloaded, and the working tree,
    which stands in a .pth file here, stays out of reach.
    """
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, symlinks=True, with_pip=False)
    variables = {"base": str(home), "platbase": str(home)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = home / "bin/python"
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--no-index"),
        *("--python", str(python), str(wheel)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return home / "bin"


def test_wheel_holds_the_product_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {str(path) for path in tracked(*PRODUCT) if path.suffix == ".py" or path.name == "py.typed"}
    assert names == expected


def test_wheel_carries_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_command_line_of_the_wheel_tells_its_version(installed: Path) -> None:
    done = subprocess.run([installed / "perdure", "version"], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert perdure.__version__ in done.stdout


def test_worker_of_the_wheel_tells_its_options(installed: Path) -> None:
    done = subprocess.run(
        [installed / "perdure-worker", "--help"], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--host" in done.stdout


def test_every_module_of_the_wheel_can_be_imported(installed: Path) -> None:
    """Without the working tree: no module leans on a file that is not shipped."""
    modules = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in tracked(*PRODUCT)
        if path.suffix == ".py"
    ]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    command = [str(installed / "python"), "-c", program, *modules]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
