# SPDX-License-Identifier: Apache-2.0
"""Links lead somewhere, and every page can be reached from the first one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, tracked

PAGES = tracked("*.md")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    """Where a page leads, within the repository."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(text) if "://" not in link and not link.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """The names that the headings of a page get."""
    titles = re.findall(r"^#{1,6}\s+(.+?)\s*$", (ROOT / page).read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert (ROOT / target).exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page}: {link}"


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    waiting = [Path("docs/index.md")]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        found = [(ROOT / page.parent / link.partition("#")[0]).resolve() for link in links(page)]
        waiting += [target.relative_to(ROOT) for target in found if target.is_file()]
    assert {page for page in PAGES if page.parts[0] == "docs"} <= seen


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in PAGES if page.parent == Path("docs/adr") and page.name[:4].isdigit()]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
