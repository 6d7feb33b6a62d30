"""The form of a schedule: it is previewed, refused with what was typed, and safe from two people at once."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

import penstock
from penstock.jobs.scheduler.schedules import ScheduleNotFound, Schedules
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.web.dashboard.source import Source

EVIL = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"'&"
NAME = EVIL.replace("/", "|")
FORM = {"name": "acme", "task": "report", "cron": "30 6 * * *", "timezone": "Europe/Paris", "args": '{"project": "a"}'}
_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def schedules(world: World) -> Schedules:
    return Schedules(lambda: world.store, {})


class Reply:
    """A page after a form was sent."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text

    def shows(self, *texts: str) -> bool:
        return all(text in html.unescape(self.text) for text in texts)


def send(world: World, form: dict[str, str], step: str = "preview", csrf: str | None = None) -> Reply:
    response = world.post("/schedules/form", [*form.items(), ("step", step)], csrf=csrf)
    return Reply(response.status_code, response.text)


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of the schedule's form, without its token."""
    form = page.split('action="/schedules/form"')[1].split("</form>")[0]
    return {name: html.unescape(value) for name, value in _HIDDEN.findall(form) if name != "csrf"}


def change_form(world: World, name: str, **typed: str) -> dict[str, str]:
    """The form of a schedule as its page has it, with some fields typed over."""
    page = world.get("/schedules/schedule", params={"name": name}).text
    form = hidden(page)
    for field, value in re.findall(r'<input type="text"[^>]* name="(\w+)" value="([^"]*)"', page):
        form[field] = html.unescape(value)
    form["args"] = html.unescape(re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.S)[0])
    for field in re.findall(r'name="(\w+)" value="1" checked', page):
        form[field] = "1"
    return form | typed


# ── creating ─────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_is_created_after_a_preview_with_its_next_three_times(world: World, schedules: Schedules) -> None:
    assert 'href="/schedules/new"' in world.page("/schedules")
    preview = send(world, FORM | {"overlap": "1", "paused": "1"})
    assert preview.status == 200
    assert preview.shows(
        "Create acme?", "Nothing has been saved yet.", "if it is resumed", "No live worker has the task"
    )
    assert len(re.findall(r"\w{3} \d{4}-\d\d-\d\d 06:30:00<", preview.text)) == 3
    with pytest.raises(ScheduleNotFound):
        schedules.get("acme")
    saved = send(world, hidden(preview.text), "save")
    assert saved.shows("Saved.", "30 6 * * *", "Europe/Paris")
    made = schedules.get("acme")
    assert (made.task, made.args, made.overlap, made.paused) == ("report", {"project": "a"}, True, True)


def test_an_interval_and_empty_arguments_will_do(world: World, schedules: Schedules) -> None:
    send(world, {"name": "often", "task": "report", "every": "15m"}, "save")
    made = schedules.get("often")
    assert (made.times.every, made.timezone, made.args, made.paused) == (900, "UTC", {}, False)


