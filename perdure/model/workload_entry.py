# SPDX-License-Identifier: Apache-2.0
"""One workload as a manifest writes it, with the rules that hold between its keys.

What Podman would take and then ignore (a published port in the host's network, an empty command) is refused here: a user who
wrote it believes in it.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from perdure.model.backoff_entry import RestartBackoffEntry, RetryEntry
from perdure.model.base import Model
from perdure.model.container_entry import (
    Command,
    Entrypoint,
    HealthcheckEntry,
    PortForm,
    ResourcesEntry,
    StopEntry,
    UlimitForm,
)
from perdure.model.dependency_entry import DEPENDENCIES_LIMIT, DependencyName
from perdure.model.images import ImageReference
from perdure.model.mount_entry import FileEntry, MountForm, SecretForm
from perdure.model.names import (
    AbsolutePath,
    Capability,
    ContainerHostname,
    Device,
    DnsName,
    HostName,
    IpAddress,
    Key,
    NetworkName,
    SysctlName,
    UlimitName,
    User,
    VariableName,
)
from perdure.model.rules import STRICT, Misfit, refuse_all
from perdure.model.values import Flag, Text
from perdure.model.workload import (
    ContainerSpec,
    DependencyCondition,
    PullPolicy,
    RestartPolicy,
    WorkloadSpec,
)

FILES_LIMIT_BYTES = 256 * 1024
"""All files of a workload together. They travel with every step of it, and Temporal takes 2 MiB at once."""
SPEC_LIMIT_BYTES = 512 * 1024
"""A whole workload, as JSON."""
_OTHER_MODES = frozenset({"bridge", "container", "ns", "pasta", "private", "slirp4netns"})
"""What ``podman run --network`` takes besides names; through the API it would be taken for a name."""


class WorkloadEntry(Model):
    """One container that should be on one host, or on each of several."""

    model_config = STRICT

    host: HostName | None = None
    """The host that it runs on. Either this or ``hosts``, here or in ``defaults``."""
    hosts: Annotated[tuple[HostName, ...], Field(min_length=1)] | None = None
    """Several hosts: one workload on each."""

    image: ImageReference | None = None
    """The image, with its registry. Needed, here or in ``defaults``."""
    pull_policy: PullPolicy = PullPolicy.MISSING
    """When the image is fetched: if it is ``missing`` on the host, ``always`` before a start, if the registry has a ``newer`` one
    (the local one is used if the registry does not answer), or ``never``."""
    entrypoint: Entrypoint | None = None
    """The program to run instead of the image's entrypoint; an empty list is none at all."""
    command: Command | None = None
    """The arguments, instead of those of the image."""
    environment: dict[VariableName, Text] = Field(default_factory=dict)
    """Environment variables. Not for secrets: see ``secrets``."""
    ports: tuple[PortForm, ...] = ()
    """Ports of the container that the host listens on."""
    mounts: tuple[MountForm, ...] = ()
    """Paths of the host, volumes and memory in the container's file system."""
    files: tuple[FileEntry, ...] = ()
    """Files that the host's worker writes and mounts read-only; 256 KiB in all."""
    secrets: tuple[SecretForm, ...] = ()
    """Podman secrets of the host, by name."""
    networks: tuple[NetworkName, ...] = ()
    """Podman networks of the host to join. Left out, it is Podman's default one; ``[host]`` shares the host's network and
    ``[none]`` has none."""
    user: User = ""
    """Who runs the program: USER or USER:GROUP, by name or number. Left out, the image decides."""
    working_dir: AbsolutePath = ""
    """The directory that the program starts in."""
    hostname: ContainerHostname = ""
    """What the container calls itself."""
    init: Flag = False
    """Whether a small init process runs first, to pass on signals and collect dead processes."""
    read_only: Flag = False
    """Whether the container's file system is read-only; mount a tmpfs on /tmp if the program needs it."""
    privileged: Flag = False
    """Whether the container may do nearly all that root of the host may."""
    cap_add: tuple[Capability, ...] = ()
    """Linux capabilities to add, such as NET_ADMIN. One that Podman itself lacks is not given."""
    cap_drop: tuple[Capability, ...] = ()
    """Linux capabilities to drop; ALL drops every one."""
    devices: tuple[Device, ...] = ()
    """Devices of the host: HOST-PATH[:CONTAINER-PATH][:rwm]."""
    ulimits: dict[UlimitName, UlimitForm] = Field(default_factory=dict)
    """Resource limits of processes, such as nofile."""
    sysctls: dict[SysctlName, Text] = Field(default_factory=dict)
    """Kernel parameters of the container's namespaces."""
    extra_hosts: dict[DnsName, IpAddress] = Field(default_factory=dict)
    """Names to put into /etc/hosts, with their address."""
    dns: tuple[IpAddress, ...] = ()
    """Addresses of DNS servers."""
    labels: dict[Key, Text] = Field(default_factory=dict)
    """Labels of the container. Those that begin with dev.perdure. are Perdure's own."""
    annotations: dict[Key, Text] = Field(default_factory=dict)
    """Annotations of the container, for its OCI runtime."""
    resources: ResourcesEntry = ResourcesEntry()
    """Limits of memory, processors and processes."""
    healthcheck: HealthcheckEntry | None = None
    """How to find out whether it works. Left out, the image decides."""
    stop: StopEntry = StopEntry()
    """How it is asked to end."""

    depends_on: dict[DependencyName, DependencyCondition] = Field(default_factory=dict)
    """Other workloads that must be ``running``, ``healthy``, ``succeeded`` or ``failed`` before each new container of this one is
    pulled and started: by NAME, which is the copy on the same host where there is one, or by HOST/NAME, which may stand in
    another manifest. Takes effect without touching the container."""
    restart: RestartPolicy = RestartPolicy.ALWAYS
    """What to do when the container ends by itself."""
    on_unhealthy: Literal["none", "restart"] = "none"
    """What to do when its healthcheck, of the manifest or the image, calls it unhealthy: tell it, or restart it too, on the waits
    of ``restartBackoff`` and whatever ``restart`` says. Takes effect without touching the container."""
    restart_backoff: RestartBackoffEntry = RestartBackoffEntry()
    """The waits between restarts. Takes effect without touching the container."""
    retry: RetryEntry = RetryEntry()
    """The waits between tries of a pull or start that fails. Takes effect without touching the container."""
    tags: dict[Key, Text] = Field(default_factory=dict)
    """The user's own marks of the workload. Takes effect without touching the container."""

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Self:
        refuse_all("workload", self._misfits())
        return self

    def _misfits(self) -> Iterator[Misfit]:
        if self.host is not None and self.hosts is not None:
            yield Misfit(("hosts",), "there is a host already", "write either host or hosts")
        for index, host in _repeated(self.hosts or ()):
            yield Misfit(("hosts", index), f"{host!r} is named twice", "write each host once")
        yield from self._misfits_of_networks()
        yield from self._misfits_of_ports()
        yield from self._misfits_of_paths()
        yield from self._misfits_of_variables()
        for kind, keys in (("labels", self.labels), ("annotations", self.annotations)):
            for key in keys:
                if key.startswith("dev.perdure."):
                    yield Misfit((kind, key, "[key]"), f"{key!r} is one of Perdure's own", "choose another prefix")
        if self.on_unhealthy == "restart" and self.healthcheck is not None and self.healthcheck.test == ("NONE",):
            message = "the healthcheck is switched off, so nothing can be unhealthy"
            yield Misfit(("onUnhealthy",), message, "write onUnhealthy: none, or a test for the healthcheck")
        if (count := len(self.depends_on)) > DEPENDENCIES_LIMIT:
            message = f"there are {count} dependencies, and {DEPENDENCIES_LIMIT} are the most"
            yield Misfit(("dependsOn",), message, "depend on the last ones of each chain alone")
        size = sum(len(file.content.encode()) for file in self.files)
        if size > FILES_LIMIT_BYTES:
            yield Misfit(
                ("files",),
                f"the files hold {size} bytes, and {FILES_LIMIT_BYTES} are the most",
                "put them into the image, or on the host and mount them",
            )

    def _misfits_of_networks(self) -> Iterator[Misfit]:
        for index, network in _repeated(self.networks):
            yield Misfit(("networks", index), f"{network!r} is named twice", "write each network once")
        for index, network in enumerate(self.networks):
            if network in ("host", "none") and len(self.networks) > 1:
                yield Misfit(("networks", index), f"{network!r} is no network to join", f"write it alone: [{network}]")
            elif network in _OTHER_MODES:
                hint = "leave networks out for Podman's default network, or write host, none or names of networks"
                yield Misfit(("networks", index), f"{network!r} is no network to join", hint)
        if self.networks in (("host",), ("none",)):
            mode = self.networks[0]
            if self.ports:
                what = "is reached at its own ports" if mode == "host" else "cannot be reached"
                yield Misfit(("ports",), f"a container with networks: [{mode}] {what}", "leave out ports or networks")
            if mode == "host":
                for sysctl in self.sysctls:
                    if sysctl.replace("/", ".").startswith("net."):
                        message = f"{sysctl!r} would be changed for the whole host, which Podman refuses"
                        yield Misfit(("sysctls", sysctl), message, "set it on the host")

    def _misfits_of_ports(self) -> Iterator[Misfit]:
        taken: dict[tuple[int, str], set[str]] = defaultdict(set)
        for index, port in enumerate(self.ports):
            addresses = taken[port.host, port.protocol]
            if _overlaps(port.ip, addresses):
                message = f"port {port.host}/{port.protocol} of the host is published twice"
                yield Misfit(("ports", index), message, "publish it once")
            addresses.add(port.ip)

    def _misfits_of_paths(self) -> Iterator[Misfit]:
        places: list[tuple[tuple[str | int, ...], str]] = [
            *((("mounts", index, "target"), mount.target) for index, mount in enumerate(self.mounts)),
            *((("files", index, "path"), file.path) for index, file in enumerate(self.files)),
            *(
                (("secrets", index), secret.target or f"/run/secrets/{secret.name}")
                for index, secret in enumerate(self.secrets)
                if not secret.env
            ),
        ]
        taken: dict[str, tuple[str | int, ...]] = {}
        for place, target in places:
            path = posixpath.normpath("/" + target.strip("/"))
            if path in taken:
                kind, index = taken[path][:2]
                yield Misfit(place, f"{path!r} is taken by {kind}[{index}]", "give each its own path")
            taken.setdefault(path, place)

    def _misfits_of_variables(self) -> Iterator[Misfit]:
        names = set(self.environment)
        for index, secret in enumerate(self.secrets):
            if secret.env and secret.env in names:
                yield Misfit(("secrets", index, "env"), f"variable {secret.env!r} is set twice", "leave one out")
            names.add(secret.env)

    def spec(self) -> WorkloadSpec:
        """The normal form: short forms expanded, defaults filled in."""
        written = self.model_dump(by_alias=False)
        container = ContainerSpec.model_validate({name: written[name] for name in ContainerSpec.model_fields})
        settings = {name: written[name] for name in WorkloadSpec.model_fields if name in written}
        settings["restart_unhealthy"] = self.on_unhealthy == "restart"
        return WorkloadSpec.model_validate({"container": container, **settings})

    def on_hosts(self) -> tuple[str, ...]:
        """The hosts that it should be on."""
        return self.hosts or ((self.host,) if self.host is not None else ())


def _repeated(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each name that stands before already, with its index."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield index, name
        seen.add(name)


def _overlaps(address: str, taken: set[str]) -> bool:
    """Whether a listener gets in the way of others at its port: a wildcard takes every address of its family, none takes all."""
    if not taken or "" in taken or address in taken:
        return bool(taken)
    if not address:
        return True
    wildcard, mark = ("::", ":") if ":" in address else ("0.0.0.0", ".")  # noqa: S104 - it is compared, not bound
    return wildcard in taken or (address == wildcard and any(mark in other for other in taken))
