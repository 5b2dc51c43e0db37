# SPDX-License-Identifier: Apache-2.0
"""From what a user writes to the normal form: short and long forms, defaults, hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from perdure.model.container_entry import RLIM_INFINITY
from perdure.model.manifest import Manifest
from perdure.model.workload import (
    BindMount,
    ContainerSpec,
    DependencyCondition,
    File,
    Healthcheck,
    PortMapping,
    PullPolicy,
    Resources,
    RestartBackoff,
    RestartPolicy,
    Retry,
    SecretMount,
    StopOptions,
    TmpfsMount,
    Ulimit,
    VolumeMount,
    WorkloadSpec,
)
from perdure.model.workload_entry import WorkloadEntry
from tests.unit.manifests import IMAGE, complaints, document, spec_of


def test_the_smallest_workload_is_an_image_on_a_host() -> None:
    (target,) = Manifest.model_validate(document()).targets()
    assert (target.host, target.name) == ("edge-1", "web")
    assert target.spec == WorkloadSpec(container=ContainerSpec(image=IMAGE))


def test_every_key_arrives_in_the_normal_form() -> None:
    """One value for each key, none of them its default."""
    spec = spec_of(
        pullPolicy="newer",
        entrypoint=["/bin/sh"],
        command=["-c", "true"],
        environment={"PORT": "8080"},
        ports=["8080:80"],
        mounts=["cache:/var/cache"],
        files=[{"path": "/etc/web.conf", "content": "x", "mode": "0600"}],
        secrets=["db-password"],
        networks=["shop"],
        user="1000",
        workingDir="/srv",
        hostname="web",
        init=True,
        readOnly=True,
        privileged=True,
        capAdd=["NET_ADMIN"],
        capDrop=["ALL"],
        devices=["/dev/fuse"],
        ulimits={"nofile": 1024},
        sysctls={"net.core.somaxconn": 1024},
        extraHosts={"db": "192.0.2.7"},
        dns=["192.0.2.53"],
        labels={"a": "b"},
        annotations={"c": "d"},
        resources={"memory": "128Mi", "cpus": 0.5, "pids": 200},
        healthcheck={"test": ["CMD", "true"], "interval": "10s", "timeout": "5s", "retries": 2, "startPeriod": "1s"},
        stop={"signal": "int", "timeout": "20s"},
        dependsOn={"edge-2/db": "healthy"},
        restart="onFailure",
        restartBackoff={"initial": "2s", "maximum": "60s", "resetAfter": "5m", "limit": 7},
        retry={"initialInterval": "1s", "maximumInterval": "60s", "giveUpAfter": "2h"},
        tags={"team": "shop"},
    )
    assert spec == WorkloadSpec(
        container=ContainerSpec(
            image=IMAGE,
            entrypoint=("/bin/sh",),
            command=("-c", "true"),
            environment={"PORT": "8080"},
            ports=(PortMapping(container=80, host=8080),),
            mounts=(VolumeMount(source="cache", target="/var/cache"),),
            files=(File(path="/etc/web.conf", content="x", mode=0o600),),
            secrets=(SecretMount(name="db-password"),),
            networks=("shop",),
            user="1000",
            working_dir="/srv",
            hostname="web",
            init=True,
            read_only=True,
            privileged=True,
            cap_add=("NET_ADMIN",),
            cap_drop=("ALL",),
            devices=("/dev/fuse",),
            ulimits={"nofile": Ulimit(soft=1024, hard=1024)},
            sysctls={"net.core.somaxconn": "1024"},
            extra_hosts={"db": "192.0.2.7"},
            dns=("192.0.2.53",),
            labels={"a": "b"},
            annotations={"c": "d"},
            resources=Resources(memory=128 * 2**20, cpus=0.5, pids=200),
            healthcheck=Healthcheck(
                test=("CMD", "true"),
                interval=timedelta(seconds=10),
                timeout=timedelta(seconds=5),
                retries=2,
                start_period=timedelta(seconds=1),
            ),
            stop=StopOptions(signal="SIGINT", timeout=timedelta(seconds=20)),
        ),
        pull_policy=PullPolicy.NEWER,
        depends_on={"edge-2/db": DependencyCondition.HEALTHY},
        restart=RestartPolicy.ON_FAILURE,
        restart_backoff=RestartBackoff(
            initial=timedelta(seconds=2), maximum=timedelta(minutes=1), reset_after=timedelta(minutes=5), limit=7
        ),
        retry=Retry(
            initial_interval=timedelta(seconds=1),
            maximum_interval=timedelta(minutes=1),
            give_up_after=timedelta(hours=2),
        ),
        tags={"team": "shop"},
    )


def test_every_field_of_the_normal_form_can_be_written() -> None:
    """A new field of a spec needs a key in the manifest."""
    other_names = {"on_unhealthy": "restart_unhealthy"}
    written = {other_names.get(name, name) for name in WorkloadEntry.model_fields} - {"host", "hosts"}
    assert written == set(ContainerSpec.model_fields) | set(WorkloadSpec.model_fields) - {"container"}


def test_what_is_left_out_has_the_default_of_the_normal_form() -> None:
    """The two lists of defaults must not drift apart."""
    spec = spec_of(resources={}, stop={}, restartBackoff={}, retry={}, healthcheck={"test": ["NONE"]})
    bare = ContainerSpec(image=IMAGE, healthcheck=Healthcheck(test=("NONE",)))
    assert spec == WorkloadSpec(container=bare)


@pytest.mark.parametrize(("written", "restarted"), [(..., False), ("none", False), ("restart", True)])
def test_what_is_unhealthy_is_restarted_on_request_alone(written: Any, restarted: bool) -> None:
    """Without a healthcheck in the manifest, too: the image may have one."""
    assert spec_of(onUnhealthy=written).restart_unhealthy is restarted


@pytest.mark.parametrize(
    ("written", "port"),
    [
        ("8080:80", PortMapping(host=8080, container=80)),
        ("2122:22", PortMapping(host=2122, container=22)),
        ("8080:80/udp", PortMapping(host=8080, container=80, protocol="udp")),
        ("127.0.0.1:53:53/udp", PortMapping(host=53, container=53, protocol="udp", ip="127.0.0.1")),
        ("[::1]:80:8080", PortMapping(host=80, container=8080, ip="::1")),
        ("[2001:DB8:0::1]:80:80/sctp", PortMapping(host=80, container=80, protocol="sctp", ip="2001:db8::1")),
        ("0.0.0.0:1:65535", PortMapping(host=1, container=65535, ip="0.0.0.0")),
        ({"host": 1, "container": 2}, PortMapping(host=1, container=2)),
        (
            {"host": 1, "container": 2, "protocol": "udp", "ip": "127.0.0.1"},
            PortMapping(host=1, container=2, protocol="udp", ip="127.0.0.1"),
        ),
    ],
    ids=repr,
)
def test_a_port_is_a_text_or_an_object(written: Any, port: PortMapping) -> None:
    assert spec_of(ports=[written]).container.ports == (port,)


@pytest.mark.parametrize(
    ("written", "mount"),
    [
        ("/srv/web:/data", BindMount(source="/srv/web", target="/data")),
        ("/srv/web:/data:ro", BindMount(source="/srv/web", target="/data", read_only=True)),
        ("/srv/web:/data:rw,z", BindMount(source="/srv/web", target="/data", relabel="shared")),
        ("/srv/web:/data:Z,ro", BindMount(source="/srv/web", target="/data", read_only=True, relabel="private")),
        ("cache:/var/cache", VolumeMount(source="cache", target="/var/cache")),
        ("cache:/var/cache:ro", VolumeMount(source="cache", target="/var/cache", read_only=True)),
        ({"type": "bind", "source": "/a:b", "target": "/c"}, BindMount(source="/a:b", target="/c")),
        (
            {"type": "volume", "source": "v", "target": "/v", "readOnly": True},
            VolumeMount(source="v", target="/v", read_only=True),
        ),
        ({"type": "tmpfs", "target": "/tmp"}, TmpfsMount(target="/tmp")),
        (
            {"type": "tmpfs", "target": "/tmp", "size": "64Mi", "mode": "1777"},
            TmpfsMount(target="/tmp", size=64 * 2**20, mode=0o1777),
        ),
    ],
    ids=repr,
)
def test_a_mount_is_a_text_or_an_object(written: Any, mount: object) -> None:
    assert spec_of(mounts=[written]).container.mounts == (mount,)


@pytest.mark.parametrize(
    ("written", "secret"),
    [
        ("db", SecretMount(name="db")),
        ({"name": "db"}, SecretMount(name="db")),
        ({"name": "db", "target": "/run/db"}, SecretMount(name="db", target="/run/db")),
        ({"name": "db", "env": "DB"}, SecretMount(name="db", env="DB")),
    ],
    ids=repr,
)
def test_a_secret_is_a_name_or_an_object(written: Any, secret: SecretMount) -> None:
    assert spec_of(secrets=[written]).container.secrets == (secret,)


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        (1024, Ulimit(soft=1024, hard=1024)),
        ({"soft": 1, "hard": 2}, Ulimit(soft=1, hard=2)),
        ({"soft": 1, "hard": -1}, Ulimit(soft=1, hard=RLIM_INFINITY)),
        (-1, Ulimit(soft=RLIM_INFINITY, hard=RLIM_INFINITY)),
    ],
    ids=repr,
)
def test_a_ulimit_is_a_number_or_an_object(written: Any, limit: Ulimit) -> None:
    """Podman's API reads unsigned numbers: -1 has to become what the kernel takes for no limit."""
    assert spec_of(ulimits={"nofile": written}).container.ulimits == {"nofile": limit}