def test_tasks_of_live_workers_and_of_this_program_are_suggested(world: World) -> None:
    app = penstock.App(world.db)

    @app.task()
    def of_this_program() -> None: ...

    world.source.tasks = app.tasks
    now = world.store.clock.now()
    worker = WorkerInfo("w", now, now, ("default",), ("of_a_worker",), 1, 0, 0, 0.0)
    WorkerRegistry(world.store.db, world.store.layout).beat(worker)
    page = world.page("/schedules/new")
    assert '<option value="of_a_worker">' in page and '<option value="of_this_program">' in page
    assert not send(world, FORM | {"task": "of_a_worker"}).shows("No live worker")


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ({"name": ""}, "The name of a schedule is text"),
        ({"name": "a/b"}, "may not have /"),
        ({"name": "x" * 180}, "at most 150 bytes"),
        ({"task": ""}, "The name of a task is text"),
        ({"cron": ""}, "Give either a cron expression"),
        ({"every": "15m"}, "Give either a cron expression"),
        ({"cron": "61 * * * *"}, "'61' (minute)"),
        ({"cron": "0 0 30 2 *"}, "never happens"),
        ({"cron": "", "every": "soon"}, "write @every 90s, 15m, 6h or 2d"),
        ({"timezone": "Europe/Nowhere"}, "There is no time zone 'Europe/Nowhere'"),
        ({"timezone": "../../etc/passwd"}, "There is no time zone"),
        ({"timezone": "x" * 50_000}, "There is no time zone"),
        ({"args": "{"}, "The arguments are not JSON"),
        ({"args": "[1]"}, "The arguments are a JSON object"),
        ({"args": '{"a": NaN}'}, "args"),
        ({"args": '{"a": ' + "[" * 50_000}, "The arguments are not JSON"),
        ({"args": '{"a": ' + "[" * 500 + "]" * 500 + "}"}, "args"),
        ({"args": '{"a": ' + "9" * 5_000 + "}"}, "The arguments are not JSON"),
        ({"args": '{"a": "' + "x" * 150_000 + '"}'}, "at most 100,000 bytes"),
    ],
)
def test_a_form_that_is_refused_comes_back_with_the_reason_and_what_was_typed(
    world: World, schedules: Schedules, typed: dict[str, str], reason: str
) -> None:
    form = FORM | typed
    for step in ("preview", "save"):
        reply = send(world, form, step)
        assert reply.status == 400
        assert reply.shows(
            'role="alert"', "Nothing was saved.", reason, *(f'value="{form[one]}"' for one in ("name", "task"))
        )
        assert reply.shows(f"\n{form['args']}</textarea>")
    assert list(schedules) == []


def test_arguments_that_the_task_does_not_take_are_refused_where_it_is_known(tmp_path: Path) -> None:
    world = World(tmp_path)
    app = penstock.App(world.db)

    @app.task()
    def report(project: str) -> None: ...

    world.source.schedules = Source(world.db, tasks=app.tasks).schedules
    try:
        reply = send(world, FORM | {"args": '{"projekt": "a"}'})
        assert reply.status == 400 and reply.shows("projekt")
        assert send(world, FORM).status == 200
    finally:
        world.close()


def test_a_name_that_is_taken_is_refused_and_the_way_back_keeps_what_was_typed(
    world: World, schedules: Schedules
) -> None:
    preview = send(world, FORM)
    schedules.create("acme", "other", "@daily")
    reply = send(world, hidden(preview.text), "save")
    assert reply.status == 400 and reply.shows("There is a schedule 'acme' already", 'value="30 6 * * *"')
    assert schedules.get("acme").task == "other"
    back = send(world, hidden(preview.text), "edit")
    assert back.status == 200 and back.shows('value="30 6 * * *"', 'value="Europe/Paris"', '{"project": "a"}')


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_is_changed_after_a_preview_of_what_changes(world: World, schedules: Schedules) -> None:
    schedules.create("acme", "report", "@daily", args={"project": "ä"}, timezone="Europe/Paris")
    assert "/schedules/schedule?name=acme" in world.page("/schedules")
    form = change_form(world, "acme", cron="", every="6h", paused="1")
    assert form["args"] == '{\n  "project": "ä"\n}'
    preview = send(world, form)
    assert preview.shows("Change acme?", "@daily", "6h") and schedules.get("acme").cron == "@daily"
    assert "Arguments</td>" not in preview.text and "Time zone</td>" not in preview.text
    assert send(world, hidden(preview.text), "save").shows("Saved.")
    saved = schedules.get("acme")
    assert (saved.times.every, saved.paused, saved.args, saved.timezone) == (
        21_600,
        True,
        {"project": "ä"},
        "Europe/Paris",
    )


