"""The dashboard in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_browser import PATIENCE, live, playwright
from dashboard_world import World

from penstock.jobs.model.job import JobError, JobFile
from penstock.jobs.model.state import State
from penstock.jobs.scheduler.schedules import Schedules
from penstock.web.dashboard.app import running_dashboard

EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'><svg onload='window.hacked=1'>"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, pause_seconds=0.1)
    yield found
    found.close()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running_dashboard(world.app) as address:
        yield address


def line_numbers(page: Any) -> list[int]:
    return [int(text) for text in page.locator("#log .no").all_text_contents()]


def test_a_job_is_watched_live_to_its_end(world: World, url: str, page: Any) -> None:
    job = world.running(args={"project": "bodwassho"})
    page.goto(f"{url}/jobs/{job.id}")
    live(page)
    for number in range(1, 11):
        job = world.store.report(job, progress=number * 10, step=f"part {number}", message=f"line {number}")
    playwright.expect(page.locator("#line-10")).to_be_visible(timeout=PATIENCE)
    world.store.complete(job, {"rows": 10})
    playwright.expect(page.locator("#job .badge").first).to_have_text("completed", timeout=PATIENCE)
    playwright.expect(page.locator("#job")).to_contain_text("100 %", timeout=PATIENCE)
    assert line_numbers(page) == list(range(1, 11))
    assert page.errors == []


def test_a_reconnect_in_the_middle_loses_no_line(world: World, tmp_path: Path, page: Any) -> None:
    job = world.running()
    with running_dashboard(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        page.goto(f"{url}/jobs/{job.id}")
        live(page)
        for _ in range(5):
            job = world.store.report(job, message="before")
        playwright.expect(page.locator("#line-5")).to_be_attached(timeout=PATIENCE)
    playwright.expect(page.locator("#pulse")).to_have_attribute("data-state", "trouble", timeout=PATIENCE)
    playwright.expect(page.locator("#banner")).to_contain_text("does not answer", timeout=PATIENCE)
    for _ in range(5):
        job = world.store.report(job, message="meanwhile")
    again = World.beside(world, pause_seconds=0.1)
    with running_dashboard(again.app, port):
        live(page)
        job = world.store.report(job, message="after")
        playwright.expect(page.locator("#line-11")).to_be_attached(timeout=PATIENCE)
        assert line_numbers(page) == list(range(1, 12))
        playwright.expect(page.locator("#banner")).to_be_hidden(timeout=PATIENCE)


def test_an_open_page_whose_visitor_is_signed_out_says_so_and_leads_back(tmp_path: Path, page: Any) -> None:
    world = World(tmp_path, pause_seconds=0.1, token="open sesame")
    with running_dashboard(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        page.goto(f"{url}/login?token=open%20sesame&next=/jobs%3Fq%3Dstatus:failed")
        live(page)
    another = World.beside(world, pause_seconds=0.1, token="another word")
    with running_dashboard(another.app, port):
        playwright.expect(page.locator("#pulse")).to_have_text("signed out", timeout=PATIENCE)
        playwright.expect(page.locator("#banner")).to_contain_text("You are signed out", timeout=PATIENCE)
        page.get_by_role("link", name="Sign in again").click()
        page.get_by_label("Token").fill("another word")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{url}/jobs?q=status:failed")
        live(page)
    world.close()


SEE = """(is_seen) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !is_seen });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_pages_in_tabs_behind_others_have_no_stream_so_that_many_can_be_open(
    world: World, url: str, browser: Any
) -> None:
    """A browser opens six connections to a host: a seventh page with a stream would never load."""
    job = world.running()
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    pages = []
    for _ in range(8):
        for other in pages[-1:]:
            other.evaluate(SEE, False)
        pages.append(context.new_page())
        pages[-1].goto(f"{url}/jobs/{job.id}")
        live(pages[-1])
    job = world.store.report(job, message="while nobody saw it")
    playwright.expect(pages[-1].locator("#line-1")).to_be_attached(timeout=PATIENCE)
    assert pages[0].locator("#line-1").count() == 0
    pages[-1].evaluate(SEE, False)
    pages[0].evaluate(SEE, True)
    playwright.expect(pages[0].locator("#line-1")).to_be_attached(timeout=PATIENCE)
    world.store.complete(job)
    playwright.expect(pages[0].locator("#job .badge").first).to_have_text("completed", timeout=PATIENCE)
    assert pages[-1].locator("#job .badge").first.inner_text() == "running"
    context.close()


