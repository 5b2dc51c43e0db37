# SPDX-License-Identifier: Apache-2.0
"""U7: the password of a registry stays where its user has put it. Every other case is watched for it, too."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from perdure.model.faults import FaultKind
from perdure.model.messages import Outcome
from tests.cases import secret
from tests.cases.case import Case
from tests.cases.stage import Stage


class Gossip(BaseHTTPRequestHandler):
    """A registry that refuses everybody, and repeats what it was told in every form that it can think of."""

    def do_GET(self) -> None:
        told = self.headers.get("Authorization", "")
        if not told:
            self._say(401, "log in", {"WWW-Authenticate": 'Basic realm="gossip"'})
        elif self.path == "/v2/":
            self._say(200, "welcome", {})
        else:
            user, _, password = b64decode(told.removeprefix("Basic ")).decode().partition(":")
            host = self.headers["Host"]
            says = [
                f"Authorization: {told} has no access",
                f"see https://{user}:{quote(password)}@{host}/v2/",
                f"or https://{user}:{password}@{host}/v2/",
                f'{{"password": "{password}"}}',
                f"password={quote(password)}",
                f"https://{host}/token?account={user}&secret={quote(password)}",
            ]
            self._say(403, "; ".join(says), {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing on stderr."""

    def _say(self, code: int, message: str, headers: dict[str, str]) -> None:
        body = json.dumps({"errors": [{"code": "DENIED", "message": message}]}).encode()
        self.send_response(code)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def gossip(stage: Stage) -> Iterator[str]:
    """Its address; the host's user is logged in there."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Gossip) as server:
        address = f"localhost:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        secret.log_in(stage.host.configuration, address)
        yield address
        secret.log_out(stage.host.configuration, address)
        server.shutdown()
        thread.join()


def test_u7_the_forms_are_those_that_an_encoding_makes() -> None:
    """The search below can find something."""
    for text in (f"x{secret.PASSWORD}x", quote(secret.PASSWORD), f"Basic {secret.FORMS[5].decode()}=="):
        assert secret.found_in(text.encode()), text
    assert secret.found_in(b"a word and p^s, s%41") == []


async def test_u7_a_login_is_used_and_never_shown(case: Case, stage: Stage, private_image: str, gossip: str) -> None:
    """Raw, URL-encoded or base64: not in status, logs, histories, the server's database, or any process's arguments.

    The logs, histories and arguments are searched at the end of every case.
    """
    good, bad = case.several(2)
    await case.podman.forget(private_image)
    answers = await case.apply({good: {"image": private_image}, bad: {"image": f"{gossip}/team/app:1"}})
    assert [answer and answer.outcome for answer in answers.values()] == [Outcome.RUNNING, Outcome.RETRYING]
    status = await bad.has("was tried again", lambda status: status.attempt >= 2)
    assert status.last_error is not None
    assert status.last_error.kind is FaultKind.ACCESS_DENIED
    assert "denied: " in status.last_error.message, "the registry's own words are told, but for the secrets in them"
    for shown in (status, await good.status(), answers[bad]):
        assert shown is not None
        assert secret.found_in(shown.model_dump_json().encode()) == []
    await case.end()
    found = await asyncio.to_thread(everything_kept_by, stage)
    assert found > 0


def everything_kept_by(stage: Stage) -> int:
    """Search all that the server and the workers have written to disk; answers how many files there were."""
    files = [path for home in (stage.temporal.home, stage.host.home, stage.home) for path in home.rglob("*")]
    looked = 0
    for path in files:
        if path.is_file() and stage.host.configuration not in path.parents:
            assert secret.found_in(path.read_bytes()) == [], f"{path} shows the password"
            looked += 1
    assert Path(stage.temporal.home / "state.db") in files
    return looked
