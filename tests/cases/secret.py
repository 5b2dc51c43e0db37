# SPDX-License-Identifier: Apache-2.0
"""One password of a registry, and every form in which it could come to light."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from secrets import token_hex
from typing import Final
from urllib.parse import quote, quote_plus

USER: Final = "alice"
PASSWORD: Final = f"p^s s%41 {token_hex(4)}"
"""Everything that an encoding might change, and unlike every other password on this machine."""

FORMS: Final = tuple(
    form.encode()
    for form in (
        PASSWORD,
        quote(PASSWORD),
        quote_plus(PASSWORD),
        quote(quote(PASSWORD)),
        b64encode(PASSWORD.encode()).decode().rstrip("="),
        b64encode(f"{USER}:{PASSWORD}".encode()).decode().rstrip("="),
        # The password alone within the base64 of something longer, at the two other places that it can have there.
        b64encode(f"x{PASSWORD}".encode()).decode()[4:-4],
        b64encode(f"xx{PASSWORD}".encode()).decode()[4:-4],
    )
)
"""Raw, URL-encoded once and twice, and base64."""


def found_in(text: bytes) -> list[str]:
    """The forms that a text shows."""
    return [form.decode() for form in FORMS if form in text]


def log_in(configuration: Path, registry: str, *, user: str = USER, password: str = PASSWORD) -> None:
    """Write what ``podman login`` writes, into the folder of a user's configuration; other logins are kept."""
    file = configuration / "containers" / "auth.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(file.read_text())["auths"] if file.exists() else {}
    known[registry] = {"auth": b64encode(f"{user}:{password}".encode()).decode()}
    file.write_text(json.dumps({"auths": known}))
    file.chmod(0o600)


def log_out(configuration: Path, registry: str) -> None:
    """Take a login away."""
    file = configuration / "containers" / "auth.json"
    if file.exists():
        known = json.loads(file.read_text())["auths"]
        known.pop(registry, None)
        file.write_text(json.dumps({"auths": known}))