def test_a_database_that_goes_away_is_told_of_and_the_page_recovers(world: World, url: str, page: Any) -> None:
    job = world.running()
    page.goto(f"{url}/jobs/{job.id}")
    live(page)
    world.switch.away = True
    playwright.expect(page.locator("#banner")).to_contain_text("database does not answer", timeout=PATIENCE)
    world.switch.away = False
    playwright.expect(page.locator("#banner")).to_be_hidden(timeout=PATIENCE)
    world.store.report(job, message="back")
    playwright.expect(page.locator("#line-1")).to_contain_text("back", timeout=PATIENCE)


def test_failed_jobs_are_retried_together_after_a_preview(world: World, url: str, page: Any) -> None:
    failed = [world.failed() for _ in range(3)]
    kept = world.failed("other")
    page.goto(f"{url}/jobs?q=status%3Afailed+kind%3Areport")
    live(page)
    for job in failed[:2]:
        page.locator(f'input[value="{job.id}"]').check()
    world.failed("report")  # the list changes under the ticks, and they stay
    playwright.expect(page.locator("table.list tbody tr")).to_have_count(4, timeout=PATIENCE)
    page.get_by_role("button", name="Retry…").click()
    playwright.expect(page.locator("h1")).to_have_text("Retry 2 jobs?", timeout=PATIENCE)
    assert world.store.get(failed[0].id).state is State.FAILED
    page.locator("#do-it").click()
    playwright.expect(page.locator("h1")).to_have_text("2 of 2 done", timeout=PATIENCE)
    states = [world.store.get(job.id).state for job in [*failed, kept]]
    assert states == [State.QUEUED, State.QUEUED, State.FAILED, State.FAILED]


def test_a_group_of_failures_is_retried_from_its_page(world: World, url: str, page: Any) -> None:
    """A browser sends the line breaks of a form's value as CR LF."""
    failed = [world.failed() for _ in range(3)]
    page.goto(f"{url}/failures")
    page.get_by_role("button", name="Retry 3…").click()
    playwright.expect(page.locator("h1")).to_have_text("Retry 3 jobs?", timeout=PATIENCE)
    page.locator("#do-it").click()
    playwright.expect(page.locator("h1")).to_have_text("3 of 3 done", timeout=PATIENCE)
    assert {world.store.get(job.id).state for job in failed} == {State.QUEUED}


def test_one_job_is_cancelled_after_a_dialog(world: World, url: str, page: Any) -> None:
    job = world.made()
    page.goto(f"{url}/jobs/{job.id}")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="No, leave it").click()
    assert world.store.get(job.id).state is State.QUEUED
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the job").click()
    playwright.expect(page.locator("h1")).to_have_text("1 of 1 done", timeout=PATIENCE)
    assert world.store.get(job.id).state is State.CANCELLED


def test_filters_are_kept_in_the_url(world: World, url: str, page: Any) -> None:
    failed = world.failed()
    world.made("import")
    page.goto(f"{url}/jobs")
    page.keyboard.press("/")
    playwright.expect(page.locator("#q")).to_be_focused(timeout=PATIENCE)
    page.locator("#q").fill("status:failed")
    page.wait_for_url(re.compile(r"q=status%3Afailed$"))
    playwright.expect(page.locator("table.list tbody tr")).to_have_count(1, timeout=PATIENCE)
    page.reload()
    playwright.expect(page.locator("#q")).to_have_value("status:failed", timeout=PATIENCE)
    page.locator("table.list tbody a.mono").click()
    page.wait_for_url(f"**/jobs/{failed.id}")
    page.go_back()
    playwright.expect(page.locator("#q")).to_have_value("status:failed", timeout=PATIENCE)