def test_whole_numbers_are_texts_as_they_stand() -> None:
    spec = spec_of(command=["sleep", 60], environment={"PORT": 8080}, user=1000, labels={"n": -5}, tags={"n": 0})
    assert spec.container.command == ("sleep", "60")
    assert spec.container.environment == {"PORT": "8080"}
    assert spec.container.user == "1000"
    assert (spec.container.labels, spec.tags) == ({"n": "-5"}, {"n": "0"})


def test_unicode_is_fine_in_environment_labels_and_files() -> None:
    texts = {"KEY": "Grüße 👋", "ÄRGER": "日本語\n\ttab"}
    spec = spec_of(environment=texts, labels=texts, files=[{"path": "/f", "content": texts["KEY"]}])
    assert spec.container.environment == spec.container.labels == texts
    assert spec.container.files[0].content == texts["KEY"]


def test_capabilities_are_taken_with_and_without_their_prefix() -> None:
    assert spec_of(capAdd=["cap_net_admin", "SYS_TIME"]).container.cap_add == ("NET_ADMIN", "SYS_TIME")


def test_an_empty_entrypoint_takes_back_that_of_the_image() -> None:
    assert spec_of(entrypoint=[]).container.entrypoint == ()


# ---- defaults and hosts ----


def with_defaults(defaults: Any, **workload: Any) -> dict[str, Any]:
    return {**document(**workload), "defaults": defaults}


