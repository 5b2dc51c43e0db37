# SPDX-License-Identifier: Apache-2.0
"""Which settings Podman gets on which machine."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runtime.podman_settings import (
    CgroupLayout,
    Config,
    MachineFacts,
    cgroup_layout,
    effective_capabilities,
    host_config,
    merged,
    probe_machine,
    service_settings,
    to_toml,
)

FEDORA = MachineFacts(podman_version=(5, 6, 2))
DEBIAN = MachineFacts(podman_version=(4, 3, 1), runtimes=frozenset({"crun", "runc"}))
WITHOUT_SYSTEMD = {"cgroup_manager": "cgroupfs", "events_logger": "file"}


@pytest.mark.parametrize(
    ("facts", "override"),
    [
        pytest.param(FEDORA, {"network": {"network_backend": "netavark"}}, id="fedora"),
        pytest.param(replace(FEDORA, has_cni=True), {}, id="a host with both network backends keeps its own choice"),
        pytest.param(replace(DEBIAN, has_cni=True), {}, id="debian with crun and runc keeps its own choice"),
        pytest.param(
            replace(DEBIAN, has_cni=True, cgroups=CgroupLayout.HYBRID), {}, id="hybrid cgroups under systemd work"
        ),
        pytest.param(
            replace(DEBIAN, has_cni=True, cgroups=CgroupLayout.HYBRID, has_systemd=False),
            {"engine": {"runtime": "runc", **WITHOUT_SYSTEMD}},
            id="hybrid cgroups without systemd",
        ),
        pytest.param(
            replace(DEBIAN, has_cni=True, may_raise_limits=False, open_files_limit=20000, processes_limit=32768),
            {
                "containers": {"default_ulimits": ["nofile=20000:20000", "nproc=32768:32768"]},
                "engine": {"runtime": "runc"},
            },
            id="without CAP_SYS_RESOURCE",
        ),
        pytest.param(
            replace(FEDORA, has_cni=True, may_raise_limits=False, has_systemd=False),
            {"engine": WITHOUT_SYSTEMD},
            id="limits that are high enough, and only crun",
        ),
        pytest.param(
            replace(FEDORA, has_cni=True, is_root=False, may_raise_limits=False, open_files_limit=1024),
            {},
            id="a user without root: Podman lowers the limits by itself",
        ),
    ],
)
def test_only_what_does_not_work_is_overridden(facts: MachineFacts, override: Config) -> None:
    """A host where Podman's own settings work keeps every one of them."""
    settings = service_settings(facts)
    assert settings.override == override
    assert len(settings.reasons) == sum(len(table) for table in override.values())
    assert not settings.warnings
    assert not settings.problem


def test_without_podman_there_is_a_problem_and_no_override() -> None:
    """Nothing is decided for a machine that cannot run the service."""
    settings = service_settings(MachineFacts(podman_version=None))
    assert settings.problem == "Podman is not installed"
    assert not settings.override


def test_a_private_storage_keeps_its_locks_in_files() -> None:
    """The default locks are shared by all Podman instances of the machine."""
    assert service_settings(FEDORA, private=True).override["engine"]["lock_type"] == "file"


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        (replace(FEDORA, runtimes=frozenset()), "crun or runc"),
        (replace(FEDORA, has_netavark=False), "netavark"),
        (replace(FEDORA, has_iptables=False), "iptables"),
    ],
)
def test_what_is_missing_is_told(facts: MachineFacts, missing: str) -> None:
    """A warning names what to install, and the service starts all the same."""
    settings = service_settings(facts)
    assert [warning for warning in settings.warnings if missing in warning]
    assert not settings.problem


@given(
    st.builds(
        MachineFacts,
        podman_version=st.sampled_from([(4, 3, 1), (4, 6, 0), (5, 6, 2)]),
        cgroups=st.sampled_from(CgroupLayout),
        runtimes=st.frozensets(st.sampled_from(["crun", "runc"])),
        open_files_limit=st.integers(0, 2**20),
        processes_limit=st.integers(0, 2**20),
    ),
    st.booleans(),
)
def test_every_override_can_be_written_and_has_a_reason(facts: MachineFacts, private: bool) -> None:
    """Whatever the machine, what is written is valid TOML that says the same, and never names an absent runtime."""
    settings = service_settings(facts, private=private)
    assert tomllib.loads(to_toml(settings.override)) == settings.override
    assert len(settings.reasons) == sum(len(table) for table in settings.override.values())
    assert settings.override.get("engine", {}).get("runtime") in {None, *facts.runtimes}


def test_a_layout_of_cgroups_is_read_from_the_mounts() -> None:
    """The four layouts that machines have."""
    v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
    v2 = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    layouts = [cgroup_layout(mounts) for mounts in (v1, v2, v1 + v2, "proc /proc proc rw 0 0\n")]
    assert layouts == [CgroupLayout.V1, CgroupLayout.V2, CgroupLayout.HYBRID, CgroupLayout.NONE]


def test_capabilities_are_read_from_the_status() -> None:
    """The effective mask counts, not the bounding one."""
    status = "Name:\tx\nCapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n"
    assert effective_capabilities(status) == 0x1FFFEFFFFFF


def test_the_last_configuration_wins_key_by_key() -> None:
    """As Podman lays its own files over each other."""
    host: Config = {"engine": {"runtime": "crun", "num_locks": 4096}, "network": {"dns_bind_port": 53}}
    assert merged(host, {"engine": {"runtime": "runc"}}) == {
        "engine": {"runtime": "runc", "num_locks": 4096},
        "network": {"dns_bind_port": 53},
    }


def test_the_hosts_own_file_survives_the_merge(tmp_path: Path) -> None:
    """Nested tables, lists, numbers and odd keys come through a file that Podman reads instead of its own ones."""
    text = """
    [containers]
    default_capabilities = ["CHOWN", "KILL"]
    tz = "Europe/Zürich"
    [engine]
    num_locks = 4096
    image_parallel_copies = 0
    no_pivot_root = false
    [engine.runtimes]
    "my.runtime" = ["/usr/bin/runc"]
    """
    file = tmp_path / "containers.conf"
    file.write_text(text)
    read = host_config({"CONTAINERS_CONF": str(file)}, is_root=True)
    assert tomllib.loads(to_toml(read)) == tomllib.loads(text)


def test_this_machine_can_be_probed() -> None:
    """The probe answers on any Linux machine, with or without Podman."""
    facts = probe_machine()
    assert facts.open_files_limit > 0
    assert facts.processes_limit > 0
