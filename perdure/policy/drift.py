# SPDX-License-Identifier: Apache-2.0
"""Whether two specs differ, and whether the difference is one that a container must be replaced for.

Hashes are stored in containers' labels and outlive releases. So a field that has its default is left out of what is hashed: a
field that a later release adds, with a default that means what was done before, changes no old hash. For the same reason the
default of a field must never change, and a field must never be renamed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum, StrEnum
from functools import cache
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from perdure.model.values import format_duration
from perdure.model.workload import ContainerSpec, WorkloadSpec


class Change(StrEnum):
    """What it takes to get from one spec to another."""

    NONE = "none"
    """They are the same."""
    SETTINGS = "settings"
    """Only what takes effect without touching the container differs."""
    CONTAINER = "container"
    """The container must be replaced."""


def compare(old: WorkloadSpec, new: WorkloadSpec) -> Change:
    """What it takes to get from the old spec to the new one."""
    if container_hash(old.container) != container_hash(new.container):
        return Change.CONTAINER
    return Change.NONE if spec_hash(old) == spec_hash(new) else Change.SETTINGS


def container_hash(container: ContainerSpec) -> str:
    """64 hexadecimal digits that stand for what makes the container."""
    return _sha256(container)


def spec_hash(spec: WorkloadSpec) -> str:
    """64 hexadecimal digits that stand for all that the manifest says of the workload."""
    return _sha256(spec)


def _sha256(model: BaseModel) -> str:
    text = json.dumps(_canonical(model), sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: object) -> object:
    """The value as JSON types, without the fields that have their default."""
    match value:
        case BaseModel():
            return {
                name: _canonical(getattr(value, name))
                for name, (always, default) in _fields(type(value)).items()
                if always or getattr(value, name) != default
            }
        case Mapping():
            return {str(key): _canonical(item) for key, item in value.items()}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case timedelta():
            return format_duration(value)
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"cannot hash a {type(value).__name__}")


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, tuple[bool, object]]:
    """Of each field: whether it always counts, and its default. Kept, for workflows hash often, and a default is slow to get."""
    return {
        name: (
            _is_tag(field) or field.is_required(),
            field.get_default(call_default_factory=True, validated_data={}),
        )
        for name, field in model.model_fields.items()
    }


def _is_tag(field: FieldInfo) -> bool:
    """A literal of one value tells the members of a union apart. Without it a bind mount and a volume would look the same."""
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
