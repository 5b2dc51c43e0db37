# SPDX-License-Identifier: Apache-2.0
"""A certificate authority that only the tests know."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server certificate for the loopback address, its key, and the authority that signed it."""

    ca: Path
    certificate: Path
    key: Path


def issue_certificate(folder: Path) -> Certificate:
    """Make an authority and a certificate for localhost and 127.0.0.1, valid for a day."""
    folder.mkdir(parents=True, exist_ok=True)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    # The authority has a folder of its own: Podman takes every .crt beside it for one more authority.
    authority = folder / "authority"
    authority.mkdir(exist_ok=True)
    ca, ca_key = authority / "ca.crt", folder / "ca.key"
    certificate, key = folder / "server.crt", folder / "server.key"
    _openssl("req", "-x509", *curve, "-subj", "/CN=perdure test authority", "-keyout", ca_key, "-out", ca)
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    signed_by: list[str | Path] = ["-CA", ca, "-CAkey", ca_key, "-addext", names]
    _openssl("req", "-x509", *curve, "-subj", "/CN=localhost", *signed_by, "-keyout", key, "-out", certificate)
    return Certificate(ca, certificate, key)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
