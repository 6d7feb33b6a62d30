"""What the dashboard's pages show, without a browser."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import FAILURE, World

from penstock.clock import ManualClock
from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.job import Entry, JobError, JobFile, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.webhook import webhook_of
from penstock.tables.definitions.definition import Naming
from penstock.web.dashboard.ended_jobs import EndedJobs
from penstock.web.dashboard.job_counts import finished_jobs
from penstock.web.dashboard.job_log import read_history
from penstock.web.dashboard.job_survey import JobSurvey, pattern_of
from penstock.web.dashboard.security import POLICY
from penstock.web.dashboard.site import disposition, rate, took

PAGES = (
    *("/", "/jobs", "/failures", "/queues", "/schedules", "/pipelines", "/records", "/tables", "/partiql"),
    *("/tables/some-table", "/workers", "/activity"),
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_every_page_answers_under_a_policy_that_allows_no_inline_script(world: World) -> None:
    job = world.failed()
    for path in (*PAGES, f"/jobs/{job.id}", "/no/such/page"):
        response = world.get(path)
        assert response.headers["content-security-policy"] == POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in response.text
        assert " onclick" not in response.text
        assert "<style" not in response.text
        assert re.findall(r"<script(?! src=)", response.text) == []


def test_the_overview_counts_jobs_by_state_and_tells_of_the_oldest_that_waits(world: World) -> None:
    waiting = world.made()
    world.running("export")
    world.completed()
    world.failed(tenant="acme")
    page = world.page("/")
    numbers = re.findall(r'tile-name">(\w+)</span>\s*<span class="number">([\d,+]+)', page)
    assert {name: number for name, number in numbers if number != "0"} == {
        "ready": "1",
        "running": "1",
        "completed": "1",
        "failed": "1",
    }
    assert numbers[0][0] == "failed" and len(numbers) == 10, "what is wrong comes first"
    assert f'href="/jobs/{waiting.id}"' in page
    assert "ValueError: no such project" in page
    assert "No worker is running now" in page


def test_the_overview_shows_the_workers_that_live_and_what_asking_has_cost(world: World) -> None:
    now = world.store.clock.now()
    worker = WorkerInfo("laptop:1:a", now, now, ("default",), ("report",), 8, 3, 41, 250.0)
    WorkerRegistry(world.db, world.store.layout).beat(worker)
    page = world.page("/")
    assert "3 of 8 places busy" in page
    assert "250 <small>read units" in page
    assert "laptop:1:a" in world.page("/workers")


def test_a_worker_that_has_missed_its_heartbeats_is_shown_as_silent(world: World) -> None:
    now = world.store.clock.now()
    for name, seen_at in (("well:1:a", now), ("frozen:2:b", now - 30)):
        worker = WorkerInfo(name, now - 90, seen_at, ("default",), ("report",), 8, 0, 0, 0.0)
        WorkerRegistry(world.db, world.store.layout).beat(worker)
    rows = dict(re.findall(r'<tr data-key="([^"]+)">(.*?)</tr>', world.page("/workers"), re.S))
    assert {name: ">silent<" in row for name, row in rows.items()} == {"well:1:a": False, "frozen:2:b": True}
    assert "1 silent" in world.page("/")


def test_a_worker_that_is_gone_is_not_shown_and_looking_writes_nothing(world: World) -> None:
    long_ago = world.store.clock.now() - 3600
    worker = WorkerInfo("laptop:1:a", long_ago, long_ago, ("default",), ("report",), 8, 3, 41, 250.0)
    WorkerRegistry(world.db, world.store.layout).beat(worker)
    job = world.made()
    world.switch.calls.clear()
    for path in ("/", "/workers", "/jobs", f"/jobs/{job.id}"):
        assert "laptop:1:a" not in world.page(path)
    assert set(world.switch.calls) <= {"Query", "GetItem", "BatchGetItem", "ListTables", "DescribeTable"}


def test_the_first_poll_of_an_open_page_replaces_the_small_sample_of_its_first_view(world: World) -> None:
    for _ in range(60):
        world.completed()
    assert "The newest 20 that finished" in world.page("/")
    (message,) = world.app.state.poller.feeds["overview"].poll([""])[""]
    assert "Finished in the last hour" in message.html and "<dd>60</dd>" in message.html


def test_shares_stay_right_where_only_the_newest_are_looked_at(world: World) -> None:
    clock = ManualClock(time.time() - 60)
    world.store = JobStore(world.db, files=world.files, clock=clock)
    for place in range(10):
        clock.advance(1)
        if place < 4:
            world.failed()
        else:
            world.completed()
    now = clock.now()
    every = finished_jobs(world.store, now, 50)
    assert (len(every.jobs), every.whole_hour) == (10, True)
    some = finished_jobs(world.store, now, 3)
    assert not some.whole_hour
    assert {job.state for job in some.jobs} == {State.COMPLETED}  # the failures are older than the oldest of these
    assert all(job.created_at >= some.since for job in some.jobs)


def end_every_tenth_with_a_failure(world: World, number: int) -> float:
    """Made one after the other; the newest ends first. Returns when the last one was made."""
    clock = ManualClock(time.time() - 600)
    store = JobStore(world.db, files=world.files, clock=clock)
    made = []
    for _ in range(number):
        clock.advance(1)
        made.append(store.create(NewJob("report", {}))[0])
    for place in (number - 1, *range(number - 1)):
        clock.advance(0.1)
        running = store.claim(made[place], "w1", 60.0)
        assert running is not None
        if place % 10 == 0:
            store.fail(running, JobError("ValueError", "no such project", ""))
        else:
            store.complete(running, None)
    return clock.now()


def test_a_sample_has_both_states_back_to_the_same_time_whatever_ended_first(world: World) -> None:
    now = end_every_tenth_with_a_failure(world, 60)
    sample = finished_jobs(world.store, now, 6)
    assert len(sample.jobs) == 6 and {job.state for job in sample.jobs} == {State.COMPLETED}
    assert sample.minutes == pytest.approx(6 / 60, abs=0.02)
    some = finished_jobs(world.store, now, 20)
    assert sorted(Counter(job.state for job in some.jobs).items()) == [(State.COMPLETED, 20), (State.FAILED, 2)]


def test_the_share_of_failures_of_a_week_is_right_while_jobs_are_being_counted(world: World) -> None:
    now = end_every_tenth_with_a_failure(world, 60)
    ended = EndedJobs()
    ended.current(world.store, now)  # reads a hundred of each: all of them
    slow = EndedJobs()
    seen = []
    for _ in range(20):
        slow._step(world.store, now, 3)
        view = slow._view
        failed, completed = (sum(number for _, one, number in view.ends if one is which) for which in (True, False))
        seen.append((failed, completed))
        assert failed <= completed / 9 + 1
        if view.since is None:
            break
    assert seen[-1] == (6, 54) and len(seen) > 10
    assert sorted(view.ends) == sorted(ended.refresh(world.store, now).ends)


def test_a_pause_is_seen_at_once_however_many_jobs_wait(world: World) -> None:
    world.store.create_all([NewJob("send_mail", {"n": n}, queue="mail", tenant="acme") for n in range(30)])
    world.store.create_all([NewJob("report", {"n": n}) for n in range(300)])
    survey, now = JobSurvey(), time.time()
    while State.QUEUED not in survey.view().whole:
        survey.step(world.store, now, 100)
    world.store.pause("mail", "the provider is down")
    survey.step(world.store, now, 1)
    view = survey.view()
    assert [(one.why, one.tenant, one.number) for one in view.blocked] == [("the queue mail is paused", "acme", 30)]
    assert view.queues["mail"].states == {DerivedState.BLOCKED: 30}
    world.store.resume("mail")
    survey.step(world.store, now, 1)
    assert survey.view().blocked == () and survey.view().states[DerivedState.READY] == 330


def test_the_overview_says_which_queue_no_worker_has_and_what_it_leaves_out(world: World) -> None:
    now = time.time()
    worker = WorkerInfo("laptop:1:a", now, now, ("default",), ("report",), 8, 3, 41, 250.0)
    WorkerRegistry(world.db, world.store.layout).beat(worker)
    world.made("archive", queue="archive")
    for number in range(8):
        world.made("unknown", tenant=f"tenant-{number}")
    page = " ".join(re.sub(r"<[^>]+>", " ", world.page("/")).split())
    assert "archive no worker has this queue 1 job" in page
    assert "And 2 more tenants or reasons." in page


def test_that_nothing_is_blocked_is_said_of_the_jobs_that_were_read(world: World) -> None:
    world.store.create_all([NewJob("report", {"n": n}) for n in range(200)])
    assert "Of 60 jobs read so far none is blocked" in world.page("/")
    world.app.state.site.overview.forget()
    world.app.state.site.overview.refresh()
    assert "No job is blocked, and none has lost its worker." in world.page("/")


def test_a_database_without_jobs_says_how_to_make_the_first(tmp_path: Path) -> None:
    world = World(tmp_path, tables=False)
    for path in ("/", "/jobs", "/workers"):
        page = world.page(path)
        assert "No jobs yet" in page
        assert ".enqueue(" in page
    world.store.create_tables()
    assert "There are no jobs yet." in world.page("/jobs")  # found without a restart
    assert "start one" in world.page("/workers").lower()
    world.close()


def test_jobs_of_systems_are_listed_and_shown_and_only_read(world: World) -> None:
    ours = world.made()
    books = Books(world.db, Naming("construction-expenses"))
    books.make_tables()
    Intake(books, handle).receive(webhook_of({"event_id": "evt_1", "event_type": "subscription.created", "data": {}}))
    page = world.page("/jobs")
    assert ours.id in page and "evt_1" in page and "construction-expenses" in page
    assert f'value="{ours.id}"' in page and 'value="evt_1"' not in page, "only a job store's jobs can be chosen"
    assert "evt_1" in world.page("/jobs?q=status%3Afailed") and ours.id not in world.page("/jobs?q=status%3Afailed")
    shown = world.page("/jobs/evt_1")
    assert "A job of construction-expenses" in shown and "BadWebhook" in shown and "Retry…" not in shown


def test_filters_are_the_url(world: World) -> None:
    failed = world.failed("import", tenant="acme")
    others = [world.failed("report"), world.made("import", tenant="acme"), world.failed("import")]
    page = world.page("/jobs?q=status%3Afailed+kind%3Aimport+tenant%3Aacme")
    assert failed.id in page
    assert not any(job.id in page for job in others)
    assert 'value="status:failed kind:import tenant:acme"' in page


def test_words_are_looked_for_in_ids_errors_steps_and_arguments(world: World) -> None:
    one = world.made(args={"project": "Bodwassho"})
    other = world.failed()
    assert one.id in (page := world.page("/jobs?q=bodwassho")) and other.id not in page
    assert other.id in (page := world.page("/jobs?q=%22such+project%22")) and one.id not in page
    assert "No job matches" in world.page("/jobs?q=nothing-has-this")


def test_a_jobs_id_in_the_search_box_leads_to_the_job(world: World) -> None:
    job = world.made()
    response = world.get(f"/jobs?q={job.id}", follow_redirects=False)
    assert response.headers["location"] == f"/jobs/{job.id}"


def test_a_status_or_a_filter_that_there_is_not_is_told(world: World) -> None:
    assert "There is no status" in world.page("/jobs?q=status%3Adone")
    assert "There is no filter colour:" in world.page("/jobs?q=colour%3Ared")
    assert "There is no filter" not in world.page("/jobs?q=https%3A//example.org")


def test_failures_are_listed_by_when_they_failed(world: World) -> None:
    old = world.running("old")
    new = world.running("new")
    world.store.fail(new, FAILURE)
    time.sleep(0.002)  # times are kept in milliseconds
    world.store.fail(old, FAILURE)
    overview = world.page("/")
    assert overview.index(old.id) < overview.index(new.id)
    page = world.page("/jobs?q=status%3Afailed")
    assert page.index(f'data-key="{old.id}"') < page.index(f'data-key="{new.id}"')


def test_pages_of_failed_jobs_neither_repeat_nor_leave_out(world: World) -> None:
    failed = {world.failed(f"task{number % 3}").id for number in range(70)}
    world.app.state.site.overview.refresh()
    seen: list[str] = []
    path: str | None = "/jobs?q=status%3Afailed"
    while path is not None:
        page = world.page(path)
        seen += re.findall(r'data-key="(job_\w+)"', page)
        found = re.search(r'href="(/jobs\?[^"]+)" rel="next"', page)
        path = found.group(1).replace("&amp;", "&") if found else None
    assert len(seen) == len(set(seen)) and set(seen) == failed


def test_failures_are_grouped_by_task_and_error_and_a_group_is_retried(world: World) -> None:
    for number in range(3):
        world.store.fail(world.running("import"), JobError("KeyError", f"no row {number}", ""))
    world.failed("report")
    page = world.page("/failures")
    assert "no row #" in page and page.count("<tr data-key=") == 2
    assert "Retry 3…" in page
    assert "status%3Afailed+kind%3Aimport+error%3AKeyError" in page
    other = world.store.fail(world.running("import"), JobError("KeyError", "something else", ""))
    world.app.state.site.overview.forget()
    preview = world.post("/jobs/preview", [("verb", "retry"), ("group", "import\nKeyError\nno row #")]).text
    assert other.id not in preview
    assert "Retry 3 jobs?" in preview


@pytest.mark.parametrize(
    ("one", "other", "pattern"),
    [
        ("job_mwn5viuv_gu0161 is failed: no", "job_0448899ff828d1e31da7_00002 is failed: no", "job_# is failed: no"),
        ("no 0448899ff828d1e3 here", "no a694abe30cb9dab2 here", "no # here"),
        ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "a0000000-7dec-11d0-a765-000000000000", "#"),
        ("at 0xdeadbeef", "at 0x1", "at #"),
        ("10.0.0.1:587 refused", "10.12.0.99:25 refused", "#.#.#.#:# refused"),
        ("the facade has faded", "the facade has faded", "the facade has faded"),
    ],
)
def test_failures_that_differ_in_ids_and_numbers_are_one_group(one: str, other: str, pattern: str) -> None:
    assert pattern_of(one) == pattern_of(other) == pattern


def test_a_group_shows_its_message_as_it_is_where_all_have_the_same(world: World) -> None:
    for number in range(2):
        world.store.fail(world.running("import"), JobError("UnicodeError", "not utf8", ""))
        world.store.fail(world.running("load"), JobError("OSError", f"port {number}", ""))
    page = world.page("/failures")
    assert "</b></a> not utf8<br>" in page and "</b></a> port #<br>" in page


def test_a_job_without_progress_shows_its_arguments_in_the_list_unless_they_are_secret(world: World) -> None:
    world.made("plain", {"project": "bodwassho"})
    world.made("hidden", {"password": "hunter2"}, secret=("password",))
    world.completed("bare")
    page = world.page("/jobs")
    assert "{&#34;project&#34;:&#34;bodwassho&#34;}" in page and "hunter2" not in page
    assert "100 %" not in page and ">{}<" not in page


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 ms"), (0.0124, "12 ms"), (0.94, "940 ms"), (0.99, "1.0 s"), (125, "2m 5s")]
)
def test_short_times_are_milliseconds(seconds: float, text: str) -> None:
    assert took(seconds) == text


def test_what_is_rare_is_not_never() -> None:
    assert [rate(one) for one in (0, 0.017, 0.05, 12.34, 3079)] == ["0.0", "< 0.1", "0.1", "12.3", "3,079"]


def test_tabs_are_the_derived_states_with_their_counts_and_columns(world: World) -> None:
    later = world.made("later", delay_seconds=3600)
    ready = world.made("ready")
    blocked = world.made("slow", queue="slow", tenant="acme")
    world.store.pause("slow", "the shop is closed")
    page = world.page("/jobs")
    assert dict(re.findall(r">(Ready|Scheduled|Blocked) <span class=\"n\">(\d+)", page)) == {
        "Ready": "1",
        "Scheduled": "1",
        "Blocked": "1",
    }
    scheduled = world.page("/jobs?q=status%3Ascheduled")
    assert later.id in scheduled and ready.id not in scheduled and ">Due</a></th>" in scheduled
    by = world.page("/jobs?q=status%3Ablocked")
    assert "the queue slow is paused" in by and blocked.id in by and ">Blocked by</th>" in by
    overview = world.page("/")
    assert "the queue slow is paused" in overview and "acme" in overview


def test_queues_without_a_worker_are_shown_paused_and_resumed(world: World) -> None:
    world.made("slow", queue="slow")
    page = world.page("/queues")
    assert "slow" in page and "no worker" in page
    assert "1 will wait" in page and "0 running" not in page
    assert world.post("/queues/apply", [("do", "pause slow")]).url.path == "/queues"
    assert world.store.queue("slow").paused
    assert "paused" in world.page("/queues")
    world.post("/queues/apply", [("do", "resume slow")])
    assert not world.store.queue("slow").paused
    activity = world.page("/activity")
    assert activity.index("resumed") < activity.index("paused") and "queue slow" in activity
    assert world.post("/queues/apply", [("do", "burn slow")]).status_code == 400


def test_a_job_that_is_due_later_is_run_now(world: World) -> None:
    later, waiting = world.made(delay_seconds=3600), world.made()
    preview = world.post("/jobs/preview", [("verb", "run"), ("job", later.id), ("job", waiting.id)]).text
    assert "Run now 1 job?" in preview
    world.post("/jobs/apply", [("verb", "run"), ("seen", f"queued {later.id}")])
    assert world.store.get(later.id).run_at <= world.store.clock.now()
    assert [job.id for job in world.store.first_ready("default", 10) if job.id == later.id] == [later.id]
    assert "made due now" in world.page("/activity")


def test_the_job_of_a_lost_worker_is_lost_and_has_no_estimate(world: World) -> None:
    clock = ManualClock(time.time() - 3600)
    store = JobStore(world.db, files=world.files, clock=clock)
    job = store.claim(store.create(NewJob("report", {}))[0], "w1", 60.0)
    assert job is not None
    for number in range(1, 5):
        clock.advance(5)
        job = store.report(job, progress=number * 20, step=f"part {number}")
    page = world.page(f"/jobs/{job.id}")
    assert 'state-lost">lost' in page and "at this pace" not in page
    assert 'class="curve"' in page and "curve-ahead" not in page
    assert 'class="dot life-lost"' in page and "life-running" not in page
    assert job.id in world.page("/jobs?q=status%3Alost")
    assert job.id not in world.page("/jobs?q=status%3Arunning")


def test_pages_of_the_list_neither_repeat_nor_leave_out(world: World) -> None:
    made = {job.id for job, _ in world.store.create_all([NewJob("report", {"n": n}) for n in range(120)])}
    seen: list[str] = []
    path: str | None = "/jobs"
    while path is not None:
        page = world.page(path)
        seen += re.findall(r'data-key="(job_\w+)"', page)
        found = re.search(r'href="(/jobs\?[^"]+)" rel="next"', page)
        path = found.group(1).replace("&amp;", "&") if found else None
    assert len(seen) == len(set(seen))
    assert set(seen) == made


def test_a_job_whose_numbers_are_past_64_bits_is_shown(world: World) -> None:
    job, _ = world.store.create(NewJob("report", {"atoms": 10**80}))
    assert str(10**80) in world.page(f"/jobs/{job.id}")


def test_a_job_shows_its_progress_log_attempts_checkpoints_and_cost(world: World) -> None:
    clock = ManualClock(time.time() - 30)
    world.store = JobStore(world.db, files=world.files, clock=clock)
    job = world.running(args={"project": "bodwassho"})
    for number in range(1, 5):
        clock.advance(5)
        job = world.store.report(job, progress=number * 20, step=f"part {number}", message=f"line {number}")
    job = world.store.report(job, checkpoint="rows", value={"rows": [1, 2]}, summary="two rows")
    job = world.store.report(job, checkpoint="more", value={"rows": [1, 2, 3]}, version=2)
    page = world.page(f"/jobs/{job.id}")
    assert "80 %" in page and "part 4" in page
    assert "4.0 % a second" in page
    assert re.findall(r'id="line-(\d+)"', page) == [str(number) for number in range(1, 7)]
    assert "attempt 1 on w1: running" in page
    assert "two rows" in page
    assert "write units" in page
    assert "is running on w1" in page
    assert "bodwassho" in page
    compared = world.page(f"/jobs/{job.id}?before=rows&after=more")
    assert '<span class="diff-add">+    3</span>' in compared
    assert "more (version 2)" in compared


def test_what_runs_shows_its_progress_before_its_arguments_and_what_has_not_run_no_attempts(world: World) -> None:
    running = world.running()
    for number in (1, 2):
        running = world.store.report(running, progress=number * 20, step=f"part {number}")
    page = world.page(f"/jobs/{running.id}")
    assert page.index('id="h-progress"') < page.index('id="h-args"') and page.count('id="h-progress"') == 1
    world.store.complete(running)
    page = world.page(f"/jobs/{running.id}")
    assert page.index('id="h-args"') < page.index('id="h-progress"') and page.count('id="h-progress"') == 1
    assert "<span>100 %</span><span>50 %</span><span>0 %</span>" in page
    page = world.page(f"/jobs/{world.running('silent').id}")
    assert "No progress has been reported." in page and "<b>0 %</b>" not in page
    page = world.page(f"/jobs/{world.made().id}")
    assert "It has not run yet." in page and "timeline" not in page


def test_a_job_that_waits_says_why(world: World) -> None:
    assert "no worker is running now" in world.page(f"/jobs/{world.made().id}")


def test_a_long_log_is_shown_from_its_end_and_can_be_gone_back_through(world: World) -> None:
    job = world.running()
    for number in range(205):
        job = world.store.report(job, message=f"line {number + 1}")
    page = world.page(f"/jobs/{job.id}")
    assert 'data-last="205"' in page and 'id="line-6"' in page and 'id="line-5"' not in page
    earlier = world.page(f"/jobs/{job.id}?upto=5")
    assert re.findall(r'id="line-(\d+)"', earlier) == ["1", "2", "3", "4", "5"]
    assert "data-live" not in earlier


def test_a_very_long_log_is_not_read_whole_and_can_be_searched_jumped_into_and_downloaded(world: World) -> None:
    job = world.running()
    layout = world.store.layout
    entries = (Entry(number, 1_790_000_000.0 + number, message=f"line {number}") for number in range(1, 5_001))
    lines = [layout.entry(job, entry).item for entry in entries]
    for start in range(0, len(lines), 25):
        puts = [{"PutRequest": {"Item": item}} for item in lines[start : start + 25]]
        world.db.execute("BatchWriteItem", {"RequestItems": {layout.table: puts}})
    key = {"TableName": layout.table, "Key": layout.main_key(job.id)}
    update = {"UpdateExpression": "SET entries = :n", "ExpressionAttributeValues": {":n": {"N": "5000"}}}
    world.db.execute("UpdateItem", {**key, **update})
    history = read_history(world.store, job.id)
    assert len(history.entries) == 1_000 and history.entries[-1].number == 5_000
    page = world.page(f"/jobs/{job.id}")
    assert 'id="line-5000"' in page and 'id="line-4800"' not in page and 'id="line-4801"' in page
    assert 'id="line-77"' in world.page(f"/jobs/{job.id}?line=77")
    read = [int(number) for number in re.findall(r'id="line-(\d+)"', world.page(f"/jobs/{job.id}?find=LINE+49"))]
    assert read[:3] == [49, 490, 491] and read[-1] == 4999 and len(read) == 111
    assert "No line matches" in world.page(f"/jobs/{job.id}?find=nothing")
    text = world.get(f"/jobs/{job.id}/log.txt")
    assert text.headers["content-disposition"].startswith("attachment") and len(text.text.splitlines()) == 5_000


@pytest.mark.parametrize("job_id", ["job_no_such", "%00", "a" * 3000, "queue%23default", "settings", "ü"])
def test_an_unknown_job_is_not_found(world: World, job_id: str) -> None:
    response = world.get(f"/jobs/{job_id}")
    assert response.status_code == 404
    assert "There is no" in response.text


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


def test_html_in_every_field_stays_text(world: World) -> None:
    safe = EVIL.replace("/", "|")
    job = world.running(safe[:60], args={EVIL: EVIL}, tenant=safe, owner=EVIL, unique_key=EVIL)
    job = world.store.report(job, progress=10, step=EVIL, message=EVIL, data={EVIL: EVIL})
    job = world.store.report(job, checkpoint=safe, value={EVIL: EVIL}, summary=EVIL)
    job = world.store.attach(job, JobFile(EVIL, world.files.save("a/b", b"x")))
    job = world.store.fail(job, JobError(EVIL, EVIL, EVIL))
    world.store.pause("default", EVIL)
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/workers", f"/jobs?q={EVIL}", f"/jobs/{EVIL}", f"/{EVIL}"):
        text = world.get(path).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert "{{7*7}}" in world.page(f"/jobs/{job.id}")


def test_a_file_is_downloaded_never_shown(world: World) -> None:
    job = world.running()
    saved = world.files.save(f"{job.id}/page.html", b"<script>alert(1)</script>")
    job = world.store.attach(job, JobFile('out/pa"ge.html', saved))
    response = world.get(f"/jobs/{job.id}/files/out%2Fpa%22ge.html")
    assert response.content == b"<script>alert(1)</script>"
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"].startswith('attachment; filename="pa_ge.html"')
    assert world.get(f"/jobs/{job.id}/files/other").status_code == 404


@pytest.mark.parametrize("name", ["../../etc/passwd", "a\r\nSet-Cookie: x=1", "..", "", "ü.txt", "C:\\x\\y.txt", 'a"b'])
def test_a_files_name_cannot_leave_its_header_or_folder(name: str) -> None:
    header = disposition(name)
    assert header.startswith("attachment; filename=")
    assert "\r" not in header and "\n" not in header and "/" not in header and "\\" not in header
    assert header.isascii() and header.count('"') == 2 and '".' not in header


def test_values_too_long_to_read_are_cut(world: World) -> None:
    job = world.made(args={"text": "x" * 200_000})
    page = world.page(f"/jobs/{job.id}")
    assert len(page) < 60_000
    assert "characters in all" in page


def test_a_database_that_goes_away_is_told_of_and_its_return_is_noticed(world: World) -> None:
    job = world.made()
    world.switch.away = True
    for path in ("/jobs", f"/jobs/{job.id}", "/workers"):
        response = world.get(path)
        assert response.status_code == 503
        assert "The database does not answer." in response.text
        assert 'http-equiv="refresh"' in response.text
    world.switch.away = False
    assert job.id in world.page("/jobs")


def test_a_select_is_run_with_its_units_and_nothing_else_is(world: World) -> None:
    job = world.made(args={"project": EVIL})
    statement = f"SELECT * FROM \"penstock-jobs\" WHERE job_id = '{job.id}'"
    page = world.get("/partiql", params={"statement": statement}).text
    assert job.id in page and "1 item, 0.5 read units" in page and "<script>alert" not in page
    as_json = world.get("/partiql", params={"statement": statement, "as": "json"}).text
    assert "&#34;job_id&#34;: &#34;" in as_json
    removal = world.get("/partiql", params={"statement": statement.replace("SELECT *", "DELETE")})
    assert removal.status_code == 400 and "Only SELECT" in removal.text
    wrong = world.get("/partiql", params={"statement": "SELECT * FROM nothing"})
    assert wrong.status_code == 400 and 'role="alert"' in wrong.text
    assert world.store.get(job.id).id == job.id


@pytest.mark.parametrize("path", ["/", "/jobs", "/jobs?q=status%3Ablocked", "/failures", "/queues"])
def test_a_first_page_reads_no_more_where_there_are_many_jobs(tmp_path: Path, path: str) -> None:
    calls = []
    for number in (1_100, 2_500):
        world = World(tmp_path / str(number))
        world.store.create_all([NewJob("report", {"n": n}) for n in range(number)])
        world.page("/workers")  # which tables there are is known
        world.switch.calls.clear()
        world.page(path)
        calls.append(len(world.switch.calls))
        world.close()
    assert calls[1] <= calls[0] * 1.2 and calls[1] < 150, calls


def test_a_page_with_its_assets_is_short(world: World) -> None:
    for number in range(60):
        world.made(f"task_{number}")
    size = 0
    page = world.page("/jobs")
    for asset in set(re.findall(r'"(/static/[^"]+)"', page)):
        response = world.get(asset)
        assert "immutable" in response.headers["cache-control"]
        size += len(response.content)
    assert len(page.encode()) + size < 200_000


def test_the_script_is_short_and_there_is_one(world: World) -> None:
    page = world.page("/")
    scripts = re.findall(r'<script src="([^"]+)"', page)
    assert len(scripts) == 1
    assert len(world.get(scripts[0]).content) < 20_000


def test_texts_have_the_contrast_that_wcag_aa_asks_for(world: World) -> None:
    css = world.get("/static/penstock.css").text
    light = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[0]
    dark, chosen = (
        re.findall(pattern, css, re.DOTALL)[0]
        for pattern in (r':root:not\(\[data-theme="light"\]\) \{(.*?)\}', r':root\[data-theme="dark"\] \{(.*?)\}')
    )
    assert dark.split() == chosen.split(), "dark by choice is dark by the system's choice"
    states = [(name, f"{name}-soft") for name in (*(state.value for state in State), "warn")]
    grounds = [(text, ground) for text in ("text", "soft", "link") for ground in ("ground", "surface", "raised")]
    for theme in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", theme))
        for text, ground in [
            *states,
            *grounds,
            ("on-accent", "accent"),
            ("failed", "raised"),
            ("completed", "raised"),
            ("surface", "failed"),
        ]:
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground, colours[text], colours[ground])


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.1, section 1.4.3."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