def test_html_in_every_field_executes_nothing_even_live(world: World, url: str, page: Any) -> None:
    name = EVIL.replace("/", "|")
    job = world.running(name, args={EVIL: EVIL}, tenant=name, owner=EVIL)
    page.goto(f"{url}/jobs/{job.id}")
    live(page)
    job = world.store.report(job, progress=10, step=EVIL, message=EVIL, data={EVIL: EVIL})
    job = world.store.report(job, checkpoint=name, value={EVIL: EVIL}, summary=EVIL)
    job = world.store.attach(job, JobFile(EVIL, world.files.save("a/b", b"x")))
    playwright.expect(page.locator("#line-3")).to_be_attached(timeout=PATIENCE)
    world.store.fail(job, JobError(EVIL, EVIL, EVIL))
    playwright.expect(page.locator("#job .badge").first).to_have_text("failed", timeout=PATIENCE)
    for path in ("", "/", "/jobs", "/workers"):
        if path:
            page.goto(url + path)
            page.wait_for_load_state("load")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[src=x]").count() == 0
    assert not [error for error in page.errors if "Content Security Policy" in error]


def test_pages_can_be_read_without_javascript(world: World, url: str, browser: Any) -> None:
    job = world.running()
    world.store.report(job, progress=40, step="half", message="a line")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    assert page.locator(".tile").count() == 10
    page.goto(f"{url}/jobs")
    page.locator("a.mono").first.click()
    assert "a line" in page.locator("#log").inner_text()
    context.close()


def test_a_schedule_is_created_by_keyboard_and_without_javascript(world: World, url: str, browser: Any) -> None:
    schedules = Schedules(lambda: world.store, {})
    for script in (True, False):
        context = browser.new_context(java_script_enabled=script)
        page = context.new_page()
        page.goto(f"{url}/schedules")
        page.get_by_role("link", name="New schedule").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/schedules/new")
        for text in (f"by hand {script}", "report", "", "6h"):  # the name has the focus; cron stays empty
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        playwright.expect(page.locator("h1")).to_have_text(f"Create by hand {script}?", timeout=PATIENCE)
        page.locator("#do-it").press("Enter")
        playwright.expect(page.locator(".done")).to_have_text("Saved.", timeout=PATIENCE)
        context.close()
    assert {saved.times.every for saved in schedules} == {21_600} and len(list(schedules)) == 2


def test_html_in_a_schedule_executes_nothing(world: World, url: str, page: Any) -> None:
    name = EVIL.replace("/", "|")
    schedules = Schedules(lambda: world.store, {})
    schedules.create(name, name, "@daily", args={EVIL: EVIL})
    page.goto(f"{url}/schedules")
    live(page)
    page.locator("table.list tbody a.mono").first.click()
    playwright.expect(page.locator("#h-form")).to_have_text(name, timeout=PATIENCE)
    assert EVIL in page.locator("#args").input_value()
    page.locator("#every").fill("6h")
    page.get_by_role("button", name="Preview…").click()
    playwright.expect(page.locator("#problem")).to_contain_text("Give either", timeout=PATIENCE)
    page.locator("#cron").fill("")
    page.get_by_role("button", name="Preview…").click()
    page.get_by_role("button", name="Save").click()
    playwright.expect(page.locator(".done")).to_have_text("Saved.", timeout=PATIENCE)
    assert page.evaluate("window.hacked") is None and page.locator("img[src=x]").count() == 0
    assert not [error for error in page.errors if "Content Security Policy" in error]
    assert schedules.get(name).args == {EVIL: EVIL}


def test_the_form_of_a_schedule_fits_on_a_phone(world: World, url: str, browser: Any) -> None:
    Schedules(lambda: world.store, {}).create("s" * 100, "t" * 150, "@daily", args={"a": "x" * 300})
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    for path in ("/schedules", "/schedules/new", f"/schedules/schedule?name={'s' * 100}"):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.get_by_role("button", name="Preview…").click()
    playwright.expect(page.locator("#do-it")).to_be_visible(timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
