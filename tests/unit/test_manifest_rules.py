# SPDX-License-Identifier: Apache-2.0
"""What a manifest must not say, and that each refusal tells what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.manifests import complaints, complaints_of, document

TOO_LONG = "x" * 300
LABEL_RULE = "1 to 63 lower-case letters a-z, digits and hyphens"

RULES: list[tuple[dict[str, Any], str, str]] = [
    # image and command
    ({"image": "nginx"}, "image", "does not say its registry | write the full name, such as docker.io/library/nginx"),
    ({"command": "httpd -f 'a b'"}, "command", 'a text is not a list of arguments | write ["httpd", "-f", "a b"]'),
    ({"command": "it's"}, "command", 'write ["sh", "-c", "it\'s"]'),
    ({"entrypoint": "/bin/sh"}, "entrypoint", 'write ["/bin/sh"]'),
    ({"command": []}, "command", "the list is empty, which Podman ignores | leave it out"),
    ({"command": ["a\0"]}, "command.0", "NUL"),
    # environment, labels, annotations, tags
    ({"environment": {"A": "b\0"}}, "environment.A", "NUL"),
    ({"environment": {"A": "\ud800"}}, "environment.A", "surrogate"),
    ({"environment": {"": "b"}}, "environment..[key]", "is not a valid variable name"),
    ({"environment": {"A=B": "b"}}, "environment.A=B.[key]", "is not a valid variable name"),
    ({"environment": {"A B": "b"}}, "environment.A B.[key]", "is not a valid variable name"),
    ({"environment": {"A": None}}, "environment.A", "string"),
    ({"environment": {"A": 1.1}}, "environment.A", "string"),
    ({"environment": {"A": True}}, "environment.A", "string"),
    ({"environment": ["A=b"]}, "environment", "dictionary"),
    ({"labels": {"": "b"}}, "labels..[key]", "is not a valid key"),
    ({"labels": {"dev.perdure.host": "b"}}, "labels.dev.perdure.host.[key]", "one of Perdure's own | choose another"),
    ({"annotations": {"dev.perdure.x": "b"}}, "annotations.dev.perdure.x.[key]", "one of Perdure's own"),
    ({"annotations": {"a": "\0"}}, "annotations.a", "NUL"),
    ({"tags": {"": "b"}}, "tags..[key]", "is not a valid key"),
    # ports
    ({"ports": ["8080"]}, "ports.0", 'does not say the port of the host | write "8080:8080"'),
    ({"ports": ["53/udp"]}, "ports.0", 'write "53:53/udp"'),
    ({"ports": [8080]}, "ports.0", 'a port is a text or an object | write "8080:8080"'),
    ({"ports": ["8080-8081:80-81"]}, "ports.0", 'each port on a line of its own: "8080:80", "8081:81"'),
    (
        {"ports": ["127.0.0.1:1-9:1-9/udp"]},
        "ports.0",
        '"127.0.0.1:1:1/udp", "127.0.0.1:2:2/udp", "127.0.0.1:3:3/udp", ...',
    ),
    ({"ports": ["a:b"]}, "ports.0", "is not a port | write [IP:]HOST:CONTAINER[/PROTOCOL]"),
    ({"ports": ["::1:80:80"]}, "ports.0", "is not a port"),
    ({"ports": [""]}, "ports.0", "is not a port"),
    ({"ports": ["localhost:80:80"]}, "ports.0.ip", "is not an IP address"),
    ({"ports": [":80:80"]}, "ports.0.ip", "is not an IP address"),
    ({"ports": ["80:80/tcpp"]}, "ports.0.protocol", "'tcp', 'udp' or 'sctp'"),
    ({"ports": ["0:80"]}, "ports.0.host", "greater than or equal to 1"),
    ({"ports": ["80:65536"]}, "ports.0.container", "less than or equal to 65535"),
    ({"ports": ["9999999999999999999999:80"]}, "ports.0.host", "less than or equal to 65535"),
    ({"ports": [{"host": "80", "container": 80}]}, "ports.0.host", "integer"),
    ({"ports": [{"host": True, "container": 80}]}, "ports.0.host", "integer"),
    ({"ports": [{"container": 80}]}, "ports.0.host", "required"),
    ({"ports": ["80:80", "80:81"]}, "ports.1", "port 80/tcp of the host is published twice"),
    ({"ports": ["80:80", "127.0.0.1:80:81"]}, "ports.1", "published twice"),
    ({"ports": ["0.0.0.0:80:80", "127.0.0.1:80:81"]}, "ports.1", "published twice"),
    ({"ports": ["[::]:80:80", "[::1]:80:81"]}, "ports.1", "published twice"),
    # mounts
    ({"mounts": ["/data"]}, "mounts.0", 'does not say what is mounted | write "cache:/data"'),
    ({"mounts": ["./web:/data"]}, "mounts.0", "'./web' is not an absolute path"),
    ({"mounts": ["~/web:/data"]}, "mounts.0", "is not an absolute path"),
    ({"mounts": ["/a/../b:/data"]}, "mounts.0.bind.source", "goes up by .."),
    ({"mounts": ["/a:/data:ro:z"]}, "mounts.0", "too many colons"),
    ({"mounts": ["/a:/data:rx"]}, "mounts.0", "'rx' is not an option of a bind mount | known are ro, rw, z and Z"),
    ({"mounts": ["v:/data:z"]}, "mounts.0", "is not an option of a volume mount | known are ro and rw"),
    ({"mounts": ["v:data"]}, "mounts.0.volume.target", "is not an absolute path"),
    ({"mounts": ["v:/"]}, "mounts.0.volume.target", "the container's whole file system"),
    ({"mounts": ["v:"]}, "mounts.0.volume.target", "is not an absolute path"),
    ({"mounts": [":/data"]}, "mounts.0.volume.source", "is not a valid volume name"),
    ({"mounts": ["ü:/data"]}, "mounts.0.volume.source", "is not a valid volume name"),
    ({"mounts": [5]}, "mounts.0", "a mount is a text or an object"),
    ({"mounts": [{"type": "bogus"}]}, "mounts.0", "'bind', 'volume', 'tmpfs'"),
    ({"mounts": [{"target": "/x"}]}, "mounts.0", "type"),
    ({"mounts": [{"type": "bind", "target": "/x"}]}, "mounts.0.bind.source", "required"),
    ({"mounts": [{"type": "tmpfs", "target": "/x", "size": "1"}]}, "mounts.0.tmpfs.size", "at least 4Ki"),
    ({"mounts": [{"type": "tmpfs", "target": "/x", "mode": 777}]}, "mounts.0.tmpfs.mode", "octal digits"),
    ({"mounts": ["a:/x", "b:/x/"]}, "mounts.1.target", "'/x' is taken by mounts[0]"),
    # files and secrets
    ({"files": [{"path": "etc/x", "content": ""}]}, "files.0.path", "is not an absolute path"),
    ({"files": [{"path": "/x", "content": "\0"}]}, "files.0.content", "NUL"),
    ({"files": [{"path": "/x", "content": "", "mode": 644}]}, "files.0.mode", "octal digits"),
    ({"files": [{"path": "/x", "content": "ü" * 131_073}]}, "files", "262146 bytes, and 262144 are the most"),
    ({"files": [{"path": "/x", "content": ""}], "mounts": ["v:/x"]}, "files.0.path", "is taken by mounts[0]"),
    ({"secrets": [5]}, "secrets.0", "a secret is a name or an object"),
    ({"secrets": ["a b"]}, "secrets.0.name", "is not a valid secret name"),
    ({"secrets": [{"name": "a", "target": "x"}]}, "secrets.0.target", "is not an absolute path"),
    ({"secrets": [{"name": "a", "target": "/x", "env": "A"}]}, "secrets.0", "a file or a variable, not both"),
    ({"secrets": ["a", {"name": "b", "target": "/run/secrets/a"}]}, "secrets.1", "is taken by secrets[0]"),
    ({"secrets": [{"name": "a", "env": "A"}], "environment": {"A": "1"}}, "secrets.0.env", "'A' is set twice"),
    ({"secrets": [{"name": "a", "value": "s"}]}, "secrets.0.value", "not permitted"),
    # networks
    ({"networks": ["host"], "ports": ["80:80"]}, "ports", "is reached at its own ports | leave out ports or networks"),
    ({"networks": ["none"], "ports": ["80:80"]}, "ports", "cannot be reached"),
    ({"networks": ["host", "shop"]}, "networks.0", "write it alone: [host]"),
    ({"networks": ["shop", "shop"]}, "networks.1", "is named twice"),
    ({"networks": ["bridge"]}, "networks.0", "leave networks out for Podman's default network"),
    ({"networks": ["container:x"]}, "networks.0", "is not a valid network"),
    ({"networks": "host"}, "networks", "tuple"),
    ({"networks": ["host"], "sysctls": {"net.core.somaxconn": 1}}, "sysctls.net.core.somaxconn", "set it on the host"),
    ({"hostname": TOO_LONG}, "hostname", "it has 300 characters"),
    ({"hostname": "a_b"}, "hostname", "is not a valid hostname"),
    ({"extraHosts": {"db": "db.example.com"}}, "extraHosts.db", "is not an IP address"),
    ({"extraHosts": {"d b": "192.0.2.7"}}, "extraHosts.d b.[key]", "is not a valid host name"),
    ({"dns": ["one.one.one.one"]}, "dns.0", "is not an IP address"),
    # the process
    ({"user": "a b"}, "user", "USER or USER:GROUP"),
    ({"workingDir": "srv"}, "workingDir", "is not an absolute path"),
    ({"init": "yes"}, "init", "boolean"),
    ({"readOnly": 1}, "readOnly", "boolean"),
    ({"capAdd": ["NET_ADMINN"]}, "capAdd.0", "is not a Linux capability | did you mean NET_ADMIN?"),
    ({"devices": ["dev/x"]}, "devices.0", "is not a device"),
    ({"devices": ["/dev/x:/dev/y:rwx"]}, "devices.0", "is not a device"),
    ({"devices": ["/dev/x:rr"]}, "devices.0", "is not a device"),
    ({"ulimits": {"files": 5}}, "ulimits.files.[key]", "one of as, core, cpu"),
    ({"ulimits": {"nofile": "5"}}, "ulimits.nofile", "write 1024 or {soft: 1024, hard: 4096}"),
    ({"ulimits": {"nofile": {"soft": -2, "hard": 1}}}, "ulimits.nofile.soft", "is not a limit"),
    ({"ulimits": {"nofile": {"soft": 2, "hard": 1}}}, "ulimits.nofile", "the soft limit 2 is above the hard limit 1"),
    ({"ulimits": {"nofile": {"soft": -1, "hard": 1}}}, "ulimits.nofile", "the soft limit without end is above"),
    ({"sysctls": {"x y": "1"}}, "sysctls.x y.[key]", "is not a valid sysctl"),
    # limits and health
    ({"resources": {"memory": "5Mi"}}, "resources.memory", "too little to start a container | write at least 6Mi"),
    ({"resources": {"memory": "2000T"}}, "resources.memory", "more than any host has"),
    ({"resources": {"memory": "64m"}}, "resources.memory", "64Mi, 128M or 1Gi"),
    ({"resources": {"memory": -1}}, "resources.memory", "is not a size"),
    ({"resources": {"cpus": 0}}, "resources.cpus", "greater than or equal to 0.01"),
    ({"resources": {"cpus": "1"}}, "resources.cpus", "number"),
    ({"resources": {"cpus": float("nan")}}, "resources.cpus", "finite"),
    ({"resources": {"pids": 0}}, "resources.pids", "write a number from 1, or -1"),
    ({"healthcheck": {"test": "wget x"}}, "healthcheck.test", 'write ["CMD-SHELL", "wget x"]'),
    ({"healthcheck": {"test": ["wget", "x"]}}, "healthcheck.test", 'write ["CMD", PROGRAM'),
    ({"healthcheck": {"test": ["CMD"]}}, "healthcheck.test", "does not say how it is run"),
    ({"healthcheck": {"test": []}}, "healthcheck.test", "does not say how it is run"),
    ({"healthcheck": {"test": ["NONE"], "timeout": "0s"}}, "healthcheck.timeout", "above zero"),
    ({"healthcheck": {"test": ["NONE"], "retries": 0}}, "healthcheck.retries", "greater than or equal to 1"),
    ({"healthcheck": {}}, "healthcheck.test", "required"),
    ({"onUnhealthy": "stop"}, "onUnhealthy", "'none' or 'restart'"),
    (
        {"onUnhealthy": "restart", "healthcheck": {"test": ["NONE"]}},
        "onUnhealthy",
        "the healthcheck is switched off, so nothing can be unhealthy | write onUnhealthy: none, or a test",
    ),
    ({"stop": {"signal": "SIGNOPE"}}, "stop.signal", "is not a signal"),
    ({"stop": {"timeout": "1.5s"}}, "stop.timeout", "whole seconds"),
    ({"stop": {"timeout": "2h"}}, "stop.timeout", "write at most 1h"),
    ({"stop": {"timeout": 10}}, "stop.timeout", "is not a duration"),
    # waits
    ({"retry": {"maximumInterval": "301s"}}, "retry.maximumInterval", "5m1s is too long a wait | write at most 300s"),
    ({"retry": {"initialInterval": "0s"}}, "retry.initialInterval", "above zero"),
    ({"retry": {"initialInterval": "9ms"}}, "retry.initialInterval", "write at least 10ms"),
    (
        {"retry": {"initialInterval": "2s", "maximumInterval": "1s"}},
        "retry.maximumInterval",
        "less than initialInterval",
    ),
    ({"retry": {"giveUpAfter": "0s"}}, "retry.giveUpAfter", "above zero"),
    ({"restartBackoff": {"maximum": "1h"}}, "restartBackoff.maximum", "write at most 300s"),
    ({"restartBackoff": {"initial": "2s", "maximum": "1s"}}, "restartBackoff.maximum", "less than initial"),
    ({"restartBackoff": {"resetAfter": "0s"}}, "restartBackoff.resetAfter", "above zero"),
    ({"restartBackoff": {"limit": 0}}, "restartBackoff.limit", "greater than or equal to 1"),
    ({"restart": "no"}, "restart", "'always', 'onFailure' or 'never'"),
    ({"pullPolicy": "IfNotPresent"}, "pullPolicy", "'missing', 'always', 'newer' or 'never'"),
    # hosts
    ({"hosts": ["edge-2"]}, "hosts", "there is a host already | write either host or hosts"),
    ({"host": ..., "hosts": ["a", "a"]}, "hosts.1", "'a' is named twice"),
    ({"host": ..., "hosts": []}, "hosts", "at least 1"),
    ({"host": "Edge"}, "host", LABEL_RULE),
    # keys
    ({"pull_policy": "always"}, "pull_policy", "not permitted"),
    ({"restartpolicy": "always"}, "restartpolicy", "not permitted"),
    # dependencies
    (
        {"dependsOn": {"DB": "running"}},
        "dependsOn.DB.[key]",
        "must be the NAME of a workload of this manifest, or HOST/NAME",
    ),
    ({"dependsOn": {"a/b/c": "running"}}, "dependsOn.a/b/c.[key]", "is not a valid dependency"),
    ({"dependsOn": {"a/": "running"}}, "dependsOn.a/.[key]", "is not a valid dependency"),
    ({"dependsOn": {"a/db": "up"}}, "dependsOn.a/db", "'running', 'healthy', 'succeeded' or 'failed'"),
    ({"dependsOn": ["a/db"]}, "dependsOn", "dictionary"),
    ({"dependsOn": {"db": "running"}}, "dependsOn.db.[key]", "no workload 'db' in this manifest | write HOST/NAME"),
    ({"dependsOn": {"webb": "running"}}, "dependsOn.webb.[key]", "did you mean web?"),
    ({"dependsOn": {"web": "running"}}, "dependsOn.web.[key]", "cannot depend on itself"),
    ({"dependsOn": {"edge-1/web": "failed"}}, "dependsOn.edge-1/web.[key]", "cannot depend on itself"),
    (
        {"dependsOn": {f"edge-2/w{n}": "running" for n in range(101)}},
        "dependsOn",
        "101 dependencies, and 100 are the most",
    ),
]


@pytest.mark.parametrize(
    ("workload", "way", "says"), RULES, ids=[f"{way}-{number}" for number, (_, way, _) in enumerate(RULES)]
)
def test_what_podman_would_refuse_or_ignore_is_refused(workload: dict[str, Any], way: str, says: str) -> None:
    found = complaints_of(**workload)
    assert list(found) == [way]
    assert says in found[way]


@pytest.mark.parametrize(
    "ports", [["80:80", "80:80/udp"], ["127.0.0.1:80:80", "127.0.0.2:80:80"], ["0.0.0.0:80:80", "[::]:80:80"]]
)
def test_ports_that_do_not_get_in_each_others_way_are_fine(ports: list[str]) -> None:
    assert complaints_of(ports=ports) == {}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Web",
        "wéb",
        "web_1",
        "web.1",
        "-web",
        "web-",
        "a/b",
        'a"b',
        "a:b",
        "👋",
        TOO_LONG,
        "x" * 64,
        "web\n",
        " web",
        "ẅeb",
    ],
    ids=ascii,
)
def test_a_name_that_not_all_can_bear_is_refused_with_the_rule(name: str) -> None:
    """It becomes part of a workflow id, a container's name and a host name."""
    entry = document()["workloads"]["web"]
    assert LABEL_RULE in complaints({**document(), "workloads": {name: entry}})[f"workloads.{name}.[key]"]
    assert LABEL_RULE in complaints({**document(), "name": name})["name"]
    assert LABEL_RULE in complaints_of(host=name)["host"]


