# SPDX-License-Identifier: Apache-2.0
"""Take secrets out of a text before it goes anywhere: into a status, a log, a history.

Perdure never holds a registry's password, but an error's text may: a URL with a user in it, a signed URL of a blob, a
registry that sends back what it was told. What only looks like a secret goes too: a hidden harmless word costs less than
a password in a history that is kept for months.
"""

from __future__ import annotations

import base64
import binascii
import re

HIDDEN = "***"

_KEYS = (
    r"[\w-]*(?:auth(?:orization)?|password|passwd|pwd|passphrase|token|client[_-]?secret|api[_-]?key|access[_-]?key"
    r"|signature)"
)
_RULES = (
    # scheme://user:password@host, also with a blank in the password
    (re.compile(r"(?<=://)[^/@\s\"']*:[^/@\n\"']*@"), f"{HIDDEN}@"),
    (re.compile(r"(?<=://)[^/@\s\"']+@"), f"{HIDDEN}@"),
    # user:password@host where a scheme is missing, but never name:tag@sha256:...
    (re.compile(r"(?<![\w./-])[\w.+-]+:[^/@\s\"']+(?: [^/@\s\"':]+)?@(?!sha\d+:)"), f"{HIDDEN}@"),
    # signed URLs carry their key in the query
    (re.compile(r"(\bhttps?://[^\s\"'?]+)\?[^\s\"']+"), rf"\1?{HIDDEN}"),
    # the runtime quotes a whole environment variable
    (re.compile(r"(contain null\S*: \"[^\"=]*=)[^\"]*"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(basic|bearer|negotiate)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # "password": "value" of JSON, and password=value
    (re.compile(rf"([\"']{_KEYS}[\"']\s*:\s*)(\"[^\"]*\"|'[^']*')", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(rf"(?<![\w\"'-])({_KEYS}=)(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)", re.IGNORECASE), rf"\1{HIDDEN}"),
    # password: value, unless it goes on in plain words, as in "auth token: invalid username/password: unauthorized"
    (
        re.compile(
            rf"(?<![\w\"'-])((?i:{_KEYS})\s*:\s*)(\"[^\"]*\"|'[^']*'|(?![a-z]+(?:/[a-z]+)?[\s:,.;]|[a-z]+$)[^\s,;&\"']+)"
        ),
        rf"\1{HIDDEN}",
    ),
)
_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{8,}={0,2}(?![\w+/=-])")


def redact(text: str) -> str:
    """The text with everything that looks like credentials replaced by ``***``."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _BASE64.sub(_hide_credentials, text)


def _hide_credentials(word: re.Match[str]) -> str:
    return HIDDEN if _holds_credentials(word[0]) else word[0]


def _holds_credentials(word: str) -> bool:
    """Whether a word is the base64 of ``user:password``, as HTTP and auth files write it."""
    padded = word.rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        decoded = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return decoded.isprintable() and ":" in decoded.strip(":")
