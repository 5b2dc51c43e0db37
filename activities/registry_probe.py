# SPDX-License-Identifier: Apache-2.0
"""One question to a registry, asked only when a pull has been silent for too long.

Podman waits up to two minutes by itself when a registry answers 429, without a word to its caller. So a silent pull may be
one that the registry asked to wait; the manifest's URL tells. The question is asked without credentials: we have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

_TIMEOUT: Final = timedelta(seconds=3)
_HUB: Final = "registry-1.docker.io"
_ACCEPTED: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A registry that answered 429."""

    retry_after: timedelta | None
    """How long it asks us to wait, where it says."""


async def find_rate_limit(image: str) -> RateLimit | None:
    """Ask for the image's manifest once; None where the answer is any other than 429, or none comes."""
    if (path := manifest_path(image)) is None:
        return None
    async with httpx.AsyncClient(timeout=_TIMEOUT.total_seconds(), trust_env=False) as client:
        for scheme in ("https", "http"):
            try:
                answer = await client.head(f"{scheme}://{path}", headers={"Accept": _ACCEPTED})
            except (httpx.HTTPError, httpx.InvalidURL):
                continue
            return RateLimit(parse_retry_after(answer.headers)) if answer.status_code == 429 else None
    return None


def manifest_path(image: str) -> str | None:
    """``host/v2/repository/manifests/reference`` of an image, or None for a name without a registry."""
    found = re.fullmatch(
        r"(?P<host>[^/]+)/(?P<repository>[^:@]+)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>\w+:[0-9a-f]+))?", image
    )
    if found is None:
        return None
    host = _HUB if found["host"] in ("docker.io", "index.docker.io") else found["host"]
    return f"{host}/v2/{found['repository']}/manifests/{found['digest'] or found['tag'] or 'latest'}"


def parse_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """The header Retry-After, in either of its forms: seconds, or a date."""
    text = headers.get("Retry-After", "").strip()
    if text.isdigit():
        return timedelta(seconds=min(int(text), 86_400))
    try:
        wait = parsedate_to_datetime(text) - datetime.now(UTC)
    except (ValueError, TypeError):
        return None
    return min(max(wait, timedelta(0)), timedelta(days=1))
