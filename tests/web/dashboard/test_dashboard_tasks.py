"""What a person on call does, each in fewer than five clicks from the overview, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dashboard_browser import PATIENCE, playwright
from dashboard_world import World

from penstock.jobs.model.job import JobError
from penstock.jobs.model.state import State
from penstock.web.dashboard.app import running_dashboard

TRACE = """Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/penstock/jobs/worker/invocation.py", line 88, in run
    return function(**arguments)
  File "/srv/reports/rows.py", line 17, in load_rows
    raise ValueError(f"no such project: {project}")
ValueError: no such project: bodwasho
"""


class Clicks:
    """Counts what a person presses."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.number = 0

    def __call__(self, target: Any) -> None:
        self.number += 1
        target.click()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, pause_seconds=0.1)
    yield found
    found.close()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running_dashboard(world.app) as address:
        yield address


def test_why_the_nightly_report_failed_is_read_and_it_runs_again_with_another_argument(
    world: World, url: str, page: Any
) -> None:
    job = world.running("nightly_report", args={"project": "bodwasho"}, tenant="acme")
    world.store.fail(job, JobError("ValueError", "no such project: bodwasho", TRACE))
    page.goto(url)
    click = Clicks(page)
    click(page.get_by_role("link", name="nightly_report"))
    playwright.expect(page.locator("#trace")).to_contain_text("rows.py", timeout=PATIENCE)
    playwright.expect(page.locator("#trace .raise")).to_contain_text("raise ValueError", timeout=PATIENCE)
    assert not page.locator("#trace").get_by_text("invocation.py").is_visible(), "frames of Penstock are folded"
    click(page.get_by_role("link", name="Run with other arguments"))
    page.locator("textarea").fill('{"project": "bodwassho"}')
    click(page.get_by_role("button", name="Show what differs"))
    playwright.expect(page.locator(".diff-add").last).to_contain_text("bodwassho", timeout=PATIENCE)
    click(page.get_by_role("button", name="Run it"))
    page.wait_for_url(re.compile(r"/jobs/job_\w+$"))
    made = world.store.get(page.url.rpartition("/")[2])
    assert made.id != job.id and made.args.text == '{"project":"bodwassho"}' and made.tenant == "acme"
    assert click.number < 5
    assert page.errors == []


def test_which_tenant_is_blocked_and_by_what_is_seen_at_once(world: World, url: str, page: Any) -> None:
    for _ in range(3):
        world.made("send_mail", queue="mail", tenant="acme")
    world.made("send_mail", tenant="globex")
    world.store.pause("mail", "the provider is down")
    page.goto(url)
    click = Clicks(page)
    blocked = page.locator("section", has=page.locator("#h-blocked"))
    playwright.expect(blocked).to_contain_text("acme by the queue mail is paused", timeout=PATIENCE)
    assert "globex" not in blocked.inner_text()
    click(blocked.get_by_role("link", name="acme"))
    playwright.expect(page.locator("table.jobs tbody tr")).to_have_count(3, timeout=PATIENCE)
    assert click.number < 5


def test_a_queue_is_paused_drained_and_resumed(world: World, url: str, page: Any) -> None:
    running = world.running("send_mail", queue="mail")
    waiting = world.made("send_mail", queue="mail")
    page.goto(url)
    click = Clicks(page)
    click(page.get_by_role("link", name="Queues"))
    row = page.locator('tr[data-key="mail"]')
    playwright.expect(row).to_contain_text("1 running will finish, 1 will wait", timeout=PATIENCE)
    click(row.get_by_role("button", name="Pause"))
    playwright.expect(row).to_contain_text("paused", timeout=PATIENCE)
    assert world.store.queue("mail").paused
    world.store.complete(running)
    playwright.expect(row.locator("td").nth(4)).to_have_text("0", timeout=PATIENCE)  # drained: nothing of it runs
    assert world.store.get(waiting.id).state is State.QUEUED
    click(row.get_by_role("button", name="Resume"))
    playwright.expect(row.get_by_role("button", name="Pause")).to_be_visible(timeout=PATIENCE)
    assert not world.store.queue("mail").paused
    assert click.number < 5


def test_the_theme_the_help_and_the_palette(world: World, url: str, page: Any) -> None:
    world.failed()
    page.goto(url)
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.goto(f"{url}/jobs")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("?")
    playwright.expect(page.locator("#help")).to_be_visible(timeout=PATIENCE)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("queue")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues")
    assert page.errors == []


def test_the_palette_is_walked_by_arrows_pressed_and_searches_for_what_is_no_page(
    world: World, url: str, page: Any
) -> None:
    job = world.failed()
    page.goto(url)
    page.keyboard.press("Control+k")
    page.keyboard.type("jobs")
    playwright.expect(page.locator("#places li:visible").first).to_have_text("Jobs", timeout=PATIENCE)
    for key in ("ArrowDown", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    chosen = page.locator('#places li[aria-selected="true"]')
    playwright.expect(chosen).to_have_text("Jobs: ready", timeout=PATIENCE)
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=status%3Aready")
    page.keyboard.press("Control+k")
    page.locator("#places li", has_text="Schedules").click()
    page.wait_for_url("**/schedules")
    page.keyboard.press("Control+k")
    page.keyboard.type(job.id)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job.id}")
    assert page.errors == []


def test_a_time_says_itself_in_the_visitors_zone_and_in_utc(world: World, url: str, browser: Any) -> None:
    job = world.completed()
    world.app.state.site.overview.refresh()
    context = browser.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{url}/jobs/{job.id}")
    page.locator("time").first.hover()
    title = page.locator("time").first.get_attribute("title")
    here, utc = re.fullmatch(r"(\S+ \S+) here, (\S+ \S+) UTC", title).groups()
    assert datetime.fromisoformat(here) - datetime.fromisoformat(utc) == timedelta(hours=5, minutes=30)
    page.goto(url)
    bar = page.locator("g[data-start]").first
    at = datetime.fromisoformat(bar.get_attribute("data-start")).replace(tzinfo=None) + timedelta(hours=5, minutes=30)
    told = bar.locator("title").text_content()
    assert told.startswith(f"{at:%Y-%m-%d %H:%M} to ") and told.endswith(": 1 completed, 0 failed")
    context.close()


def test_jobs_are_chosen_all_at_once_and_between_two(world: World, url: str, page: Any) -> None:
    for _ in range(6):
        world.failed()
    page.goto(f"{url}/jobs?q=status%3Afailed")
    boxes = page.locator("table.jobs tbody input[type=checkbox]")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    assert page.locator("table.jobs tbody input:checked").count() == 4
    page.get_by_label("Choose all on this page").click()
    assert page.locator("table.jobs tbody input:checked").count() == 6