def test_of_two_people_who_change_a_schedule_the_second_is_told(world: World, schedules: Schedules) -> None:
    schedules.create("acme", "report", "@daily")
    first, second = change_form(world, "acme", cron="0 1 * * *"), change_form(world, "acme", cron="0 2 * * *")
    assert send(world, first, "save").status == 200
    for step in ("preview", "save"):
        reply = send(world, second, step)
        assert reply.status == 409
        assert reply.shows("somebody has changed the schedule since you looked", "0 1 * * *", 'value="0 2 * * *"')
    assert schedules.get("acme").cron == "0 1 * * *"
    again = second | {"seen": re.findall(r'name="seen" value="(\w+)"', reply.text)[0]}
    assert send(world, again, "save").status == 200
    assert schedules.get("acme").cron == "0 2 * * *"


def test_a_schedule_that_was_deleted_meanwhile_can_be_created_again_from_what_was_typed(
    world: World, schedules: Schedules
) -> None:
    schedules.create("acme", "report", "@daily")
    form = change_form(world, "acme", cron="0 1 * * *")
    schedules.delete("acme")
    reply = send(world, form, "save")
    assert reply.status == 409 and reply.shows(
        "somebody has deleted this schedule", 'value="0 1 * * *"', 'value="acme"'
    )
    assert list(schedules) == []
    assert send(world, form | {"seen": ""}, "save").status == 200
    assert send(world, form, "edit").status == 200


def test_jobs_that_are_enqueued_meanwhile_are_no_change_by_somebody(world: World, schedules: Schedules) -> None:
    schedules.create("acme", "report", "@daily")
    form = change_form(world, "acme", cron="0 1 * * *")
    job = schedules.run("acme")
    schedules.advance(schedules.get("acme"), world.store.clock.now(), job.id)
    assert send(world, form, "save").status == 200
    assert schedules.get("acme").last_job == job.id


def test_a_declared_schedule_is_changed_in_the_code_and_the_page_says_so(world: World) -> None:
    app = penstock.App(world.db)

    @app.task(cron="@daily")
    def report() -> None: ...

    app.schedules.declare(dict)
    page = world.page("/schedules/schedule?name=report")
    assert "declared in the code" in page and 'action="/schedules/form"' not in page and "pause report" in page
    form = {"name": "report", "task": "report", "cron": "@hourly", "seen": app.schedules.get("report").revision}
    reply = send(world, form, "save")
    assert reply.status == 400 and reply.shows(
        "report is declared in the code, with @app.task(cron=…): change it there"
    )
    assert app.schedules.get("report").cron == "@daily"


def test_options_that_another_task_does_not_take_over_are_named(world: World) -> None:
    app = penstock.App(world.db)

    @app.task()
    def report() -> None: ...

    app.schedules.create("acme", report.options(queue="slow"), "@daily")
    assert "queue=slow" in world.page("/schedules/schedule?name=acme")
    assert not send(world, change_form(world, "acme", cron="@hourly")).shows("are not kept")
    assert send(world, change_form(world, "acme", task="other")).shows("are not kept", "queue=slow")


# ── links ────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_links_to_its_schedule_and_the_schedule_to_its_jobs(world: World, schedules: Schedules) -> None:
    schedules.create("a b & c", "report", "@daily")
    job = schedules.run("a b & c")
    world.made("report")
    link = re.findall(r'href="(/schedules/schedule\?[^"]*)"', world.page(f"/jobs/{job.id}"))[0]
    page = world.page(html.unescape(link))
    assert '<h1 id="h-form">a b &amp; c</h1>' in page and f'href="/jobs/{job.id}"' in page
    jobs = world.page(html.unescape(re.findall(r'href="(/jobs\?q=[^"]*)"', page)[0]))
    assert re.findall(r'<tr data-key="([^"]*)"', jobs) == [job.id]
    schedules.delete("a b & c")
    assert world.get(html.unescape(link)).status_code == 404
    assert "/schedules/schedule" not in world.page(f"/jobs/{world.made('other').id}")


# ── attacks ──────────────────────────────────────────────────────────────────────────────────────


