"""Rescheduling, events and clones, for one job and for many: previewed, done, and written down."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.model.job import JobError, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard import audit, ended_jobs
from penstock.web.dashboard.job_actions import BadChange, parse_change

HOUR = 3_600.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def audited(world: World) -> list[tuple[str, str]]:
    return [(line.what, line.about) for line in audit.newest(world.store, 20)]


def test_jobs_that_are_due_later_are_rescheduled_together(world: World) -> None:
    now = world.store.clock.now()
    later = [world.made(run_at=now + HOUR) for _ in range(2)]
    running = world.running()
    chosen = [("job", job.id) for job in [*later, running]]
    page = world.post("/jobs/preview", [("verb", "reschedule"), ("when", "3h"), *chosen]).text
    assert "Reschedule 2 jobs?" in page and "becomes due in" in page and "only jobs that are due later" in page
    fields = [("verb", "reschedule"), ("when", "3h"), *(("seen", f"queued {job.id}") for job in later)]
    assert "2 of 2 done" in world.post("/jobs/apply", fields).text
    for job in later:
        assert world.store.get(job.id).run_at >= now + 3 * HOUR - 1
    assert [what.partition(" to ")[0] for what, _ in audited(world)] == ["rescheduled"] * 2


def test_a_time_is_a_distance_or_a_moment_in_utc() -> None:
    assert parse_change("reschedule", {"when": ["90s"]}, 1_000.0).at == 1_090.0
    assert parse_change("reschedule", {"when": ["2d"]}, 0.0).at == 172_800.0
    assert parse_change("reschedule", {"when": ["1970-01-02 00:00"]}, 0.0).at == 86_400.0
    for wrong in ("", "soon", "1w", "9999999h", "2026-13-01", "-2h", "²h"):
        with pytest.raises(BadChange, match="is no time"):
            parse_change("reschedule", {"when": [wrong]}, 0.0)


@pytest.mark.parametrize(
    ("verb", "name", "text", "told"),
    [
        ("reschedule", "when", "soon", "is no time"),
        ("event", "event", "a#b", "event"),
        ("event", "data", "{", "This is no JSON"),
        ("clone", "args", "[1]", "Arguments are a JSON object"),
        ("clone", "args", "[" * 50_000, "This is no JSON"),
    ],
)
def test_what_is_wrong_comes_back_with_what_was_typed_and_nothing_is_done(
    world: World, verb: str, name: str, text: str, told: str
) -> None:
    job = world.store.get(world.made(run_at=world.store.clock.now() + HOUR).id)
    named = [] if name == "event" else [("event", "approval")]
    fields = [("verb", verb), (name, text), *named, ("seen", f"queued {job.id}")]
    response = world.post("/jobs/apply", fields)
    assert response.status_code == 400 and told in response.text
    assert text[:50] in response.text
    assert world.store.get(job.id) == job and audited(world) == []


def test_an_event_is_sent_to_one_that_waits_and_to_one_that_will(world: World) -> None:
    jobs = [world.made(), world.running()]
    chosen = [("job", job.id) for job in jobs]
    page = world.post("/jobs/preview", [("verb", "event"), ("event", "approval"), *chosen]).text
    assert page.count("gets it as soon as it waits for it") == 2
    seen = re.findall(r'name="seen" value="([^"]+)"', page)
    fields = [("verb", "event"), ("event", "approval"), ("data", '{"by": "ada"}'), *(("seen", one) for one in seen)]
    assert "2 of 2 done" in world.post("/jobs/apply", fields).text
    for job in jobs:
        sent = world.store.workflows.first_event(job.id, "approval")
        assert sent is not None and world.store.load(job, sent.data) == {"by": "ada"}
    ended = world.completed()
    again = world.post("/jobs/apply", [*fields[:3], ("seen", f"completed {ended.id}")]).text
    assert "0 of 1 done" in again and "would never be taken" in again
    assert [what for what, _ in audited(world)] == ["sent the event approval"] * 2


def test_failed_jobs_run_again_with_one_argument_changed(world: World) -> None:
    jobs = [world.failed(args={"project": "bodwasho", "month": month}) for month in (9, 10)]
    secret = world.store.create(NewJob("login", {"password": "x"}, secret=frozenset({"password"})))[0]
    fields = [("verb", "clone"), ("args", '{"project": "bodwassho"}')]
    fields += [("seen", f"failed {job.id}") for job in jobs] + [("seen", f"queued {secret.id}")]
    page = world.post("/jobs/apply", fields).text
    assert "2 of 3 done" in page and "secret" in page
    made = [job for job in world.store.find(state=State.QUEUED).jobs if job.task == "report"]
    assert {job.args.text for job in made} == {f'{{"project":"bodwassho","month":{month}}}' for month in (9, 10)}
    assert all(world.store.get(job.id).state is State.FAILED for job in jobs)
    assert sorted(about for _, about in audited(world)) == sorted(job.id for job in jobs)


def test_long_arguments_are_edited_whole_and_very_long_ones_not_at_all(world: World) -> None:
    args = {"rows": list(range(6_000)), "project": "bodwasho", "number": 10**30}
    job = world.failed(args=args)
    page = world.page(f"/jobs/{job.id}/clone")
    text = html.unescape(page.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0])
    assert json.loads(text) == args
    made = world.post(f"/jobs/{job.id}/clone", [("do", "run"), ("args", text.replace("bodwasho", "bodwassho"))])
    again = world.store.get(made.url.path.rpartition("/")[2])
    assert world.store.load(again, again.args) == {**args, "project": "bodwassho"}
    long = world.failed(args={"text": "x" * 310_000})
    answer = world.get(f"/jobs/{long.id}/clone")
    assert answer.status_code == 413 and "too long to be edited here" in answer.text


ONCE = re.compile(r'name="once" value="([^"]+)"')


def test_a_form_that_is_sent_twice_makes_one_job_and_sends_one_event(world: World) -> None:
    """By a double click, or when its answer is loaded again."""
    job = world.failed(args={"project": "bodwasho"})
    path = f"/jobs/{job.id}/clone"
    form = ONCE.findall(world.page(path))
    fields = [("do", "run"), ("args", '{"project": "bodwassho"}'), ("once", form[0])]
    first, second = (world.post(path, fields).url.path for _ in range(2))
    assert first == second != f"/jobs/{job.id}"
    other = world.post(path, [*fields[:1], ("args", '{"project": "harbour"}'), fields[2]]).url.path
    assert other != first, "another argument is another job"
    assert f'cloned as <a class="in-text" href="{first}">' in world.page("/activity")
    assert world.post(path, [*fields[:2], ("once", ONCE.findall(world.page(path))[0])]).url.path != first
    assert [what.partition(" as ")[0] for what, _ in audited(world)] == ["cloned"] * 3

    preview = world.post("/jobs/preview", [("verb", "clone"), ("job", job.id)]).text
    fields = [("verb", "clone"), ("seen", f"failed {job.id}"), ("args", "{}"), ("once", ONCE.findall(preview)[0])]
    pages = [world.post("/jobs/apply", fields).text for _ in range(2)]
    assert len({re.findall(r"job_\w+(?= was made|</a> was made)", page)[0] for page in pages}) == 1

    running = world.running()
    preview = world.post("/jobs/preview", [("verb", "event"), ("job", running.id)]).text
    fields = [("verb", "event"), ("event", "approval"), ("data", '{"by": "ada"}')]
    fields += [("seen", f"processing {running.id}"), ("once", ONCE.findall(preview)[0])]
    assert all("1 of 1 done" in world.post("/jobs/apply", fields).text for _ in range(2))
    assert world.store.get(running.id).sent == 1


def test_jobs_of_another_table_of_an_app_are_shown_and_changed_too(world: World) -> None:
    other = JobStore.of_table(world.db, DEFAULT_TABLE)
    other = JobStore(world.db, type(other.layout)("shop-jobs"))
    other.create_tables()
    ours, theirs = world.made("report"), other.create(NewJob("ship", {}))[0]
    page = world.page("/jobs")
    assert f'value="{ours.id}"' in page and f'value="{theirs.id}"' in page
    fields = [("verb", "cancel"), ("seen", f"queued {ours.id}"), ("seen", f"queued {theirs.id}")]
    assert "2 of 2 done" in world.post("/jobs/apply", fields).text
    assert other.get(theirs.id).state is State.CANCELLED and world.store.get(ours.id).state is State.CANCELLED


def test_a_group_of_failures_has_those_that_will_be_retried_and_they_are_cancelled(world: World) -> None:
    error = JobError("ConnectionError", "refused after 17 ms")
    world.store.fail(world.running("send_mail"), error)
    later = [
        world.store.fail(world.running("send_mail"), error, retry_at=world.store.clock.now() + HOUR) for _ in range(2)
    ]
    world.app.state.site.overview.refresh()
    page = world.page("/failures")
    assert "Retry 1…" in page and "Cancel 2…" in page
    key = "send_mail\nConnectionError\nrefused after # ms"
    preview = world.post("/jobs/preview", [("verb", "cancel"), ("group", key)]).text
    assert "Cancel 2 jobs?" in preview and all(job.id in preview for job in later)


def test_the_overview_shows_each_error_once_with_how_often_it_came(world: World) -> None:
    for number in range(3):
        world.store.fail(world.running("send_mail"), JobError("ConnectionError", f"refused after {number} ms"))
    world.failed("report")
    world.app.state.site.overview.refresh()
    page = world.page("/").partition("Newest failures")[2].partition("Blocked and lost")[0]
    assert page.count("<b>send_mail</b>") == 1 and "×3" in page and page.count("<b>report</b>") == 1


def test_the_chart_of_a_week_counts_on_in_steps_and_says_back_to_when(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        (world.failed if number % 3 == 0 else world.completed)()
    monkeypatch.setattr(ended_jobs, "FIRST_JOBS", 2)
    monkeypatch.setattr(ended_jobs, "STEP_JOBS", 2)
    page = world.page("/?span=7d")
    assert "So far jobs that were made since" in page and "As a table" in page
    assert 'data-live="/live/overview?key=7d"' in page
    feed = world.app.state.poller.feeds["overview"]
    for _ in range(3):
        (message,) = feed.poll(["7d"])["7d"]
    assert "So far" not in message.html
    assert "last 7 days: 4 completed, 3 failed" in message.html
    assert feed.poll(["8d"]) == {}, "a span that there is not draws nothing"
    assert 'aria-current="true">1h<' in world.page("/?span=%3Cscript%3E")


def test_a_list_is_sorted_by_the_head_of_a_column_and_says_that_it_is_not_live(world: World) -> None:
    for tenant in ("globex", "acme", "initech"):
        world.failed("report", tenant=tenant)
    assert world.page("/jobs?q=status:failed").count("data-live") == 1

    def tenants(page: str) -> list[str]:
        return re.findall(r'<td class="tenant"[^>]*>(\w+)</td>', page)

    page = world.page("/jobs?q=status:failed&sort=tenant")
    assert tenants(page) == ["acme", "globex", "initech"]
    assert 'aria-sort="ascending"' in page and "data-live" not in page and "not live" in page
    assert tenants(world.page("/jobs?q=status:failed&sort=-tenant")) == ["initech", "globex", "acme"]
    assert "data-live" in world.page("/jobs?sort=password"), "what there is no column for sorts nothing"
    for odd in ("from=-1", "from=%C2%B2", "from=" + "9" * 5_000):
        assert world.get(f"/jobs?sort=kind&{odd}").status_code == 200


def test_failures_of_other_tables_are_seen_too(world: World) -> None:
    """The job that failed at night may be a system's: a dashboard that says 0 would mislead."""
    shop = JobStore(world.db, type(world.store.layout)("shop-jobs"))
    shop.create_tables()
    job = shop.create(NewJob("ship", {}))[0]
    claimed = shop.claim(job, "w1", 60.0)
    assert claimed is not None
    shop.fail(claimed, JobError("OutOfStock", "no desk left"))
    world.failed("report")
    world.app.state.site.overview.refresh()
    page = world.page("/")
    assert f'href="/jobs/{job.id}"' in page and "OutOfStock" in page
    assert re.search(r"failed</span>\s*<span class=\"number\">2<", page)
    assert "OutOfStock" in world.page("/failures")
    preview = world.post("/jobs/preview", [("verb", "retry"), ("group", "ship\nOutOfStock\nno desk left")]).text
    assert "Retry 1 job?" in preview and job.id in preview
