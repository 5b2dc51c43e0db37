# SPDX-License-Identifier: Apache-2.0
"""The pinned requirements are those of pyproject.toml, whole, and the same wherever they are installed from."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
USERS = PROJECT["project"]["dependencies"]
BUILD = PROJECT["dependency-groups"]["build"]
DEVELOPMENT = [entry for entry in PROJECT["dependency-groups"]["dev"] if isinstance(entry, str)]
FILES = {
    "requirements.txt": USERS,
    "requirements-build.txt": BUILD,
    "requirements-dev.txt": USERS + BUILD + DEVELOPMENT,
}


def pins(file: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package."""
    found: dict[str, tuple[str, int]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / file).read_text()):
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", entry):
            found[canonicalize_name(match[1])] = (match[2], entry.count("--hash=sha256:"))
    return found


@pytest.mark.parametrize("file", FILES)
def test_every_declared_dependency_is_pinned_within_its_range(file: str) -> None:
    """Else `make lock` was forgotten."""
    pinned = pins(file)
    for declared in map(Requirement, FILES[file]):
        version, _ = pinned[canonicalize_name(declared.name)]
        assert declared.specifier.contains(version), f"{declared} is pinned at {version}: run `make lock`"


@pytest.mark.parametrize("file", FILES)
def test_every_pin_has_hashes(file: str) -> None:
    assert [name for name, (_, hashes) in pins(file).items() if not hashes] == []


@pytest.mark.parametrize("file", FILES)
def test_no_place_to_install_from_is_prescribed(file: str) -> None:
    assert "://" not in (ROOT / file).read_text()


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-build.txt"])
def test_development_runs_what_users_run(file: str) -> None:
    users, development = pins(file), pins("requirements-dev.txt")
    assert {name: development[name] for name in users} == users


def test_wheel_is_built_with_what_is_pinned() -> None:
    assert PROJECT["build-system"]["requires"] == BUILD
