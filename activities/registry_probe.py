# SPDX-License-Identifier: Apache-2.0
"""Two questions to a registry, asked without credentials: we have none.

Whether it asks to wait: Podman waits up to two minutes by itself when a registry answers 429, without a word to its caller. So a
silent pull may be one that the registry asked to wait; the manifest's URL tells.

Whether it is there at all: nothing is sent, so nobody needs to be trusted, and no certificate is checked. Any answer but a
failure of the server says that it is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import httpx

from activities.translate import root_cause

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
    return f"{_host_of(found['host'])}/v2/{found['repository']}/manifests/{found['digest'] or found['tag'] or 'latest'}"


def _host_of(registry: str) -> str:
    return _HUB if registry in ("docker.io", "index.docker.io") else registry


async def why_away(registry: str) -> str | None:
    """Why a registry does not answer, in few words; None where it answers."""
    why = "no such registry"
    try:
        async with (
            asyncio.timeout(_TIMEOUT.total_seconds()),
            httpx.AsyncClient(timeout=_TIMEOUT.total_seconds(), trust_env=False, verify=False) as client,  # noqa: S501 - nothing is sent
        ):
            for scheme in ("https", "http"):
                try:
                    answer = await client.get(f"{scheme}://{_host_of(registry)}/v2/")
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    why = _in_words(error)
                else:
                    failed = answer.status_code >= 500 or answer.status_code == HTTPStatus.TOO_MANY_REQUESTS
                    return f"it answers {answer.status_code} {answer.reason_phrase}".strip() if failed else None
    except TimeoutError:
        return f"no answer within {_TIMEOUT.total_seconds():g} s"
    return why


def _in_words(error: Exception) -> str:
    """The same words as Podman's, so that one trouble is told in one way."""
    if isinstance(error, httpx.RemoteProtocolError):
        return "EOF"
    return root_cause(error).lower()


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
