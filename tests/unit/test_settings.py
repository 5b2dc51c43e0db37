# SPDX-License-Identifier: Apache-2.0
"""Settings: where they come from, and what is said of a wrong one."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.runtime.problems import SettingsProblem
from perdure.runtime.settings import Settings, valid_host_name


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables but those of the test, an empty home, an empty current folder."""
    for variable in ("PODMAN", "HOST", "FLEET", "GIVE_UP_AFTER", "TEMPORAL_PORT", "LOG_FORMAT"):
        monkeypatch.delenv(f"PERDURE_{variable}", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "perdure.toml"
    file.write_text(text)
    return file


def test_the_defaults_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_HOME")
    settings = Settings.load()
    assert settings.home == Path.home() / ".local/state/perdure"
    assert (settings.fleet, settings.podman, settings.give_up_after) == ("", "", None)


def test_variables_win_over_the_folder_and_the_folder_over_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "home", 'giveUpAfter = "1h"\npullSlots = 7\nfleet = "home"')
    write(tmp_path / "here", 'give_up_after = "2h"\npullSlots = 8')
    monkeypatch.setenv("PERDURE_GIVE_UP_AFTER", "3h")
    settings = Settings.load()
    assert (settings.give_up_after, settings.pull_slots, settings.fleet) == (timedelta(hours=3), 8, "home")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("/run/podman/podman.sock", "unix:///run/podman/podman.sock"),
        ("unix:///run/p.sock", "unix:///run/p.sock"),
        ("http+unix:///run/p.sock", "unix:///run/p.sock"),
        ("", ""),
    ],
)
def test_the_podman_socket_is_a_path_or_a_url(monkeypatch: pytest.MonkeyPatch, given: str, url: str) -> None:
    monkeypatch.setenv("PERDURE_PODMAN", given)
    assert Settings.load().podman == url


@pytest.mark.parametrize(
    ("variable", "value", "cause"),
    [
        ("PERDURE_PODMAN", "tcp://127.0.0.1:80", "tcp:// is not supported"),
        ("PERDURE_PODMAN", "podman.sock", "not an absolute path"),
        ("PERDURE_PODMAN", "/" + "x" * 200, "longer than the 107 bytes"),
        ("PERDURE_HOST", "Edge_1", "not a host name"),
        ("PERDURE_HOST", "a" * 64, "not a host name"),
        ("PERDURE_FLEET", "my fleet", "not the name of a fleet"),
        ("PERDURE_GIVE_UP_AFTER", "2 hours", "not a duration"),
        ("PERDURE_RESYNC_INTERVAL", "9s", "9s is not between 10s and 1d: write, for example, 5m"),
        ("PERDURE_RESYNC_INTERVAL", "2d", "2d is not between 10s and 1d"),
        ("PERDURE_PULL_SLOTS", "0", "greater than or equal to 1"),
        ("PERDURE_TEMPORAL_PORT", "70000", "less than or equal to 65535"),
        ("PERDURE_LOG_FORMAT", "xml", "'auto', 'console' or 'json'"),
        ("PERDURE_HOME", "  ", "it is empty"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, cause: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsProblem, match=rf"^environment variable {variable}: .*{re.escape(cause)}"):
        Settings.load()


def test_a_wrong_key_of_a_file_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "home", 'giveUpAfter = "soon"')
    with pytest.raises(SettingsProblem, match=rf"^{re.escape(str(file))}: giveUpAfter: .*not a duration"):
        Settings.load()


def test_an_unknown_key_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path / "here", "giveUp = 1")
    with pytest.raises(SettingsProblem, match="giveUp: there is no such setting") as caught:
        Settings.load()
    assert "giveUpAfter" in caught.value.hint


@pytest.mark.parametrize("text", ["a = [", "\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "perdure.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsProblem, match=rf"^{re.escape(str(folder / 'perdure.toml'))} cannot be read"):
        Settings.load()


def test_a_child_gets_the_same_settings_wherever_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also those from a file of this folder; what is a default here is left to be one there."""
    write(tmp_path / "here", 'giveUpAfter = "90s"')
    settings = Settings.load(temporal_port=7400)
    environment = settings.as_environment()
    assert environment == {
        "PERDURE_HOME": str(tmp_path / "home"),
        "PERDURE_GIVE_UP_AFTER": "1m30s",
        "PERDURE_TEMPORAL_PORT": "7400",
    }
    monkeypatch.chdir("/")
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert Settings.load() == settings


@pytest.mark.parametrize(
    ("machine", "host"),
    [
        ("edge-1", "edge-1"),
        ("Kiosk_7.example.com", "kiosk-7"),
        ("-", "localhost"),
        ("ü" * 70, "localhost"),
        ("a" * 70, "a" * 63),
    ],
)
def test_the_machines_name_is_made_valid(machine: str, host: str) -> None:
    assert valid_host_name(machine) == host
    assert Settings(host=valid_host_name(machine)).host_name == host
