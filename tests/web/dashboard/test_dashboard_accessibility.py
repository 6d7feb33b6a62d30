"""Every page at WCAG 2.2 AA by axe-core, where `PENSTOCK_AXE` names its file (axe.min.js, which is not part of this
repository); and what can be checked without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_world import World

from penstock.web.dashboard.app import running_dashboard

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PAGES = (
    *("/", "/jobs", "/jobs?q=status%3Afailed", "/failures", "/queues", "/schedules", "/schedules/new", "/pipelines"),
    *("/records", "/tables", "/tables/penstock-jobs", "/tables/penstock-jobs/items", "/workers", "/activity"),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def paths(world: World) -> list[str]:
    failed, running = world.failed(args={"project": "bodwassho"}, tenant="acme"), world.running()
    for number in range(30):
        running = world.store.report(running, progress=number, step=f"step {number // 10}", message=f"line {number}")
    world.made(queue="mail")
    world.store.pause("mail", "the provider is down")
    return [*PAGES, f"/jobs/{failed.id}", f"/jobs/{failed.id}/clone", f"/jobs/{running.id}"]


@pytest.mark.skipif("PENSTOCK_AXE" not in os.environ, reason="PENSTOCK_AXE does not name a file of axe-core")
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_axe_finds_nothing(world: World, browser: Any, width: int, scheme: str) -> None:
    axe = Path(os.environ["PENSTOCK_AXE"]).read_text()
    size = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    with running_dashboard(world.app) as url:
        for path in paths(world):
            page.goto(url + path)
            page.evaluate(axe)
            found = page.evaluate("(rules) => axe.run(document, { runOnly: rules })", RULES)
            told = [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]
            assert told == [], path
    context.close()


def test_no_page_is_wider_than_a_phone(world: World, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    with running_dashboard(world.app) as url:
        for path in paths(world):
            page.goto(url + path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    context.close()


def test_every_field_has_a_name_every_page_one_heading_and_every_id_is_its_own(world: World) -> None:
    for path in paths(world):
        html = world.page(path)
        assert len(re.findall(r"<h1[ >]", html)) == 1, path
        ids = re.findall(r' id="([^"]+)"', html)
        assert len(ids) == len(set(ids)), (path, [one for one in ids if ids.count(one) > 1])
        for field in re.findall(r"<(?:input|select|textarea)[^>]*>", html):
            found = re.search(r' id="([^"]+)"', field)
            is_named = "aria-label" in field or (found is not None and f'for="{found.group(1)}"' in html)
            is_inside = re.search(rf"<label>[^<]*{re.escape(field)}", html) is not None
            assert 'type="hidden"' in field or is_named or is_inside, (path, field)
