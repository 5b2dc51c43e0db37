# SPDX-License-Identifier: Apache-2.0
"""How Temporal is found, and what is said when it is not there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.runtime.connect import connect, find_target, fleet_of
from perdure.runtime.problems import SettingsProblem, Unreachable
from perdure.runtime.processes import PidFile, Process
from perdure.runtime.settings import Settings
from perdure.runtime.stack_record import StackRecord, run_folder, write_record
from tests.support.ports import free_port

RECORD = StackRecord(
    temporal_address="127.0.0.1:7400",
    ui_url="http://127.0.0.1:8400",
    fleet="shops",
    host="edge-1",
    podman_url="unix:///p",
)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """A home without a stack, and no word of Temporal in the environment."""
    for variable in [name for name in os.environ if name.startswith(("TEMPORAL_", "PERDURE_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "/dev/null")
    return Settings(home=tmp_path)


def run_stack(home: Path) -> None:
    """Pretend that a stack runs: this process is its server."""
    me = Process.of(os.getpid())
    assert me is not None
    PidFile(run_folder(home) / "temporal.pid").write(me)
    write_record(home, RECORD)


def test_without_anything_it_is_this_machine(settings: Settings) -> None:
    target = find_target(settings)
    assert (target.address, target.fleet, target.ui_url) == ("localhost:7233", "default", None)


def test_the_running_stack_of_the_home_is_the_default(settings: Settings) -> None:
    run_stack(settings.home)
    target = find_target(settings)
    assert (target.address, target.fleet, target.ui_url) == ("127.0.0.1:7400", "shops", "http://127.0.0.1:8400")


def test_the_fleet_is_known_without_its_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host takes care of its containers also when it cannot ask: by the same rules as those for a server that runs."""
    assert fleet_of(settings) == "default"
    write_record(settings.home, RECORD)
    assert fleet_of(settings) == "shops"
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert fleet_of(settings) == find_target(settings).fleet == "default"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "kiosks")
    assert fleet_of(settings) == find_target(settings).fleet == "kiosks"
    other = settings.model_copy(update={"fleet": "ships"})
    assert fleet_of(other) == find_target(other).fleet == "ships"


def test_a_stack_that_is_down_is_not_mistaken_for_another_server(settings: Settings) -> None:
    """Whoever listens at the default address would take what is meant for the stack, and say that it is accepted."""
    run_stack(settings.home)
    gone = Process(os.getpid(), 1, "another boot")
    PidFile(run_folder(settings.home) / "temporal.pid").write(gone)
    with pytest.raises(Unreachable, match=r"the stack in .* does not run"):
        find_target(settings)


def test_temporals_own_configuration_wins(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run_stack(settings.home)
    profile = tmp_path / "temporal.toml"
    profile.write_text('[profile.default]\naddress = "cloud:7233"\nnamespace = "prod"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(profile))
    assert (find_target(settings).address, find_target(settings).fleet) == ("cloud:7233", "prod")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "other:7233")
    assert find_target(settings).address == "other:7233"


def test_the_fleet_of_the_settings_wins(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "prod")
    assert find_target(settings).fleet == "prod"
    assert find_target(Settings(home=settings.home, fleet="mine")).fleet == "mine"


async def test_nobody_listens(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    with pytest.raises(Unreachable, match=f"{address} .*Connection refused") as caught:
        await connect(settings, "test")
    assert "perdure up" in caught.value.hint


async def test_the_name_is_unknown(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "nosuch.invalid:7233")
    with pytest.raises(Unreachable, match=r"nosuch\.invalid:7233 .*lookup"):
        await connect(settings, "test")


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """A server that accepts and says nothing."""
    writers = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.close()


async def test_somebody_listens_and_says_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", silent)
    with pytest.raises(Unreachable, match=r"no answer within 0\.3 s"):
        await connect(settings, "test", timeout=timedelta(milliseconds=300))


@pytest.mark.parametrize("address", ["foo bar:1", "localhost:abc", "localhost:99999", "http://localhost:7233"])
async def test_no_address(settings: Settings, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    with pytest.raises(SettingsProblem, match="is not an address of Temporal") as caught:
        await connect(settings, "test")
    assert caught.value.hint == "Write HOST:PORT."


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TEMPORAL_PROFILE", "nope"), ("TEMPORAL_TLS_SERVER_CA_CERT_PATH", "/nope/ca.pem")],
)
async def test_a_configuration_that_cannot_be_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsProblem, match="nope"):
        await connect(settings, "test")


async def test_a_key_is_never_shown(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("TEMPORAL_API_KEY", "s3cr3t-key")
    with pytest.raises(Unreachable) as caught:
        await connect(settings, "test")
    assert "s3cr3t" not in caught.value.message + caught.value.hint + repr(caught.value.__cause__)
