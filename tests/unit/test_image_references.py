# SPDX-License-Identifier: Apache-2.0
"""Names of images: what Podman can never pull, and what would depend on the host, is refused before anything is sent."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from perdure.model.images import check_image
from perdure.model.manifest import json_schema

DIGEST = "sha256:" + "0123456789abcdef" * 4
GOOD = [
    "docker.io/library/nginx:1.27",
    "docker.io/library/nginx",
    "localhost/x",
    "localhost:5000/x",
    "localhost:5000/team/x:1.2_a-B",
    f"localhost:5000/x@{DIGEST}",
    f"registry.example.com:443/a/b/c/d:tag@{DIGEST}",
    "127.0.0.1:5000/x:v1",
    "[::1]:5000/x:v1",
    "[2001:db8::1]/x",
    "Registry.Example.com/a__b/c-d/e.f:LATEST",
    "quay.io/a/b--c",
    "registry:80/x",
    "docker.io/library/nginx:" + "t" * 128,
]
BAD = [
    ("", "no name"),
    ("nginx", "does not say its registry"),
    ("nginx:1.27", "does not say its registry"),
    ("library/nginx", "does not say its registry"),
    (DIGEST, "does not say its registry"),
    ("0" * 64, "does not say its registry"),
    ("docker.io/Nginx", "a repository is lower-case"),
    ("docker.io/library/ng inx", "it holds a space"),
    ("docker.io/library/nginx ", "it holds a space"),
    ("docker.io/library/nginx\n", "it holds a space"),
    ("docker.io/library/nginx:", "'' is not a tag"),
    ("docker.io/library/nginx:.x", "is not a tag"),
    ("docker.io/library/nginx:a:b", "is not a tag"),
    ("docker.io/library/nginx:" + "t" * 129, "is not a tag"),
    ("docker.io/library/nginx@sha256:abcd", "its digest has 4 characters"),
    ("docker.io/library/nginx@" + DIGEST.upper(), "is not a digest"),
    ("docker.io/library/nginx@md5:0", "is not a digest"),
    ("docker.io/library/nginx@", "is not a digest"),
    ("docker.io/", "is not a repository"),
    ("docker.io//x", "is not a repository"),
    ("docker.io/a//b", "is not a repository"),
    ("docker.io/-a", "is not a repository"),
    ("docker.io/a..b", "is not a repository"),
    ("docker.io/größe", "is not a repository"),
    ("docker://docker.io/library/nginx", "it begins with docker://"),
    ("oci-archive:/tmp/x.tar", "it begins with oci-archive:/"),
    ("https://registry.example.com/x", "it begins with https://"),
    ("user@registry.example.com/x", "is not a digest"),
    ("local_host:5000/x", "is not the address of a registry"),
    ("registry.example.com:99999/x", "is not the address of a registry"),
    ("registry.example.com:/x", "is not the address of a registry"),
    (".example.com/x", "is not the address of a registry"),
    ("docker.io/" + "a" * 250, "longer than 255"),
]


@pytest.mark.parametrize("image", GOOD, ids=repr)
def test_a_full_name_is_taken_as_it_is(image: str) -> None:
    assert check_image(image) == image


@pytest.mark.parametrize(("image", "why"), BAD, ids=repr)
def test_a_name_that_cannot_be_pulled_is_refused_with_a_reason_and_a_hint(image: str, why: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        check_image(image)
    assert caught.value.context is not None
    assert why in caught.value.context["text"]
    assert caught.value.context["hint"]


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("nginx:1.27", "docker.io/library/nginx:1.27, or localhost/nginx:1.27"),
        ("team/x", "docker.io/team/x, or localhost/team/x"),
        (DIGEST, "not its id"),
        ("x" * 200, "docker.io/library/nginx:1.27 or localhost:5000/web:1.2"),
        ("docker.io/Nginx", "'nginx'"),
    ],
    ids=repr,
)
def test_the_hint_is_what_to_write_instead(image: str, hint: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        check_image(image)
    assert caught.value.context is not None
    assert hint in caught.value.context["hint"]


@given(st.text(max_size=80))
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        assert check_image(text) == text
    except (PydanticCustomError, ValidationError):
        return
    assert re.fullmatch(r"[\x21-\x7e]+", text), "only printable ASCII can be an image"


def test_the_pattern_of_the_schema_takes_every_good_name() -> None:
    """An editor must not underline what the program takes."""
    image = json_schema()["$defs"]["WorkloadEntry"]["properties"]["image"]["anyOf"][0]
    for name in (*GOOD, *image["examples"]):
        assert re.search(image["pattern"], name), json.dumps(name)
