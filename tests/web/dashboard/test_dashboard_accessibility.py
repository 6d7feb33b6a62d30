"""Every page at WCAG 2.2 AA by axe-core, where `PENSTOCK_AXE` names its file (axe.min.js, which is not part of this
repository); and what can be checked without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from dashboard_world import World

from penstock.jobs.model.job import JobError
from penstock.jobs.scheduler.schedules import Schedules
from penstock.pipelines import Pipeline, StepContext
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
    world.store.claim(world.made("lost"), "w9", 0.5)
    first = world.made("first", run_at=world.store.clock.now() + 3_600)
    second = world.made("second", depends_on=(first.id,))
    related = [f"/jobs/{first.id}", f"/jobs/{second.id}", "/?span=7d", "/jobs?sort=kind", "/partiql"]
    key = urlencode({"key": orjson.dumps({"job_id": {"S": failed.id}, "record": {"S": "main"}}).decode()})
    related.append(f"/tables/penstock-jobs/item?{key}")
    related.append(f"/pipelines/{failed_pipeline(world)}")
    return [*PAGES, *related, f"/jobs/{failed.id}", f"/jobs/{failed.id}/clone", f"/jobs/{running.id}"]


def failed_pipeline(world: World) -> str:
    """The id of a run whose list of steps is wider than a phone."""
    pipeline = Pipeline("words", inputs=("text",))

    @pipeline.step(inputs=("text",), outputs=("words",))
    def split(context: StepContext, text: str) -> list[str]:
        return text.split()

    @pipeline.step(inputs=("words",), outputs=("number_of_words_of_the_text",))
    def count_the_words_of_the_text(context: StepContext, words: list[str]) -> int:
        raise ValueError("no such project: bodwasho, and none with a name that is nearly the same")

    with pytest.raises(ValueError, match="no such project"):
        pipeline.run(world.store, job_id="words_1", inputs={"text": "so much"})
    return "words_1"


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


TRACE = """Traceback (most recent call last):
  File "/srv/reports/of/a/company/with/a/long/name/rows.py", line 17, in load_rows_of_a_project
    rows = load(project, month=month, with_images=True)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no such project
"""


def test_a_phone_shows_the_whole_of_an_error_and_the_tab_that_one_is_on(world: World, browser: Any) -> None:
    job = world.running("report", owner="a-host-with-a-long-name.example.org:12345:abcdef")
    world.store.fail(job, JobError("ValueError", "no such project " + "x" * 200, TRACE))
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    wide = "[...document.querySelectorAll('.panel, .trace')].filter(one => one.scrollWidth > one.clientWidth).length"
    seen = "document.querySelector('.tabs [aria-current]').getBoundingClientRect()"
    with running_dashboard(world.app) as url:
        page.goto(f"{url}/jobs/{job.id}")
        assert page.evaluate(wide) == 0
        assert page.evaluate("getComputedStyle(document.querySelector('.trace .place')).whiteSpace") != "nowrap"
        assert not page.locator(".trace .carets").is_visible()
        page.goto(f"{url}/jobs?q=status%3Acompleted")
        box = page.evaluate(seen)
        assert box["left"] >= 0 and box["right"] <= 390
    context.close()


def test_no_list_hides_its_buttons_on_a_laptop(world: World, browser: Any) -> None:
    """A list that is too wide scrolls, and its last column, the actions, is what nobody sees."""
    for number in range(3):
        world.store.pause(f"mail-{number}", "the provider is down, and we wait for its answer")
        world.made("send_mail", queue=f"mail-{number}", tenant="acme")
        world.made(
            "send_mail", queue="warteschlange-für-große-aufgaben-" * 4, tenant="Größe & Söhne GmbH — 東京支店 " * 5
        )
        world.store.fail(world.running("send_mail"), JobError("ConnectionError", "refused " * 40))
        schedules = Schedules(lambda: world.store, {})
        schedules.create(f"every night of the year {number}", "a_report_of_a_customer", "30 2 * * mon-fri")
        schedules.run(f"every night of the year {number}")
    world.app.state.site.overview.refresh()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    hidden = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
    with running_dashboard(world.app) as url:
        for path in (
            "/queues",
            "/failures",
            "/jobs",
            "/jobs?q=status%3Afailed",
            "/jobs?q=status%3Ablocked",
            "/schedules",
        ):
            page.goto(url + path)
            assert page.evaluate(hidden) == 0, path
        page.goto(f"{url}/jobs")
        for clipped in (".jobs td.id .mono", ".place"):
            side = page.evaluate("(name) => getComputedStyle(document.querySelector(name)).direction", clipped)
            assert side == "rtl", f"{clipped} keeps its end, where ids and paths differ"
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
