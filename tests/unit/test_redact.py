# SPDX-License-Identifier: Apache-2.0
"""No password survives in an error's text, and nothing that a user needs is hidden."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.policy.redact import redact

PASSWORD = "p^s s%41"
ENCODED = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        f'Get "https://alice:{quote(PASSWORD)}@registry.example/v2/": EOF',
        f'Get "https://alice:{PASSWORD}@registry.example/v2/": EOF',
        f"normalizing image alice:{quote(PASSWORD)}@localhost:5000/app:v1: invalid reference format",
        f"alice:{PASSWORD}@localhost:5000/app:v1: invalid reference format",
        f"unauthorized: bad header Authorization: Basic {ENCODED}",
        f"denied: Basic {ENCODED} is refused",
        f"denied: {ENCODED}",
        f'auth file says {{"auth": "{ENCODED}"}}',
        f'password="{PASSWORD}" is wrong',
        f'wrong password: "{PASSWORD}"',
        f"X-Registry-Auth: {base64.urlsafe_b64encode(b'{' + PASSWORD.encode() + b'}').decode()}",
    ],
)
def test_a_password_is_hidden_in_every_form(text: str) -> None:
    """Raw, URL-encoded and base64."""
    hidden = redact(text)
    for secret in (PASSWORD, quote(PASSWORD), quote(PASSWORD, safe=""), ENCODED, "s%41", "s%2541"):
        assert secret not in hidden
    assert "***" in hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://cdn.example/blob?X-Amz-Signature=abc&X-Amz-Credential=def: EOF", "https://cdn.example/blob?***"),
        ("Bearer eyJhbGciOiJSUzI1NiJ9.e30.abc", "Bearer ***"),
        ("access_token=abc123", "access_token=***"),
        ("password: Geheim7", "password: ***"),
        ("password=geheim", "password=***"),
        ('can\'t contain null(\\x00): "DB_PASS=geheim\\x00x": OCI runtime error', '"DB_PASS=***": OCI runtime error'),
    ],
)
def test_other_secrets_are_hidden_but_their_place_is_shown(text: str, shown: str) -> None:
    """Who reads the error should see where the secret was."""
    assert shown in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        'pinging registry localhost:5000: Get "https://localhost:5000/v2/": dial tcp 127.0.0.1:5000: connection refused',
        "reading manifest 1 in localhost:15114/team/bb: unauthorized: authentication required",
        "localhost:5000/team/bb:1@sha256:" + "0a" * 32 + ": manifest unknown",
        'no secret with name or id "db-password": no such secret',
        "Digest did not match, expected sha256:" + "ab" * 32 + ", got sha256:" + "cd" * 32,
        'storing blob to file "/var/tmp/storage4000094540/1": happened during read: unexpected EOF',
        'runc: exec: "/usr/local/bin/entrypoint.sh": stat /usr/local/bin/entrypoint.sh: no such file or directory',
        "cannot start container web-g1-abcdef01: listen tcp4 :15191: bind: address already in use",
        "unable to retrieve auth token: invalid username/password: unauthorized: authentication required",
        "unable to find user bob: no matching entries in passwd file",
    ],
)
def test_what_a_user_needs_is_kept(text: str) -> None:
    """Names, addresses, digests and paths are no secrets."""
    assert redact(text) == text


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/\"'@"), min_size=8))
def test_any_password_in_a_url_is_hidden(password: str) -> None:
    """Whatever characters it has, as long as the URL is one."""
    assert password not in redact(f"https://alice:{password}@registry.example/v2/: EOF")


@given(st.text())
def test_any_text_can_be_redacted_twice(text: str) -> None:
    """The second time changes nothing that is still a secret, and nothing fails."""
    redact(redact(text))