def test_html_in_every_field_is_text_on_every_page(world: World, schedules: Schedules) -> None:
    form = {
        "name": NAME,
        "task": NAME,
        "cron": "@daily",
        "timezone": "UTC",
        "args": '{"a": "<script>alert(1)</script>"}',
    }
    preview = send(world, form)
    assert preview.status == 200
    saved = send(world, hidden(preview.text), "save")
    assert schedules.get(NAME).args == {"a": "<script>alert(1)</script>"}
    job = schedules.run(NAME)
    refused = send(world, dict.fromkeys(("name", "task", "cron", "every", "timezone", "args"), EVIL))
    conflict = send(world, change_form(world, NAME, cron=EVIL) | {"seen": EVIL})
    pages = [preview, saved, refused, conflict]
    assert [one.status for one in pages] == [200, 200, 400, 409]
    for text in (*(one.text for one in pages), world.page("/schedules"), world.page(f"/jobs/{job.id}")):
        assert "<script>window" not in text and "<script>alert" not in text and "<img src=x" not in text


@pytest.mark.parametrize("token", ["", "0" * 64, "ü"])
def test_a_form_without_the_sessions_token_saves_nothing(world: World, schedules: Schedules, token: str) -> None:
    world.get("/schedules/new")
    for step in ("preview", "save", "edit"):
        assert send(world, FORM, step, csrf=token).status == 403
    assert list(schedules) == []


def test_a_form_of_another_site_or_too_long_or_with_an_odd_step_saves_nothing(
    world: World, schedules: Schedules
) -> None:
    csrf = re.findall(r'name="csrf" value="(\w+)"', world.page("/schedules/new"))[0]
    data = {**FORM, "csrf": csrf, "step": "save"}
    foreign = world.client.post("/schedules/form", data=data, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert send(world, FORM | {"args": "x" * 600_000}, "save").status == 413
    assert send(world, FORM, "explode").status == 400
    assert world.get("/schedules/form").status_code == 405
    assert list(schedules) == []


def test_an_empty_revision_does_not_overwrite_a_schedule_nor_does_a_made_up_one(
    world: World, schedules: Schedules
) -> None:
    schedules.create("acme", "report", "@daily")
    before = schedules.get("acme")
    assert send(world, FORM | {"seen": ""}, "save").status == 400
    assert send(world, FORM | {"seen": "0" * 32}, "save").status == 409
    assert schedules.get("acme") == before


def test_a_dashboard_that_only_shows_saves_nothing_and_has_no_form(tmp_path: Path) -> None:
    world = World(tmp_path, read_only=True)
    schedules = Schedules(lambda: world.store, {})
    try:
        schedules.create("acme", "report", "@daily", args={"project": "a"})
        before = schedules.get("acme")
        for path in ("/schedules", "/schedules/new", "/schedules/schedule?name=acme"):
            page = world.page(path).split("<main")[1].split("</main>")[0]
            assert "<button" not in page and "<textarea" not in page and "/schedules/new" not in page
        assert "project" in page
        assert send(world, FORM | {"seen": before.revision}, "save").status == 403
        assert schedules.get("acme") == before
    finally:
        world.close()


def test_secret_arguments_are_not_shown_and_not_handed_to_another_task(world: World) -> None:
    app = penstock.App(world.db)

    @app.task(secret=("token",))
    def report(project: str, token: str) -> None: ...

    app.schedules.create("acme", report, "@daily", args={"project": "a", "token": "hunter2"})
    form = change_form(world, "acme", cron="@hourly")
    assert form["args"] == ""
    for reply in (send(world, form), send(world, form, "save")):
        assert reply.status == 200 and reply.shows('"token": "***"') and "hunter2" not in reply.text
    assert app.schedules.get("acme").args == {"project": "a", "token": "hunter2"}
    other = send(world, change_form(world, "acme", task="other"), "save")
    assert other.status == 400 and other.shows("Its arguments are secret")
    assert "hunter2" not in world.page("/schedules/schedule?name=acme")
    schedules = Schedules(lambda: world.store, {})
    assert "hunter2" not in world.page(f"/jobs/{schedules.run('acme').id}")
