# SPDX-License-Identifier: Apache-2.0
"""Every command line and every manifest that the documents show is one that the program understands."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from client.cli.app import app
from client.manifests import load
from tests.architecture.repository import ROOT, tracked

PAGES = [page for page in tracked("*.md") if page.parts[:2] != ("docs", "reference")]


def commands(page: Path) -> list[str]:
    """What begins with ``perdure`` in code blocks and code words."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    pieces = [piece.strip() for line in lines for piece in re.split(r"&&|\|", line.partition("  #")[0])]
    found = [re.match(r"(?:sudo )?(?:\w+=\S+ )*(?:\S*/)?perdure (?P<rest>[a-z].*)", piece) for piece in pieces]
    return [match["rest"] for match in found if match]


SHOWN = [(page, command) for page in PAGES for command in dict.fromkeys(commands(page))]
MANIFESTS = [
    (page, text)
    for page in PAGES
    for text in re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    if "apiVersion:" in text
]


def test_documents_show_commands() -> None:
    """Else the pattern that finds them is wrong."""
    assert len(SHOWN) > 10


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=lambda value: str(value).replace("/", "-"))
def test_documented_command_is_understood(page: Path, command: str) -> None:
    words = shlex.split(command)
    known = get_command(app)
    while words and (commands := getattr(known, "commands", None)):
        assert words[0] in commands, f"{page}: perdure {command}"
        known = commands[words.pop(0)]
    options = {option for parameter in known.params for option in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    assert used <= options | {"--help", "-h"}, f"{page}: perdure {command}"


@pytest.mark.parametrize(("page", "text"), MANIFESTS, ids=lambda value: str(value)[:40].replace("/", "-"))
def test_documented_manifest_is_valid(page: Path, text: str) -> None:
    (loaded,) = load(["-"], stdin=io.BytesIO(text.encode()))
    assert loaded.manifest.workloads, page
