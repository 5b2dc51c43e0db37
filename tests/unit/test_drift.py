# SPDX-License-Identifier: Apache-2.0
"""Which changes of a spec replace its container, and that hashes stay what they are."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perdure.model.workload import (
    BindMount,
    ContainerSpec,
    File,
    Healthcheck,
    Mount,
    PullPolicy,
    RestartPolicy,
    Retry,
    SecretMount,
    TmpfsMount,
    Ulimit,
    VolumeMount,
    WorkloadSpec,
)
from perdure.policy.drift import Change, compare, container_hash, spec_hash

IMAGE = "localhost:5000/web:1.2"
BARE = ContainerSpec(image=IMAGE)
FULL = ContainerSpec(
    image=IMAGE,
    command=("httpd", "-f"),
    environment={"PORT": "8080", "ÄRGER": "👋"},
    mounts=(BindMount(source="/srv", target="/data", read_only=True), TmpfsMount(target="/tmp", size=65536)),
    files=(File(path="/etc/x", content="y"),),
    secrets=(SecretMount(name="db"),),
    ulimits={"nofile": Ulimit(soft=1, hard=2)},
    healthcheck=Healthcheck(test=("CMD", "true"), interval=timedelta(seconds=5)),
)

# ---- any spec, from the fields of the models: a new field is in here by itself ----


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that is used in a spec."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, type(int | str)):
        return st.one_of([values_of(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if annotation is type(None):
        return st.none()
    if issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    if issubclass(annotation, BaseModel):
        return models_of(annotation)
    return SIMPLE[annotation]


SIMPLE: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-1, 2**64),
    float: st.floats(min_value=0.01, max_value=1024),
    str: st.text(max_size=8),
    timedelta: st.integers(0, 10**9).map(lambda milliseconds: timedelta(milliseconds=milliseconds)),
}


def models_of(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Any instance of a model."""
    fields = {name: values_of(field.annotation) for name, field in model.model_fields.items()}
    return st.builds(model, **fields)


CONTAINERS = models_of(ContainerSpec)
SPECS = models_of(WorkloadSpec)


def changed(model: BaseModel, name: str, value: Any) -> Any:
    return model.model_copy(update={name: value})


# ---- every field counts where it should, and nowhere else ----


def another(name: str, model: BaseModel, data: st.DataObject) -> Any:
    """The model with another value of a field."""
    values = values_of(type(model).model_fields[name].annotation)
    return changed(model, name, data.draw(values.filter(lambda value: value != getattr(model, name))))


@pytest.mark.parametrize("name", ContainerSpec.model_fields)
@settings(max_examples=10)
@given(one=st.sampled_from([BARE, FULL]), data=st.data())
def test_every_field_of_the_container_changes_its_hash(name: str, one: ContainerSpec, data: st.DataObject) -> None:
    other = another(name, one, data)
    assert container_hash(one) != container_hash(other)
    assert compare(WorkloadSpec(container=one), WorkloadSpec(container=other)) is Change.CONTAINER


@pytest.mark.parametrize("name", [name for name in WorkloadSpec.model_fields if name != "container"])
@settings(max_examples=10)
@given(data=st.data())
def test_no_field_outside_the_container_replaces_it(name: str, data: st.DataObject) -> None:
    old = WorkloadSpec(container=FULL)
    new = another(name, old, data)
    assert container_hash(old.container) == container_hash(new.container)
    assert spec_hash(old) != spec_hash(new)
    assert compare(old, new) is Change.SETTINGS


@settings(max_examples=10)
@given(SPECS)
def test_a_spec_that_went_over_the_wire_is_the_same(spec: WorkloadSpec) -> None:
    """Through JSON and back nothing changes, neither the spec nor its hashes."""
    again = WorkloadSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert compare(spec, again) is Change.NONE


@settings(max_examples=10)
@given(SPECS, SPECS)
def test_two_specs_have_the_same_hash_only_if_they_are_equal(one: WorkloadSpec, other: WorkloadSpec) -> None:
    assert (spec_hash(one) == spec_hash(other)) == (one == other)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.randoms())
def test_the_order_of_keys_does_not_matter(environment: dict[str, str], random: Any) -> None:
    items = list(environment.items())
    random.shuffle(items)
    one, other = (changed(BARE, "environment", dict(order)) for order in (environment, items))
    assert container_hash(one) == container_hash(other)


# ---- hashes stay what they are ----


def test_hashes_are_the_same_in_every_release() -> None:
    """They stand in the labels of running containers: another hash would replace every container of a fleet at the upgrade.

    This test may get another spec for a field that is new; what it says of these two must never change.
    """
    assert container_hash(BARE) == "a6038e3059f0e3443c9ed073d9fc4674c997615562fc483c64d619b2c0ef692b"
    assert container_hash(FULL) == "a05047942244644fb14c09e909e3bf38009afe3f452b9e9a1fcc9f5b91cb43d9"
    assert (
        spec_hash(WorkloadSpec(container=BARE, tags={"a": "b"}))
        == "dc0b3a4beccf67c30cf470016aabf45393ae1df3145bf6dc16bc362452cbc697"
    )


@settings(max_examples=10)
@given(CONTAINERS)
def test_a_new_field_with_its_default_changes_no_old_hash(container: ContainerSpec) -> None:
    class LaterSpec(ContainerSpec):
        gpus: int = 0
        extra: dict[str, str] = Field(default_factory=dict)
        nested: Retry = Retry()

    later = LaterSpec.model_validate(container.model_dump())
    assert container_hash(later) == container_hash(container)


def test_writing_out_a_default_changes_nothing() -> None:
    written = ContainerSpec.model_validate({**BARE.model_dump(), "init": False, "stop": {"timeout": "10s"}})
    assert container_hash(written) == container_hash(BARE)


@pytest.mark.parametrize("one", [BindMount(source="a", target="/b"), VolumeMount(source="a", target="/b")])
def test_what_tells_a_bind_mount_from_a_volume_is_hashed(one: Mount) -> None:
    """Their types are defaults, yet they are all that tells these two apart."""
    both = {BindMount(source="a", target="/b"), VolumeMount(source="a", target="/b")}
    (other,) = both - {one}
    assert container_hash(changed(BARE, "mounts", (one,))) != container_hash(changed(BARE, "mounts", (other,)))


def test_the_order_of_ports_and_mounts_matters() -> None:
    """Mounts may lie in each other: their order is the user's."""
    mounts = (VolumeMount(source="a", target="/a"), VolumeMount(source="b", target="/a/b"))
    one, other = changed(BARE, "mounts", mounts), changed(BARE, "mounts", mounts[::-1])
    assert container_hash(one) != container_hash(other)


def test_changes_have_names() -> None:
    old = WorkloadSpec(container=BARE)
    assert compare(old, old) is Change.NONE
    assert compare(old, changed(old, "restart", RestartPolicy.NEVER)) is Change.SETTINGS
    assert compare(old, changed(old, "pull_policy", PullPolicy.ALWAYS)) is Change.SETTINGS
    assert compare(old, changed(old, "container", changed(BARE, "init", True))) is Change.CONTAINER
