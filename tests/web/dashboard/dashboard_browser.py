"""What the tests in a real browser share: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60_000


def launch(driver: Any) -> Any:
    return driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


def live(page: Any) -> None:
    playwright.expect(page.locator("#pulse")).to_have_attribute("data-state", "on", timeout=PATIENCE)
