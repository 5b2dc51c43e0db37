# SPDX-License-Identifier: Apache-2.0
"""What a manifest may put into a container's file system: mounts, files and secrets, with their rules."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from perdure.model.names import AbsolutePath, MountPoint, SecretName, VariableName, VolumeName
from perdure.model.rules import STRICT, ShortForm, refusal
from perdure.model.shortforms import MOUNT_FORM, read_mount, read_secret
from perdure.model.values import Bytes, Flag, Mode, Text
from perdure.model.workload import BindMount, File, SecretMount, TmpfsMount, VolumeMount


class BindEntry(BindMount):
    """A file or directory of the host. It is never created by Perdure."""

    model_config = STRICT

    type: Literal["bind"]
    """Something of the host."""
    source: AbsolutePath
    """Its path on the host."""
    target: MountPoint
    """Its path in the container."""
    read_only: Flag = False
    """Whether the container may only read it."""
    relabel: Literal["", "shared", "private"] = ""
    """The SELinux label that it gets: shared among containers (z) or private to this one (Z)."""


class VolumeEntry(VolumeMount):
    """A named Podman volume, made when it is missing and kept when the workload goes."""

    model_config = STRICT

    type: Literal["volume"]
    """A volume of Podman."""
    source: VolumeName
    """The volume's name."""
    target: MountPoint
    """Its path in the container."""
    read_only: Flag = False
    """Whether the container may only read it."""


def _at_least_a_page(size: int) -> int:
    if size < 4096:
        raise refusal(f"a tmpfs of {size} bytes holds nothing", "write at least 4Ki")
    return size


class TmpfsEntry(TmpfsMount):
    """Memory as a file system, lost with the container."""

    model_config = STRICT

    type: Literal["tmpfs"]
    """Memory."""
    target: MountPoint
    """Its path in the container."""
    size: Annotated[Bytes, AfterValidator(_at_least_a_page)] | None = None
    """How much it may hold; left out, half of the host's memory."""
    mode: Mode | None = None
    """Its permission bits."""


MountEntry = Annotated[BindEntry | VolumeEntry | TmpfsEntry, Field(discriminator="type")]


class FileEntry(File):
    """A file that the host's worker writes and mounts read-only."""

    model_config = STRICT

    path: MountPoint
    """Its path in the container."""
    content: Text
    """What is in it. Not for secrets: it stands in histories."""
    mode: Mode = Field(default=0o644, json_schema_extra={"default": "0644"})
    """Its permission bits, in octal and in quotes."""


class SecretEntry(SecretMount):
    """A Podman secret of the host, by name. Its value never passes through Perdure."""

    model_config = STRICT

    name: SecretName
    """The secret's name, as ``podman secret ls`` shows it."""
    target: MountPoint = ""
    """The file in the container; left out, it is /run/secrets/NAME."""
    env: VariableName = ""
    """The environment variable that holds the value, instead of a file."""

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if self.target and self.env:
            raise refusal(
                "a secret is a file or a variable, not both", "leave out target or env, or list the secret twice"
            )
        return self


MountForm = Annotated[MountEntry, ShortForm(read_mount, MOUNT_FORM, ("/srv/web:/data:ro", "cache:/var/cache"))]
SecretForm = Annotated[SecretEntry, ShortForm(read_secret, "the secret's NAME", ("db-password",))]
