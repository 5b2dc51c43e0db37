# SPDX-License-Identifier: Apache-2.0
"""The grammar of an image's name: ``REGISTRY/REPOSITORY[:TAG][@DIGEST]``.

A name that Podman can never pull is refused here, before anything is sent. A short name (``nginx``) is refused too: which
registry it means depends on the configuration of each host, and so would the image that runs.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from perdure.model.rules import refusal, shown

_HOST_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]+\])(?::(?P<port>[0-9]{{1,5}}))?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_LONGEST_NAME = 255
EXAMPLES = ("docker.io/library/nginx:1.27", "localhost:5000/web:1.2")


def check_image(image: str) -> str:
    """Return the name of an image, or raise a refusal that says what is wrong with it."""
    write = f"write REGISTRY/REPOSITORY:TAG, such as {EXAMPLES[0]} or {EXAMPLES[1]}"
    if not image:
        raise refusal("the image has no name", write)
    if re.search(r"\s", image):
        raise refusal(f"{shown(image)} is not an image: it holds a space", write)
    if transport := re.match(r"[a-z-]+:/{1,2}", image):
        raise refusal(f"{shown(image)} is not an image: it begins with {transport[0]}", f"leave {transport[0]} out")
    name, at, digest = image.partition("@")
    if at:
        _check_digest(image, digest)
    registry, slash, rest = name.partition("/")
    if not slash or not _is_registry(registry):
        raise refusal(f"{shown(image)} does not say its registry", _full_name(image, registry, slash))
    fullmatch = _REGISTRY.fullmatch(registry)
    if fullmatch is None or not 0 < int(fullmatch["port"] or 1) <= 65535:
        raise refusal(f"{shown(image)} is not an image: {shown(registry)} is not the address of a registry", write)
    repository, colon, tag = rest.partition(":")
    if repository != repository.lower():
        raise refusal(
            f"{shown(image)} is not an image: a repository is lower-case", f"write {shown(repository.lower())}"
        )
    if not _REPOSITORY.fullmatch(repository):
        raise refusal(
            f"{shown(image)} is not an image: {shown(repository)} is not a repository",
            "a repository is lower-case letters and digits, with single . _ - between them, in parts joined by /",
        )
    if colon and not _TAG.fullmatch(tag):
        raise refusal(
            f"{shown(image)} is not an image: {shown(tag)} is not a tag",
            "a tag is at most 128 letters, digits, and _ . - and begins with none of . -",
        )
    if len(registry) + 1 + len(repository) > _LONGEST_NAME:
        raise refusal(f"{shown(image)} is not an image: its name is longer than {_LONGEST_NAME} characters", write)
    return image


def _is_registry(first: str) -> bool:
    """Whether the part before the first slash is a registry, and not the beginning of a repository."""
    return "." in first or ":" in first or first == "localhost"


def _full_name(image: str, first: str, slash: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", image) or image.startswith("sha256:"):
        return "write the name of the image, not its id, such as " + EXAMPLES[0]
    guess = f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    local = f"localhost/{image}"
    if not first or len(image) > 100:
        return f"write the full name, such as {EXAMPLES[0]} or {EXAMPLES[1]}"
    return f"write the full name, such as {guess}, or {local} for an image that was made on the host"


def _check_digest(image: str, digest: str) -> None:
    algorithm, _, digits = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise refusal(f"{shown(image)} is not an image: {shown(digest)} is not a digest", "write it as @sha256:...")
    if not re.fullmatch(r"[0-9a-f]+", digits) or len(digits) != length:
        raise refusal(
            f"{shown(image)} is not an image: its digest has {len(digits)} characters",
            f"a {algorithm} digest has {length} lower-case hexadecimal digits",
        )


_PATTERN = (
    r"^(?:localhost|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+|[a-zA-Z0-9.-]+:[0-9]+|\[[0-9a-fA-F:]+\](?::[0-9]+)?)(?::[0-9]+)?"
    r"/[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?(?:@[a-z0-9]+:[0-9a-f]+)?$"
)
ImageReference = Annotated[
    str,
    AfterValidator(check_image),
    Field(json_schema_extra={"pattern": _PATTERN, "examples": list(EXAMPLES)}),
]
"""The full name of an image, with its registry."""
