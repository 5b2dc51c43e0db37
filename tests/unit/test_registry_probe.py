# SPDX-License-Identifier: Apache-2.0
"""The one question to a silent registry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from activities.registry_probe import find_rate_limit, manifest_path, parse_retry_after


@pytest.mark.parametrize(
    ("image", "path"),
    [
        ("localhost:5000/team/app:1", "localhost:5000/v2/team/app/manifests/1"),
        ("r.example/app", "r.example/v2/app/manifests/latest"),
        ("r.example/app:1@sha256:0a", "r.example/v2/app/manifests/sha256:0a"),
        ("docker.io/library/nginx:1.27", "registry-1.docker.io/v2/library/nginx/manifests/1.27"),
        ("nginx", None),
        ("", None),
    ],
)
def test_where_a_manifest_is(image: str, path: str | None) -> None:
    """The digest wins over the tag, as in Podman."""
    assert manifest_path(image) == path


def test_retry_after_in_both_forms() -> None:
    """Seconds, or a date; a wild number is bounded, nonsense is none."""
    assert parse_retry_after({"Retry-After": "120"}) == timedelta(seconds=120)
    assert parse_retry_after({"Retry-After": "9" * 30}) == timedelta(days=1)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert timedelta(seconds=50) < (parse_retry_after({"Retry-After": soon}) or timedelta()) <= timedelta(seconds=60)
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    assert parse_retry_after({"Retry-After": past}) == timedelta(0)
    assert parse_retry_after({"Retry-After": "soon"}) is None
    assert parse_retry_after({}) is None


async def test_no_answer_is_no_limit() -> None:
    """Whatever is wrong, the fault stays what it was."""
    assert await find_rate_limit("localhost:1/app:1") is None
    assert await find_rate_limit("not an image") is None