@pytest.mark.parametrize("name", ["a", "0", "web", "web-1", "1-2", "x" * 63])
def test_a_name_of_lower_case_letters_digits_and_hyphens_is_fine(name: str) -> None:
    entry = {**document()["workloads"]["web"], "host": name}
    assert complaints({**document(), "name": name, "workloads": {name: entry}}) == {}


def test_a_workload_needs_an_image_and_a_host() -> None:
    """Both are told at once, and along with everything else."""
    assert set(complaints_of(image=..., host=..., restart="no")) == {"image", "host", "restart"}
    assert set(complaints_of(image=None, host=None, hosts=None)) == {"image", "host"}


def test_all_mistakes_are_found_at_once() -> None:
    found = complaints_of(image="nginx", restart="no", ports=["x"], retry={"giveUpAfter": 5}, bogus=1)
    assert set(found) == {"image", "restart", "ports.0", "retry.giveUpAfter", "bogus"}


def test_a_workload_that_is_too_long_to_send_is_refused() -> None:
    found = complaints_of(environment={f"KEY{number}": "x" * 100_000 for number in range(6)})
    assert "bytes long, and 524288 are the most" in found[""]


@pytest.mark.parametrize("revision", [-1, "1", 1.0, True, 2**53 + 1], ids=repr)
def test_a_revision_is_a_whole_number_from_zero(revision: Any) -> None:
    assert list(complaints({**document(), "revision": revision})) == ["revision"]
