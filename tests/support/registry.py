# SPDX-License-Identifier: Apache-2.0
"""A real registry (the Debian package ``docker-registry``) on a free port, which can be killed and started again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import bcrypt

from tests.support.certificates import Certificate
from tests.support.ports import free_port, is_listening
from tests.support.programs import Program

REQUEST: Final = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d{3})')


class Registry(Program):
    """A registry with its own storage. Its port stays the same for its whole life.

    Args:
        users: names and passwords that may pull and push; everybody where None.
        certificate: speak TLS with this certificate.
    """

    def __init__(self, users: Mapping[str, str] | None = None, certificate: Certificate | None = None) -> None:
        super().__init__("registry")
        self.port = free_port()
        # Podman in tests takes localhost for insecure, 127.0.0.1 not: see IsolatedPodman.
        self.address = f"{'127.0.0.1' if certificate else 'localhost'}:{self.port}"
        self._users = users
        self._certificate = certificate

    def reference(self, repository: str, tag: str = "1") -> str:
        """How an image in this registry is called."""
        return f"{self.address}/{repository}:{tag}"

    def requests(self, repository: str = "", method: str = "") -> list[tuple[str, str, int]]:
        """The requests so far, as method, path and status, optionally only those for a repository or of a method."""
        found = [(m["method"], m["path"], int(m["status"])) for m in REQUEST.finditer(self.log.read_text())]
        return [r for r in found if (not repository or f"/{repository}/" in r[1]) and (not method or r[0] == method)]

    def _command(self) -> list[str]:
        config = self.home / "config.yml"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        return ["docker-registry", "serve", str(config)]

    def _answers(self) -> bool:
        return is_listening(self.port)

    def _config(self) -> dict[str, Any]:
        http: dict[str, Any] = {"addr": f"127.0.0.1:{self.port}", "relativeurls": True}
        if self._certificate:
            http["tls"] = {"certificate": str(self._certificate.certificate), "key": str(self._certificate.key)}
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": False}},
            "storage": {"filesystem": {"rootdirectory": str(self.home / "data")}, "delete": {"enabled": True}},
            "http": http,
        }
        if self._users is not None:
            passwords = self.home / "htpasswd"
            passwords.write_text("".join(f"{name}:{_hashed(secret)}\n" for name, secret in self._users.items()))
            config["auth"] = {"htpasswd": {"realm": "perdure tests", "path": str(passwords)}}
        return config


def _hashed(password: str) -> str:
    # Four rounds are the least that bcrypt allows: tests need no strength.
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds=4, prefix=b"2b")).decode()
