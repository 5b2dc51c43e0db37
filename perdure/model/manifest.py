# SPDX-License-Identifier: Apache-2.0
"""The document that a user writes: named workloads, what they have in common, and where they run.

The surprising part: ``defaults`` is merged into each workload before anything is checked, so that a rule that holds between two
keys is checked where the two meet. A workload's own host or hosts replace those of ``defaults`` together, lists are replaced
as a whole, and objects are merged key by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.json_schema import GenerateJsonSchema

from perdure.model.base import Model
from perdure.model.dependency_entry import Places
from perdure.model.images import ImageReference
from perdure.model.names import HostName, Name
from perdure.model.rules import STRICT, Misfit, refusal, refuse_all, shown
from perdure.model.values import Integer, format_duration
from perdure.model.workload import DependencyCondition, WorkloadSpec
from perdure.model.workload_entry import SPEC_LIMIT_BYTES, WorkloadEntry

API_VERSION = "perdure/v1"
TARGETS_LIMIT = 10_000
"""The most workloads times hosts of one manifest."""
MERGED_LIMIT = 100_000
"""The most values that defaults may put into all workloads together: it is the only part of a manifest that multiplies."""


@dataclass(frozen=True, slots=True)
class Target:
    """One workload on one host."""

    host: str
    name: str
    spec: WorkloadSpec


class PlacedEntry(WorkloadEntry):
    """A workload after ``defaults`` were merged into it: nothing that it needs is left out."""

    image: ImageReference
    host: HostName | None
    """None only where there are several; see ``with_defaults``."""

    @model_validator(mode="after")
    def _is_of_bearable_size(self) -> Self:
        size = len(self.spec().model_dump_json().encode())
        if size > SPEC_LIMIT_BYTES:
            message = f"the workload is {size} bytes long, and {SPEC_LIMIT_BYTES} are the most"
            raise refusal(message, "put what is long into the image, or on the host and mount it")
        return self


class Manifest(Model):
    """A manifest: what should run, and on which hosts."""

    model_config = STRICT

    api_version: Literal["perdure/v1"]
    """The version of this format."""
    name: Name
    """The manifest's name: what workloads are grouped by."""
    revision: Annotated[Integer, Field(ge=0, le=2**53)] | None = None
    """The user's own number of this manifest; a lower one than already accepted is refused as stale."""
    defaults: WorkloadEntry = WorkloadEntry()
    """What is the same in many workloads; merged into each, whose own keys win."""
    workloads: dict[Name, PlacedEntry] = Field(min_length=1)
    """The workloads by name. On one host a name stands for one workload, whichever manifest it is in."""

    @model_validator(mode="before")
    @classmethod
    def _merge_defaults(cls, document: Any) -> Any:
        if not isinstance(document, Mapping):
            return document
        check_version(document.get("apiVersion"))
        defaults, workloads = document.get("defaults"), document.get("workloads")
        if not isinstance(workloads, Mapping):
            return document
        if not isinstance(defaults, Mapping):
            defaults = {}
        if (count := _size(defaults) * len(workloads)) > MERGED_LIMIT:
            message = f"defaults would put {count} values into the workloads, and {MERGED_LIMIT} are the most"
            refuse_all("manifest", [Misfit(("defaults",), message, "split the manifest, or say less in defaults")])
        return {**document, "workloads": {name: with_defaults(entry, defaults) for name, entry in workloads.items()}}

    @model_validator(mode="after")
    def _is_of_bearable_size(self) -> Self:
        count = sum(len(entry.on_hosts()) for entry in self.workloads.values())
        if count > TARGETS_LIMIT:
            message = f"the manifest has {count} workloads on hosts, and {TARGETS_LIMIT} are the most"
            refuse_all("manifest", [Misfit(("workloads",), message, "split it into several manifests")])
        return self

    @model_validator(mode="after")
    def _dependencies_can_be_told(self) -> Self:
        if not any(entry.depends_on for entry in self.workloads.values()):
            return self
        places = self._places()
        specs = {name: entry.spec() for name, entry in self.workloads.items()}
        misfits = (
            replace(misfit, place=("workloads", name, *misfit.place))
            for name, entry in self.workloads.items()
            for misfit in places.misfits(name, entry.depends_on, specs)
        )
        refuse_all("manifest", misfits)
        return self

    def _places(self) -> Places:
        return Places({name: entry.on_hosts() for name, entry in self.workloads.items()})

    def targets(self) -> tuple[Target, ...]:
        """Every workload on every host, in the order of the document, in normal form."""
        places = self._places()
        return tuple(
            Target(host, name, _with_dependencies(spec, places.resolved(entry.depends_on, host)))
            for name, entry in self.workloads.items()
            for spec in (entry.spec(),)
            for host in entry.on_hosts()
        )


def _with_dependencies(spec: WorkloadSpec, depends_on: dict[str, DependencyCondition]) -> WorkloadSpec:
    return spec.model_copy(update={"depends_on": depends_on}) if depends_on else spec


def check_version(version: object) -> None:
    """Refuse a document that is not ``perdure/v1``. Nothing else in it is worth a word then."""
    if version == API_VERSION:
        return
    hint = f"write apiVersion: {API_VERSION}"
    if version is None:
        message = "apiVersion is missing"
    elif version == "v1":
        message = f"apiVersion v1 is an Ankaios manifest: this version of Perdure reads only {API_VERSION}"
        hint = f"rewrite it as apiVersion: {API_VERSION}"
    else:
        message = f"apiVersion {shown(str(version))} is unknown: this version of Perdure reads only {API_VERSION}"
    refuse_all("manifest", [Misfit(("apiVersion",) if version is not None else (), message, hint)])


def with_defaults(entry: object, defaults: Mapping[str, Any]) -> object:
    """What a workload says, on top of what all of them say. Where it has several hosts, its one host is None."""
    if not isinstance(entry, Mapping):
        return entry
    if "host" in entry or "hosts" in entry:
        defaults = {key: value for key, value in defaults.items() if key not in ("host", "hosts")}
    merged = _merged(defaults, entry)
    if merged.get("host") is None:
        merged.pop("host", None)
        if merged.get("hosts") is not None:
            merged["host"] = None
    return merged


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = dict(below)
    for key, value in above.items():
        under: Any = merged.get(key)
        is_nested = isinstance(value, Mapping) and isinstance(under, Mapping)
        merged[key] = _merged(under, value) if is_nested else value
    return merged


class _SchemaWriter(GenerateJsonSchema):
    """Writes defaults as a user would write them."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def _size(value: object) -> int:
    """How many values a value stands for."""
    match value:
        case Mapping():
            return 1 + sum(map(_size, value.values()))
        case list():
            return 1 + sum(map(_size, value))
    return 1


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a manifest, for editors. Every key of it is one that the model reads, and the other way round."""
    schema = Manifest.model_json_schema(by_alias=True, schema_generator=_SchemaWriter)
    # What a workload needs may stand in defaults, so a schema cannot ask for it.
    del schema["$defs"][PlacedEntry.__name__]
    plain = {key: _plain(value) for key, value in schema.items() if key != "title"}
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": "Perdure manifest", **plain}


def _plain(schema: Any) -> Any:
    """Drop titles that repeat a key and defaults that repeat a whole object, and close objects whose keys follow a pattern."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if schema == {"$ref": f"#/$defs/{PlacedEntry.__name__}"}:
        return {"$ref": f"#/$defs/{WorkloadEntry.__name__}"}
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _plain(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and isinstance(value, (dict, list)))
    }
    return plain | {"additionalProperties": False} if "patternProperties" in plain else plain