def target_of(defaults: Any, **workload: Any) -> WorkloadSpec:
    return Manifest.model_validate(with_defaults(defaults, **workload)).targets()[0].spec


def test_image_and_host_may_come_from_defaults() -> None:
    manifest = Manifest.model_validate(with_defaults({"host": "edge-9", "image": IMAGE}, host=..., image=...))
    assert [(target.host, target.spec.container.image) for target in manifest.targets()] == [("edge-9", IMAGE)]


def test_objects_are_merged_by_key_and_the_workload_wins() -> None:
    spec = target_of(
        {"retry": {"giveUpAfter": "2h", "maximumInterval": "60s"}, "environment": {"A": "1", "B": "1"}},
        retry={"maximumInterval": "30s"},
        environment={"B": "2", "C": "3"},
    )
    assert spec.retry == Retry(give_up_after=timedelta(hours=2), maximum_interval=timedelta(seconds=30))
    assert spec.container.environment == {"A": "1", "B": "2", "C": "3"}


def test_lists_are_replaced_as_a_whole() -> None:
    assert target_of({"ports": ["1:1", "2:2"]}, ports=["3:3"]).container.ports == (PortMapping(host=3, container=3),)


def test_null_takes_back_what_defaults_says() -> None:
    spec = target_of(
        {"retry": {"giveUpAfter": "2h"}, "healthcheck": {"test": ["NONE"]}, "command": ["a"]},
        retry={"giveUpAfter": None},
        healthcheck=None,
        command=None,
    )
    assert spec == WorkloadSpec(container=ContainerSpec(image=IMAGE))


