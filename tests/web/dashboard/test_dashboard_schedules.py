"""The page of schedules: what it shows, and what its buttons do, without a script."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

import penstock
from penstock.jobs.scheduler.schedules import ScheduleNotFound, Schedules


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def schedules(world: World) -> Schedules:
    return Schedules(lambda: world.store, {})


def press(world: World, button: str) -> str:
    """The preview of an action, and its outcome; "" where the preview has no button."""
    assert f'value="{button}"' in world.page("/schedules")
    preview = world.post("/schedules/preview", [("do", button)]).text
    assert "Nothing has been done yet." in preview
    if 'id="do-it"' not in preview:
        return ""
    seen = re.findall(r'name="seen" value="([^"]*)"', preview)
    return world.post("/schedules/apply", [("do", button), ("seen", html.unescape(seen[0]))]).text


def test_the_page_lists_schedules_with_their_last_job_and_that_no_worker_has_their_task(
    world: World, schedules: Schedules
) -> None:
    assert "There are no schedules." in world.page("/schedules")
    schedules.create("acme <report>", "report", "30 6 * * *", timezone="Europe/Paris")
    job = schedules.run("acme <report>")
    page = world.page("/schedules")
    for text in ("acme &lt;report&gt;", "30 6 * * *", "Europe/Paris", "no worker has it", f'href="/jobs/{job.id}"'):
        assert text in page
    assert "acme <report>" not in page


def test_the_last_job_of_a_schedule_has_the_state_that_the_list_of_jobs_says(
    world: World, schedules: Schedules
) -> None:
    schedules.create("acme", "report", "30 6 * * *")
    schedules.run("acme")
    world.store.pause("default", "the printer is out of paper")
    for path in ("/schedules", "/schedules/schedule?name=acme"):
        assert 'state-blocked">blocked' in world.page(path)
    assert "the queue default is paused" in world.page("/schedules/schedule?name=acme")


def test_a_schedule_is_paused_resumed_run_and_deleted_after_a_question(world: World, schedules: Schedules) -> None:
    schedules.create("a b", "report", "@daily")
    press(world, "pause a b")
    assert schedules.get("a b").paused
    press(world, "resume a b")
    assert not schedules.get("a b").paused
    outcome = press(world, "run a b")
    assert schedules.get("a b").last_job in outcome
    assert "has not ended" in press(world, "run a b")
    press(world, "delete a b")
    with pytest.raises(ScheduleNotFound):
        schedules.get("a b")
    assert world.post("/schedules/preview", [("do", "pause a b")]).status_code == 404


def test_a_declared_schedule_has_no_button_to_delete_it(world: World) -> None:
    app = penstock.App(world.db)

    @app.task(cron="@daily")
    def report() -> None: ...

    app.schedules.declare(dict)
    page = world.page("/schedules")
    assert "in code" in page and "pause report" in page and "delete report" not in page
    preview = world.post("/schedules/preview", [("do", "delete report")]).text
    assert "declared in the code" in preview and 'id="do-it"' not in preview


def test_a_schedule_that_was_changed_since_the_preview_is_left_alone(world: World, schedules: Schedules) -> None:
    schedules.create("s", "report", "@daily")
    preview = world.post("/schedules/preview", [("do", "delete s")]).text
    seen = html.unescape(re.findall(r'name="seen" value="([^"]*)"', preview)[0])
    schedules.change("s", cron="@hourly")
    assert "left alone" in world.post("/schedules/apply", [("do", "delete s"), ("seen", seen)]).text
    assert schedules.get("s").cron == "@hourly"


def test_a_form_without_a_token_or_with_another_verb_is_refused(world: World, schedules: Schedules) -> None:
    schedules.create("s", "report", "@daily")
    assert world.post("/schedules/apply", [("do", "pause s")], csrf="no").status_code == 403
    assert world.post("/schedules/preview", [("do", "explode s")]).status_code == 400
    assert not schedules.get("s").paused


def test_a_dashboard_that_only_shows_has_no_buttons_for_schedules(tmp_path: Path) -> None:
    world = World(tmp_path, read_only=True)
    try:
        Schedules(lambda: world.store, {}).create("s", "report", "@daily")
        assert "<button" not in world.page("/schedules").split("<main")[1].split("</main>")[0]
        assert world.post("/schedules/apply", [("do", "pause s")]).status_code == 403
    finally:
        world.close()
