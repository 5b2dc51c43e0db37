# SPDX-License-Identifier: Apache-2.0
"""From a spec to Podman's JSON: the traps that are known."""

from __future__ import annotations

from datetime import timedelta

import pytest

from activities.engine import EngineFault, Ownership
from activities.podman_spec import SECRETS_FOLDER, create_spec
from perdure.model.faults import FaultKind
from perdure.model.workload import (
    BindMount,
    ContainerSpec,
    PortMapping,
    Resources,
    SecretMount,
    StopOptions,
    TmpfsMount,
    Ulimit,
    VolumeMount,
)

OWNER = Ownership("fleet", "edge-1", "web", "0a" * 16, 3, "abcd", "{}", "shop")
IMAGE = "localhost/app:1"


def test_a_bare_spec_says_nothing_that_the_image_says() -> None:
    """Command, entrypoint, user, directory and name are the image's or Podman's."""
    body = create_spec("web-g3", ContainerSpec(image=IMAGE), OWNER)
    assert not {"command", "entrypoint", "user", "work_dir", "hostname", "netns", "healthconfig"} & body.keys()
    assert body["restart_policy"] == "no"


def test_labels_of_a_user_cannot_replace_ours() -> None:
    """Or a manifest could steal another fleet's container."""
    body = create_spec("web-g3", ContainerSpec(image=IMAGE, labels={"dev.perdure.host": "x", "a": "b"}), OWNER)
    assert body["labels"]["dev.perdure.host"] == "edge-1"
    assert body["labels"]["a"] == "b"


def test_an_empty_entrypoint_takes_the_images_away() -> None:
    """Podman takes an empty list for none given."""
    assert create_spec("x", ContainerSpec(image=IMAGE, entrypoint=()), OWNER)["entrypoint"] == [""]


def test_one_volume_may_be_mounted_twice() -> None:
    """podman-py keys volumes by name."""
    mounts = (VolumeMount(source="v", target="/a"), VolumeMount(source="v", target="/b", read_only=True))
    assert create_spec("x", ContainerSpec(image=IMAGE, mounts=mounts), OWNER)["volumes"] == [
        {"Name": "v", "Dest": "/a", "Options": ["rw"]},
        {"Name": "v", "Dest": "/b", "Options": ["ro"]},
    ]


def test_processor_time_is_a_quota() -> None:
    """``cpus`` and ``nano_cpus`` are ignored by the API."""
    limits = create_spec("x", ContainerSpec(image=IMAGE, resources=Resources(cpus=1.5)), OWNER)["resource_limits"]
    assert limits == {"cpu": {"period": 100_000, "quota": 150_000}}


@pytest.mark.parametrize(("name", "number"), [("SIGTERM", 15), ("TERM", 15), ("sigint", 2), ("9", 9)])
def test_a_signal_is_a_number(name: str, number: int) -> None:
    """Podman's JSON takes no name."""
    spec = ContainerSpec(image=IMAGE, stop=StopOptions(signal=name, timeout=timedelta(seconds=2.4)))
    body = create_spec("x", spec, OWNER)
    assert (body["stop_signal"], body["stop_timeout"]) == (number, 2)


def test_an_unknown_signal_is_a_fault() -> None:
    """Not a KeyError."""
    with pytest.raises(EngineFault) as raised:
        create_spec("x", ContainerSpec(image=IMAGE, stop=StopOptions(signal="SIGFOO")), OWNER)
    assert raised.value.fault.kind is FaultKind.INVALID_OPTION


def test_mounts_in_podmans_words() -> None:
    """Binds, memory and relabelling."""
    mounts = (
        BindMount(source="/a", target="/b", read_only=True, relabel="private"),
        TmpfsMount(target="/t", size=1024, mode=0o700),
    )
    assert create_spec("x", ContainerSpec(image=IMAGE, mounts=mounts), OWNER, [("/host", "/etc/x")])["mounts"] == [
        {"type": "bind", "source": "/a", "destination": "/b", "options": ["rbind", "ro", "Z"]},
        {"type": "tmpfs", "source": "tmpfs", "destination": "/t", "options": ["size=1024", "mode=0700"]},
        {"type": "bind", "source": "/host", "destination": "/etc/x", "options": ["rbind", "ro"]},
    ]


@pytest.mark.parametrize(
    ("options", "has_room"),
    [
        ({"read_only": True, "secrets": (SecretMount(name="s"),)}, True),
        ({"read_only": False, "secrets": (SecretMount(name="s"),)}, False),
        ({"read_only": True, "secrets": (SecretMount(name="s", env="S"),)}, False),
        ({"read_only": True, "secrets": (SecretMount(name="s", target="/tmp/s"),)}, False),
        (
            {"read_only": True, "secrets": (SecretMount(name="s"),), "mounts": (TmpfsMount(target=SECRETS_FOLDER),)},
            False,
        ),
        ({"read_only": True}, False),
    ],
)
def test_a_read_only_container_gets_room_for_its_secrets(options: dict[str, object], has_room: bool) -> None:
    """Podman 4.3 cannot make the file otherwise."""
    body = create_spec("x", ContainerSpec.model_validate({"image": IMAGE, **options}), OWNER)
    added = [mount for mount in body["mounts"] if mount.get("options") == ["size=1m", "mode=0755"]]
    assert bool(added) is has_room


def test_networks_are_modes_or_names() -> None:
    """``host`` and ``none`` alone are modes."""

    def network(*names: str) -> tuple[object, object]:
        body = create_spec("x", ContainerSpec(image=IMAGE, networks=names), OWNER)
        return body.get("netns"), body.get("networks")

    assert network() == (None, None)
    assert network("host") == ({"nsmode": "host"}, None)
    assert network("none") == ({"nsmode": "none"}, None)
    assert network("a", "b") == ({"nsmode": "bridge"}, {"a": {}, "b": {}})


def test_the_rest_in_podmans_words() -> None:
    """Ports, limits and hosts."""
    spec = ContainerSpec(
        image=IMAGE,
        ports=(PortMapping(container=80, host=8080, protocol="udp", ip="127.0.0.1"),),
        ulimits={"nofile": Ulimit(soft=1, hard=2)},
        extra_hosts={"db": "10.0.0.1"},
    )
    body = create_spec(
        "x", spec, OWNER, more_ulimits={"nofile": Ulimit(soft=9, hard=9), "nproc": Ulimit(soft=3, hard=4)}
    )
    assert body["portmappings"] == [
        {"container_port": 80, "host_port": 8080, "protocol": "udp", "host_ip": "127.0.0.1"}
    ]
    assert body["hostadd"] == ["db:10.0.0.1"]
    assert sorted(body["r_limits"], key=lambda limit: str(limit["type"])) == [
        {"type": "nofile", "soft": 1, "hard": 2},
        {"type": "nproc", "soft": 3, "hard": 4},
    ]
