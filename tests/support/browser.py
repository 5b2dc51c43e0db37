# SPDX-License-Identifier: Apache-2.0
"""A Chromium of the system without a window, as a person would use it on the Temporal Web UI.

What it asks for is fetched by the driver instead of by Chromium, which drops every connection as soon as any network interface of
the machine comes or goes, and those of containers do so all the time. It also keeps the page's news feed from the internet.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import APIResponse, Page, Route, async_playwright
from playwright.async_api import Error as PlaywrightError

PROGRAMS = ("chromium", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 30_000
"""For a page to show something. A page of the Web UI takes one to ten seconds, by how busy the machine is."""
FOLLOW = """url => {
    const link = document.createElement("a");
    link.href = url;
    document.body.append(link);
    link.click();
    link.remove();
}"""
UNCHANGING = "/_app/immutable/"
"""The Web UI's own code, which is most of what a page asks for."""


@asynccontextmanager
async def a_browser(profile: Path, site: str) -> AsyncIterator[Page]:
    """A page of a browser that knows one site only. Its profile must be an empty folder."""
    kept: dict[str, APIResponse] = {}

    async def answer(route: Route) -> None:
        url = route.request.url
        if not url.startswith(site):
            await route.abort()
            return
        try:
            found = kept.get(url) or await route.fetch(timeout=0)
            if UNCHANGING in url:
                kept[url] = found
            await route.fulfill(response=found)
        except PlaywrightError:
            if not page.is_closed():
                await _give_up(route)

    async with async_playwright() as driver:
        context = await driver.chromium.launch_persistent_context(
            profile, executable_path=program(), args=FLAGS, viewport={"width": 1400, "height": 1000}
        )
        page = context.pages[0]
        page.set_default_timeout(PATIENCE_MS)
        await context.route("**/*", answer)
        try:
            yield page
        finally:
            await context.unroute_all(behavior="ignoreErrors")
            await context.close()


def program() -> str:
    """The browser's program."""
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None:
            return found
    raise FileNotFoundError(f"none of {', '.join(PROGRAMS)} is installed: deploy/install-host.sh test")


async def follow(page: Page, url: str) -> None:
    """Go to another page of the same site as by a link on this one, which takes a fifth of the time of loading it anew."""
    await page.evaluate(FOLLOW, url)


async def _give_up(route: Route) -> None:
    """Let the page see an error, unless it has left the request behind."""
    try:
        await route.abort()
    except PlaywrightError:
        return
