"""A list that changes under the pointer, in a real browser: nobody's press, tick or selection is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dashboard_browser import PATIENCE, live, playwright
from dashboard_world import World

from penstock.jobs.model.job import Job
from penstock.web.dashboard.app import running_dashboard

PRESSES = 200
WATCH = """
    window.pressed = []; window.clicked = []; window.patches = 0;
    const box = (event) => event.target.closest("input[type=checkbox]")?.value;
    addEventListener("pointerdown", (event) => { if (box(event)) pressed.push(box(event)); }, true);
    addEventListener("click", (event) => { if (box(event)) clicked.push(box(event)); }, true);
    new MutationObserver((all) => { patches += all.length; })
        .observe(document, { childList: true, subtree: true, characterData: true });
"""
PLACES = """
    [...document.querySelectorAll("table.list tbody input[type=checkbox]")].map((box) => {
        const { x, y, width, height } = box.getBoundingClientRect();
        return [x + width / 2, y + height / 2];
    }).filter(([x, y]) => document.elementFromPoint(x, y)?.matches("tbody input"))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, pause_seconds=0.02)
    yield found
    found.close()


@contextmanager
def busy(world: World, jobs: list[Job]) -> Iterator[None]:
    """Others report, end and are made all the time."""
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            place = number % len(jobs)
            if number % 7 == 0:
                world.store.complete(jobs[place])
                jobs[place] = world.running()
            else:
                jobs[place] = world.store.report(jobs[place], progress=number % 100, step=f"step {number}")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_two_hundred_presses_at_random_are_all_heard_while_the_list_changes(world: World, page: Any) -> None:
    chance = random.Random(21)
    jobs = [world.running() for _ in range(5)]
    page.add_init_script(WATCH)
    with running_dashboard(world.app) as url:
        page.goto(f"{url}/jobs")
        live(page)
        before = page.evaluate("window.patches")
        with busy(world, jobs):
            while page.evaluate("window.pressed.length") < PRESSES:
                x, y = chance.choice(page.evaluate(PLACES))
                page.mouse.move(x, y)
                page.mouse.down()
                page.wait_for_timeout(chance.choice([5, 20, 50]))
                page.mouse.up()
        assert page.evaluate("window.clicked") == page.evaluate("window.pressed")
        assert page.evaluate("window.patches") - before > PRESSES, "the list did change meanwhile"


def test_a_selected_text_and_a_focus_stay_while_rows_come_and_go(world: World, page: Any) -> None:
    kept = world.failed("kept")
    jobs = [world.running() for _ in range(3)]
    with running_dashboard(world.app) as url:
        page.goto(f"{url}/jobs")
        live(page)
        page.evaluate(
            '(id) => { const cell = document.querySelector(`tr[data-key="${id}"] a.mono`);'
            " getSelection().selectAllChildren(cell); }",
            kept.id,
        )
        page.locator(f'input[value="{kept.id}"]').focus()
        page.locator(f'input[value="{kept.id}"]').check()
        rows = page.locator("table.list tbody tr")
        for number, job in enumerate(jobs):
            world.store.complete(job)
            world.made()
            playwright.expect(rows).to_have_count(5 + number, timeout=PATIENCE)
        assert page.evaluate("getSelection().toString()").strip() == kept.id
        assert page.evaluate("document.activeElement.value") == kept.id
        assert page.locator(f'input[value="{kept.id}"]').is_checked()


def test_a_search_that_is_being_typed_leaves_one_page_to_go_back_to(world: World, page: Any) -> None:
    world.failed()
    with running_dashboard(world.app) as url:
        page.goto(f"{url}/workers")
        page.goto(f"{url}/jobs")
        before = page.evaluate("history.length")
        for text in ("status:f", "status:failed", "status:failed kind:report"):
            page.locator("#q").fill(text)
            page.wait_for_url(lambda address, text=text: address.endswith(text.replace(":", "%3A").replace(" ", "+")))
        assert page.evaluate("history.length") == before
        page.go_back()
        page.wait_for_url("**/workers")


def test_letters_that_are_typed_while_the_next_page_loads_are_kept(world: World, page: Any) -> None:
    page.add_init_script("""addEventListener("pagehide", () => {
        const box = document.getElementById("q");
        if (box.value === "status:failed") box.value += " nightly";
    })""")
    with running_dashboard(world.app) as url:
        page.goto(f"{url}/jobs")
        page.locator("#q").press_sequentially("status:failed")
        page.wait_for_url(f"{url}/jobs?q=status%3Afailed+nightly")
        playwright.expect(page.locator("#q")).to_have_value("status:failed nightly", timeout=PATIENCE)
        playwright.expect(page.locator("#q")).to_be_focused(timeout=PATIENCE)
        assert page.errors == []