def test_a_workload_on_several_hosts_is_one_on_each() -> None:
    manifest = Manifest.model_validate(document(host=..., hosts=["edge-2", "edge-1"]))
    assert [(target.host, target.name) for target in manifest.targets()] == [("edge-2", "web"), ("edge-1", "web")]
    assert manifest.targets()[0].spec == manifest.targets()[1].spec


@pytest.mark.parametrize(
    ("defaults", "own", "hosts"),
    [
        ({"host": "a"}, {"host": "b"}, ["b"]),
        ({"host": "a"}, {"hosts": ["b", "c"]}, ["b", "c"]),
        ({"hosts": ["a", "b"]}, {"host": "c"}, ["c"]),
        ({"hosts": ["a", "b"]}, {}, ["a", "b"]),
    ],
    ids=repr,
)
def test_the_hosts_of_a_workload_replace_those_of_defaults(defaults: Any, own: Any, hosts: list[str]) -> None:
    manifest = Manifest.model_validate(with_defaults(defaults, **{"host": ..., **own}))
    assert [target.host for target in manifest.targets()] == hosts


def test_a_rule_between_two_keys_holds_where_defaults_and_workload_meet() -> None:
    found = complaints(with_defaults({"networks": ["host"]}, ports=["80:80"]))
    assert list(found) == ["workloads.web.ports"]


def test_defaults_are_checked_even_where_every_workload_overrides_them() -> None:
    assert "defaults.restart" in complaints(with_defaults({"restart": "sometimes"}, restart="never"))


def test_targets_come_in_the_order_of_the_document() -> None:
    written = document()
    entry = written["workloads"]["web"]
    written["workloads"] = {"b": entry, "a": {**entry, "host": "edge-2"}, "c": entry}
    assert [target.name for target in Manifest.model_validate(written).targets()] == ["b", "a", "c"]


# ---- the document ----


def test_name_and_revision_are_kept() -> None:
    manifest = Manifest.model_validate({**document(), "revision": 42})
    assert (manifest.name, manifest.revision) == ("shop", 42)
    assert Manifest.model_validate(document()).revision is None


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("v1", "apiVersion v1 is an Ankaios manifest: this version of Perdure reads only perdure/v1"),
        ("perdure/v2", "apiVersion 'perdure/v2' is unknown"),
        (1, "apiVersion '1' is unknown"),
        (None, "apiVersion is missing"),
    ],
    ids=repr,
)
def test_another_version_is_told_alone(version: Any, says: str) -> None:
    """The other keys of an Ankaios manifest would each be unknown: nothing but its version is worth a word."""
    written = {"apiVersion": version, "workloads": {"nginx": {"agent": "agent_A", "runtimeConfig": "image: x"}}}
    (found,) = complaints(written).values()
    assert says in found
    assert "apiVersion: perdure/v1" in found


@pytest.mark.parametrize("written", [None, [], "x", 5, {}, {"apiVersion": "perdure/v1"}], ids=repr)
def test_what_is_no_manifest_at_all_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        Manifest.model_validate(written)


def test_a_manifest_with_too_many_targets_is_refused() -> None:
    found = complaints(document(host=..., hosts=[f"h{number}" for number in range(10_001)]))
    assert "10001 workloads on hosts, and 10000 are the most" in found["workloads"]


def test_defaults_that_multiply_beyond_measure_are_refused() -> None:
    written = with_defaults({"environment": {f"K{number}": "x" for number in range(1000)}})
    written["workloads"] = {f"w{number}": written["workloads"]["web"] for number in range(100)}
    assert "defaults would put 100200 values into the workloads" in complaints(written)["defaults"]
