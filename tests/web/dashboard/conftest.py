"""A browser for the tests that ask for one; without Chromium they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")  # no longer: while Playwright runs, other tests of this thread cannot run event loops
def browser() -> Iterator[Any]:
    from dashboard_browser import CHROMIUM, launch, playwright

    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt install chromium")
    with playwright.sync_playwright() as driver:
        found = launch(driver)
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that remembers what went wrong in it."""
    from dashboard_browser import PATIENCE

    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    found = context.new_page()
    found.errors = []
    found.on("pageerror", lambda error: found.errors.append(str(error)))
    found.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
    yield found
    context.close()
