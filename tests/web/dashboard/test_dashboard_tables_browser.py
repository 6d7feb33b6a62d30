"""The pages about tables in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dashboard_browser import PATIENCE, playwright
from dashboard_tables_world import TableWorld

from penstock.web.dashboard.app import running_dashboard

EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'><svg onload='window.hacked=1'>"


@pytest.fixture
def world() -> Iterator[TableWorld]:
    found = TableWorld()
    yield found
    found.close()


@pytest.fixture
def url(world: TableWorld) -> Iterator[str]:
    with running_dashboard(world.client.app) as address:  # type: ignore[arg-type]
        yield address


@pytest.fixture
def windows(browser: Any) -> Iterator[Any]:
    """Opens windows of one browser."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    yield context.new_page
    context.close()


def test_an_item_edited_in_two_windows_is_saved_once_and_the_second_is_told_what_changed(
    world: TableWorld, url: str, windows: Any
) -> None:
    world.put("things", id="1", name="old", count=1)
    first, second = windows(), windows()
    for page in (first, second):
        page.goto(f"{url}/tables/things/items")
        page.click("table.items a.mono")
        playwright.expect(page.locator("textarea")).to_be_visible()
    first.fill("textarea", '{"id": {"S": "1"}, "name": {"S": "first"}, "count": {"N": "1"}}')
    first.click("text=Save")
    playwright.expect(first.locator(".done")).to_have_text("Saved.")
    second.fill("textarea", '{"id": {"S": "1"}, "name": {"S": "old"}, "count": {"N": "2"}}')
    second.click("text=Save")
    playwright.expect(second.locator(".conflict")).to_contain_text("the item has changed since you looked")
    playwright.expect(second.locator(".conflict tbody")).to_contain_text("first")
    assert '"2"' in second.input_value("textarea")  # what was typed is not lost
    assert world.item("things", id="1") == {"id": "1", "name": "first", "count": 1}
    second.click("text=Begin again with what is there now")
    playwright.expect(second.locator("textarea")).to_contain_text("first")
    second.click("text=Delete…")
    second.click("dialog >> text=Delete it")
    playwright.expect(second.locator(".empty-state")).to_contain_text("There is no item here")
    assert world.item("things", id="1") is None


def test_html_in_items_executes_nothing(world: TableWorld, url: str, windows: Any) -> None:
    world.put("things", **{"id": EVIL, EVIL: EVIL, "list": [EVIL, {EVIL: EVIL}]})
    page = windows()
    page.goto(f"{url}/tables/things/items")
    assert page.locator("table.items tbody tr").count() == 1
    assert page.evaluate("window.hacked") is None
    page.click("table.items a.mono")
    playwright.expect(page.locator("textarea")).to_contain_text("window.hacked")
    assert page.evaluate("window.hacked") is None
    page.fill("textarea", EVIL)
    page.click("text=Save")
    playwright.expect(page.locator(".hint")).to_contain_text("Nothing was saved")
    assert page.evaluate("window.hacked") is None
