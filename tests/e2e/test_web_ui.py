# SPDX-License-Identifier: Apache-2.0
"""What an operator finds in the Temporal Web UI, seen through a real browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from perdure.wire import names
from tests.e2e.command import ROOT, Perdure
from tests.e2e.showcase import FAULTS, IDENTITY, REFUSED, Showcase, a_showcase, image
from tests.support.browser import PATIENCE_MS, a_browser, follow
from tests.support.waiting import eventually_async
from tests.workflow.fleet import HOST

pytestmark = pytest.mark.asyncio(loop_scope="module")
expect.set_options(timeout=PATIENCE_MS)

GUIDE = (ROOT / "docs/guides/web-ui.md").read_text()
ROW = "[data-testid=workflows-summary-configurable-table-row]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user whose stack the showcase is."""
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def show(home: Path) -> AsyncIterator[Showcase]:
    async with a_showcase(home) as show:
        yield show


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def described(show: Showcase, home: Path) -> str:
    """What ``perdure describe`` prints of a workload in trouble."""
    done = await asyncio.to_thread(Perdure(home, {}), "describe", "api")
    return done.out


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(show: Showcase, described: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """The browser, at the address that ``perdure describe`` prints."""
    found = re.search(r"Web UI +(\S+)", described)
    assert found is not None, described
    async with a_browser(tmp_path_factory.mktemp("profile"), show.ui_url) as page:
        await page.goto(found[1])
        await is_of(page, "workload/edge-1/api")
        yield page


async def visit(page: Page, show: Showcase, name: str, host: str = HOST) -> None:
    """Go to the page of a workload, unless it is open."""
    url = names.workload_url(show.ui_url, "default", host, name)
    if not page.url.startswith(url + "/"):
        await follow(page, url)
    await is_of(page, names.workload_id(host, name))


async def is_of(page: Page, workflow_id: str) -> None:
    await expect(page.get_by_test_id("workflow-id-heading")).to_contain_text(workflow_id)


async def tab(page: Page, name: str) -> None:
    await page.get_by_test_id(f"{name}-tab").click()


async def test_the_address_that_describe_prints_tells_why_on_its_first_page(page: Page, show: Showcase) -> None:
    """State, kind and hint, and which attempt comes next of what."""
    await visit(page, show, "api")
    hint = FAULTS["api:1"].hint
    await expect(page.get_by_text(f"PullBackoff, RegistryUnreachable: {hint[:60]}")).to_be_visible()
    await expect(page.get_by_text(f"{image('api:1')}, generation 1").first).to_be_visible()
    await expect(page.get_by_text("Attempt 2 /")).to_be_visible()


async def test_pending_activities_count_down_to_the_next_try(page: Page, show: Showcase) -> None:
    """With the attempt, the whole error, and who made it."""
    await visit(page, show, "api")
    await tab(page, "pending-activities")
    content = page.locator("#content")
    for text in ("pull-g1", "Next Retry", "2 / Unlimited", IDENTITY, "RegistryUnreachable"):
        await expect(content).to_contain_text(text, ignore_case=True)
    await expect(content).to_contain_text("see `journalctl -u podman` -- *it* is [not] <there>")
    await expect(content).not_to_contain_text("Stack Trace")


async def test_current_details_tell_the_whole_story(page: Page, show: Showcase) -> None:
    """The error letter by letter, though it looks like Markdown."""
    await visit(page, show, "api")
    await tab(page, "user-metadata")
    details = page.frame_locator("#user-metadata-current-details").locator("body")
    await expect(details).to_contain_text("Pending / PullBackoff")
    for text in ("RegistryUnreachable in pull", FAULTS["api:1"].hint, "perdure retry edge-1/api", "Since:", REFUSED):
        await expect(details).to_contain_text(text)
    await expect(details).to_contain_text("Next try: see Pending Activities")
    await expect(details).to_contain_text("Pending / Pulling, generation 1")
    await expect(page.frame_locator("#user-metadata-details").locator("body")).to_contain_text("Request Cancellation")


async def test_the_memo_has_it_too(page: Page, show: Showcase) -> None:
    """It can be read while no control worker runs."""
    await visit(page, show, "api")
    await tab(page, "memo")
    content = page.locator("#content")
    for text in ('"state": "Pending/PullBackoff"', '"lastErrorKind": "RegistryUnreachable"', FAULTS["api:1"].hint):
        await expect(content).to_contain_text(text)


async def test_the_queries_answer(page: Page, show: Showcase) -> None:
    await visit(page, show, "api")
    await tab(page, "queries")
    await page.get_by_role("button", name="Run Query").click()
    await expect(page.locator("#content")).to_contain_text("RegistryUnreachable: pinging container registry")


async def test_the_list_of_the_guide_shows_what_wants_attention(page: Page, show: Showcase) -> None:
    """With the columns and the address that the guide recommends."""
    (columns,) = re.findall(r"```js\n(.+?)```", GUIDE, re.DOTALL)
    (address,) = re.findall(r"http://\S+/namespaces/default/workflows\?query=\S+", GUIDE)
    await page.evaluate(columns)
    await follow(page, show.ui_url + address[address.index("/namespaces") :])
    wanted = [
        "Pending PullBackoff workload/edge-1/api RegistryUnreachable 1",
        "Failed Rejected workload/edge-1/batch InvalidOption 1",
        "Pending RestartBackoff workload/edge-1/crash 1",
        "Paused Ok workload/edge-1/db 1",
        "Pending PullBackoff workload/edge-1/shop ImageNotFound 2",
        "Pending Pulling workload/edge-1/slow 1",
        "Pending WaitingForHost workload/edge-9/far 1",
    ]

    async def look() -> bool:
        """The page shows what was when it was loaded, and the server's index lags a little behind."""
        await page.get_by_role("button", name="Refresh").click()
        await expect(page.locator(ROW)).to_have_count(len(wanted))
        rows = [" ".join(row.split()) for row in await page.locator(ROW).all_inner_texts()]
        missing = [words for words in wanted if not any(words in row for row in rows)]
        assert not missing, rows
        return True

    await eventually_async(look, within=PATIENCE_MS / 1000)


async def test_a_pull_under_way_tells_how_far_it_is(page: Page, show: Showcase) -> None:
    await visit(page, show, "slow")
    await tab(page, "pending-activities")
    await expect(page.locator("#content")).to_contain_text("Heartbeat Details")
    await expect(page.locator("#content")).to_contain_text('"detail": "34 of 156 MiB"')


async def test_what_runs_while_a_newer_generation_fails_is_told(page: Page, show: Showcase) -> None:
    await visit(page, show, "shop")
    await expect(page.get_by_text("PullBackoff, ImageNotFound")).to_be_visible()
    await tab(page, "user-metadata")
    details = page.frame_locator("#user-metadata-current-details").locator("body")
    await expect(details).to_contain_text("Runs meanwhile: generation 1")
    await expect(details).to_contain_text("shop:2, generation 2")


async def test_work_that_no_host_takes_up_does_not_look_as_if_it_were_under_way(page: Page, show: Showcase) -> None:
    await visit(page, show, "far", "edge-9")
    await expect(page.get_by_text("WaitingForHost: no worker for host edge-9, never seen")).to_be_visible()


async def test_a_parked_workload_says_so_and_is_woken_by_a_signal_from_the_page(page: Page, show: Showcase) -> None:
    """Which needs no input."""
    await visit(page, show, "batch")
    await expect(page.get_by_text("Rejected, InvalidOption:")).to_be_visible()
    starts = show.engine.starts.count(image("batch:1"))
    await page.get_by_role("button", name="More Actions").click()
    await page.get_by_role("menuitem", name="Send a Signal").click()
    dialog = page.get_by_role("dialog").filter(has_text="Send a Signal")
    await dialog.get_by_test_id("signal-select-button").click()
    await dialog.get_by_role("option", name="retry_now").click()
    await dialog.get_by_test_id("confirm-modal-button").click()
    await show.fleet.that(lambda: show.engine.starts.count(image("batch:1")) > starts, "it is tried again")


async def test_request_cancellation_removes_the_workload(page: Page, show: Showcase) -> None:
    """The largest button of the page does what it seems to do, and leaves no container behind."""
    assert show.engine.running("web")
    await visit(page, show, "web")
    await page.get_by_role("button", name="Request Cancellation").click()
    dialog = page.get_by_role("dialog").filter(has_text="Cancel Workflow")
    await dialog.get_by_test_id("confirm-modal-button").click()
    await expect(page.get_by_test_id("execution-status").first).to_have_text("Completed", ignore_case=True)
    await expect(page.locator("#content")).to_contain_text("removed at generation 1")
    assert not show.engine.running("web")
