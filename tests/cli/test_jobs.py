"""`penstock jobs` and `penstock worker` from the outside: what they print, and how they exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import penstock
from penstock.cli.main import cli
from penstock.jobs.app import load_app
from penstock.jobs.model.job import JobError
from penstock.jobs.model.state import State
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.jobs.worker.worker import Worker
from penstock.tables.apply.apply import make

APP = """
import os
import time
import penstock

app = penstock.App("jobs.db")

@app.task(lease_seconds=2)
def count(ctx: penstock.JobContext, to: int, seconds: float = 0.0) -> int:
    for number in range(1, to + 1):
        time.sleep(seconds)
        ctx.progress(100 * number / to, step="counting")
    return to

@app.task()
def bad(ctx: penstock.JobContext) -> None:
    raise ValueError("<b>no</b>\\nat all, " + 1_000 * "really ")

@app.task()
def exiting(ctx: penstock.JobContext, code: int) -> None:
    if ctx.attempt == 1:
        os._exit(code)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "counting.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    return tmp_path


@pytest.fixture
def app(folder: Path) -> Iterator[penstock.App]:
    with penstock.App(folder / "jobs.db") as app:

        @app.task()
        def count(ctx: penstock.JobContext, to: int, seconds: float = 0.0) -> int:
            for number in range(1, to + 1):
                ctx.progress(100 * number / to, step="counting")
            ctx.checkpoint("counted", to)
            ctx.files.save("count.txt", str(to).encode())
            return to

        @app.task()
        def bad(ctx: penstock.JobContext) -> None:
            raise ValueError("<b>no</b>")

        yield app


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(cli, ["jobs", *arguments], **options)


def work(app: penstock.App) -> None:
    Worker(app, burst=True, concurrency=1).run()


def enqueue(app: penstock.App, name: str, **arguments: Any) -> str:
    return app.tasks[name].enqueue(**arguments).id


def test_jobs_are_listed_newest_first_by_state_and_task_in_pages(app: penstock.App) -> None:
    ids = [enqueue(app, "count", to=1) for _ in range(3)]
    failed = enqueue(app, "bad")
    work(app)
    listed = json.loads(run("list", "--json", "--limit", "2").stdout)
    assert [job["id"] for job in listed["jobs"]] == [failed, ids[2]]
    rest = json.loads(run("list", "--json", "--token", listed["token"]).stdout)
    assert [job["id"] for job in rest["jobs"]] == [ids[1], ids[0]]
    assert rest["token"] is None
    assert [job["id"] for job in json.loads(run("list", "--json", "--state", "failed").stdout)["jobs"]] == [failed]
    plain = run("list", "--task", "count").stdout.splitlines()
    assert len(plain) == 3
    assert plain[0].startswith(ids[2])
    assert "completed" in plain[0]
    assert run("list", "--since", "1h").stdout.count("\n") == 4
    assert run("list", "--until", "2020-01-01").stdout == "No jobs.\n"
    assert "is no time" in run("list", "--since", "yesterday").output


def test_a_job_is_shown_with_its_history(app: penstock.App) -> None:
    job = enqueue(app, "count", to=2)
    work(app)
    text = run("show", job).stdout
    for part in ("completed", '{"to":2}', "result       2", "count.txt", "checkpoint   counted", "started", "counting"):
        assert part in text
    shown = json.loads(run("show", job, "--json").stdout)
    assert shown["result"] == 2
    assert [entry["number"] for entry in shown["log"]] == [1, 2, 3, 4]
    assert [event["type"] for event in shown["events"]] == ["created", "started", "completed"]


def test_wait_and_watch_exit_by_how_the_job_ended(app: penstock.App) -> None:
    good, bad = enqueue(app, "count", to=2), enqueue(app, "bad")
    assert run("wait", good, "--timeout", "0.1").exit_code == 5
    work(app)
    assert run("wait", good).exit_code == 0
    assert run("wait", bad).exit_code == 3
    assert run("wait", "job_none").exit_code == 4
    watched = run("watch", good)
    assert watched.exit_code == 0
    assert [line.split()[0] for line in watched.stdout.splitlines()] == ["1", "2", "3", "4"]
    lines = [json.loads(line) for line in run("watch", bad, "--json").stdout.splitlines()]
    assert lines[-1]["error"]["kind"] == "ValueError"


def test_jobs_are_cancelled_and_retried_by_name_and_by_choice(app: penstock.App) -> None:
    waiting = [enqueue(app, "count", to=1) for _ in range(3)]
    assert json.loads(run("cancel", waiting[0], "--json", "--reason", "wrong").stdout) == [
        {"id": waiting[0], "state": "cancelled"}
    ]
    dry = run("cancel", "--task", "count", "--dry-run")
    assert set(dry.stdout.split()) == set(waiting[1:])
    assert app.get(waiting[1]).state is State.QUEUED
    refused = run("cancel", "--state", "failed", "--dry-run")
    assert (refused.exit_code, "only queued and processing jobs can" in refused.stderr) == (2, True)
    unasked = run("cancel", "--state", "queued")
    assert unasked.exit_code == 2
    assert "2 jobs to cancel." in unasked.output
    assert "--yes" in unasked.output
    assert app.get(waiting[1]).state is State.QUEUED
    assert run("cancel", "--state", "queued", "--yes").exit_code == 0
    assert app.get(waiting[2]).state is State.CANCELLED
    running = enqueue(app, "count", to=1)
    held = app.store.claim(app.get(running), "somebody", 30)
    assert held is not None
    assert run("cancel", running).stdout == f"{running} processing: it stops at its next report\n"
    app.store.end_cancelled(app.get(running))
    failed = enqueue(app, "bad")
    work(app)
    assert run("retry", failed).stdout == f"{failed} queued\n"
    assert run("retry", failed).exit_code == 3
    assert "it can be retried only while it is failed" in run("retry", failed).output
    assert run("retry", "job_none").exit_code == 4
    assert run("cancel").exit_code == 2


def test_an_event_is_sent_and_refused_and_children_are_cancelled(app: penstock.App) -> None:
    @app.task()
    def part(ctx: penstock.JobContext) -> None:
        ctx.wait_for("never")

    @app.task()
    def order(ctx: penstock.JobContext) -> object:
        data = ctx.wait_for("approval", timeout=3600)
        return ctx.gather([ctx.enqueue(part), ctx.enqueue(part)]) if data == "ship" else data

    job, other = enqueue(app, "order"), enqueue(app, "order")
    work(app)
    assert "waits for the event 'approval'" in run("show", job).output
    assert json.loads(run("show", job, "--json").output)["wait"].startswith("waits for the event 'approval' until")
    for _ in range(2):
        sent = run("send", job, "approval", '{"by": "ada"}', "--event-id", "1", "--json")
        assert json.loads(sent.output) == [{"id": job, "state": "queued"}]
    run("send", other, "approval", '"ship"')
    work(app)
    assert app.result(job) == {"by": "ada"}
    refused = run("send", job, "approval")
    assert (refused.exit_code, "is completed: the event 'approval' would never be taken" in refused.output) == (3, True)
    assert run("send", "job_none", "approval").exit_code == 4
    wrong = run("send", job, "approval", "{ada")
    assert (wrong.exit_code, "is no JSON" in wrong.output) == (2, True)
    children = [child.id for child in app.children(other)]
    assert f"children     {', '.join(children)}" in run("show", other).output
    assert f"parent       {other}" in run("show", children[0]).output
    assert f"waits for 2 of 2 jobs: {children[0]}" in run("why", other).output
    assert run("cancel", other, "--children").exit_code == 0
    work(app)
    assert {child.state for child in app.children(other)} == {State.CANCELLED}


def test_why_says_what_a_job_waits_for(app: penstock.App) -> None:
    first = enqueue(app, "count", to=1)
    assert "no worker is running now" in run("why", first).stdout
    assert run("pause", "default", "--reason", "lunch").exit_code == 0
    assert "the queue default is paused (lunch)" in run("why", first).stdout
    assert run("resume").exit_code == 0
    second = app.tasks["count"].options(depends_on=[first]).enqueue(to=1).id
    assert f"waits for {first} (queued)" in run("why", second).stdout
    later = app.tasks["count"].options(delay=90).enqueue(to=1).id
    assert "is due in 1m" in run("why", later).stdout
    held = app.store.claim(app.get(first), "somebody", 30)
    assert held is not None
    assert "is running on somebody, whose lease ends in" in run("why", first).stdout
    app.store.fail(held, JobError("OSError", "no"), retry_at=time.time() + 60)
    assert "failed (OSError: no) and is tried again in" in run("why", first).stdout
    assert json.loads(run("why", first, "--json").stdout)["state"] == "queued"
    limited = [app.tasks["count"].options(concurrency_key="one").enqueue(to=1).id for _ in range(2)]
    assert app.store.claim(app.get(limited[0]), "somebody", 30) is not None
    assert "1 with the concurrency key 'one' is running already" in run("why", limited[1]).stdout


def test_why_is_one_line_whatever_the_error_says(app: penstock.App) -> None:
    job = enqueue(app, "count", to=1)
    held = app.store.claim(app.get(job), "somebody", 30)
    assert held is not None
    app.store.fail(held, JobError("ValueError", "rows:\n  none.\n" + 500 * "x "))
    (line,) = run("why", job).stdout.splitlines()
    assert "(ValueError: rows: none. x x" in line
    assert len(line) < 400


def test_workers_with_many_tasks_fit_on_a_screen(app: penstock.App) -> None:
    tasks = tuple(f"count_the_{number}th" for number in range(30))
    WorkerRegistry(app.store.db, app.store.layout).beat(
        WorkerInfo("host:1:a", time.time(), time.time(), ("default",), tasks, 8, 1, 0, 0.0)
    )
    lines = run("workers").stdout.splitlines()
    assert "1 of 8 busy" in lines[0]
    assert lines[1].endswith("and 27 more")
    assert max(len(line) for line in lines) <= 80


def test_a_report_is_one_file_in_which_nothing_executes(app: penstock.App, folder: Path) -> None:
    job = enqueue(app, "bad")
    work(app)
    assert run("report", job).stdout == f"{job}.html\n"
    page = (folder / f"{job}.html").read_text()
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "<b>no" not in page
    assert "<script" not in page
    assert "http" not in page
    assert "<th>written</th>" in page
    refused = run("report", job, "--out", f"{job}.html/below.html")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {job}.html")


def test_a_database_must_be_named_and_be_there(folder: Path) -> None:
    assert run("list").exit_code == 2
    missing = run("list", "--db", "none.db")
    assert missing.exit_code == 1
    assert "none.db: there is no such database" in missing.output
    assert not (folder / "none.db").exists()


def test_a_database_without_jobs_says_so(folder: Path) -> None:
    penstock.connect(folder / "empty.db").close()
    answer = run("list")
    assert answer.exit_code == 1
    assert "penstock-jobs" in answer.output


def start_worker(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "worker", "counting:app", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_a_worker_runs_until_there_is_nothing_more(folder: Path, app: penstock.App) -> None:
    ids = [enqueue(app, "count", to=2) for _ in range(3)]
    worker = start_worker(folder, "--burst")
    _, told = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "3 completed, 0 failed" in told
    assert all(f"{job} count completed" in told for job in ids)


def test_a_burst_in_which_a_job_failed_exits_with_3(folder: Path, app: penstock.App) -> None:
    enqueue(app, "bad")
    worker = start_worker(folder, "--burst")
    _, told = worker.communicate(timeout=60)
    assert worker.returncode == 3
    (line,) = [line for line in told.splitlines() if "bad failed: ValueError" in line]
    assert "no</b>\\u000aat all" in line
    assert len(line) <= 300


def test_sigterm_stops_a_worker_calmly(folder: Path, app: penstock.App) -> None:
    job = app.tasks["count"].enqueue(to=1).id
    worker = start_worker(folder)
    assert app.wait(job, timeout_seconds=60).state is State.COMPLETED
    worker.send_signal(signal.SIGTERM)
    _, told = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "1 completed" in told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="worker processes are ended by POSIX signals here")
def test_several_processes_share_the_work_and_all_end(folder: Path, app: penstock.App) -> None:
    for _ in range(6):
        enqueue(app, "count", to=1)
    worker = start_worker(folder, "--processes", "2", "--burst")
    _, told = worker.communicate(timeout=90)
    assert worker.returncode == 0
    assert told.count("count completed") == 6


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("code", [0, 3, 6])
def test_a_task_that_ends_its_process_with_the_code_of_an_orderly_end_does_not_end_the_supervisor(
    folder: Path, app: penstock.App, code: int
) -> None:
    @app.task()
    def exiting(ctx: penstock.JobContext, code: int) -> None: ...

    worker = start_worker(folder, "--processes", "2")
    wait_for(lambda: len(children_of(worker.pid)) == 2)
    children = children_of(worker.pid)
    job = enqueue(app, "exiting", code=code)
    try:
        wait_for(lambda: len(children_of(worker.pid) - children) == 1)
    except AssertionError:
        worker.kill()
        raise
    assert app.wait(job, timeout_seconds=90).state is State.COMPLETED
    worker.send_signal(signal.SIGTERM)
    _, told = worker.communicate(timeout=90)
    assert worker.returncode == 0
    assert f"A worker process has ended with {code}; another one is started in 0.5 s." in told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="worker processes say how they end through a pipe")
@pytest.mark.parametrize(
    ("module", "options", "code"), [(APP, ("--burst",), 3), ('import penstock\napp = penstock.App("jobs.db")', (), 1)]
)
def test_a_supervisor_ends_with_the_code_of_workers_that_end_by_themselves(
    folder: Path, app: penstock.App, module: str, options: tuple[str, ...], code: int
) -> None:
    (folder / "counting.py").write_text(module)
    enqueue(app, "bad")
    worker = start_worker(folder, "--processes", "2", *options)
    _, told = worker.communicate(timeout=90)
    assert worker.returncode == code
    assert "another one is started" not in told


def test_a_burst_leaves_what_is_due_later(folder: Path, app: penstock.App) -> None:
    later = app.tasks["count"].options(delay=3_600).enqueue(to=1)
    child = app.tasks["count"].options(depends_on=[later.id]).enqueue(to=1)
    enqueue(app, "count", to=1)
    worker = start_worker(folder, "--burst")
    _, told = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "1 completed, 0 failed" in told
    assert [app.get(job.id).state for job in (later, child)] == [State.QUEUED, State.QUEUED]


def children_of(pid: int) -> set[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(child) for child in text.split()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_a_supervisor_ends_its_workers_which_requeue_their_jobs(
    folder: Path, app: penstock.App, number: signal.Signals
) -> None:
    jobs = [app.tasks["count"].enqueue(to=1_000_000, seconds=0.02) for _ in range(2)]
    supervisor = start_worker(folder, "--processes", "2", "--concurrency", "1")
    wait_for(lambda: all(app.get(job.id).state is State.PROCESSING for job in jobs))
    children = children_of(supervisor.pid)
    assert len(children) == 2
    supervisor.send_signal(number)
    supervisor.communicate(timeout=60)  # they have its stderr: it ends with the last of them
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    assert [app.get(job.id).state for job in jobs] == [State.QUEUED, State.QUEUED]
    assert [app.get(job.id).events[-1].label for job in jobs] == ["requeued", "requeued"]


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


LOGGING = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "penstock.JobLogFilter"}},
    "formatters": {"mine": {"format": "MINE %(levelname)s [%(job_id)s %(task)s %(attempt)s] %(message)s"}},
    "handlers": {"err": {"class": "logging.StreamHandler", "formatter": "mine", "filters": ["job"]}},
    "root": {"level": "INFO", "handlers": ["err"]},
})
"""
TALK = """
import logging, threading, contextvars, asyncio
import penstock

app = penstock.App("jobs.db")
log = logging.getLogger("mine")

@app.task()
def talk(number: int) -> None:
    log.info("one")
    log.warning("extra", extra={"task": "kept"})
    other = threading.Thread(target=contextvars.copy_context().run, args=(log.warning, "from a thread"))
    other.start()
    other.join()

@app.task()
async def talk_async() -> None:
    await asyncio.to_thread(log.warning, "async")

jobs = [talk.enqueue(1), talk_async.enqueue()]
open("ids", "w").write(" ".join(job.id for job in jobs))
"""


def test_a_worker_leaves_the_users_logging_alone_and_says_which_job_a_record_is_about(folder: Path) -> None:
    (folder / "talking.py").write_text(LOGGING + TALK)
    told = worker_output(folder)
    first, second = (folder / "ids").read_text().split()
    assert f"MINE INFO [{first} talk 1] one\n" in told
    assert f"MINE WARNING [{first} kept 1] extra\n" in told
    assert f"MINE WARNING [{first} talk 1] from a thread\n" in told
    assert f"MINE WARNING [{second} talk_async 1] async\n" in told
    assert "\nWARNING" not in told


def test_without_logging_of_the_users_warnings_are_shown_with_their_job(folder: Path) -> None:
    (folder / "talking.py").write_text(TALK)
    told = worker_output(folder)
    first, second = (folder / "ids").read_text().split()
    assert f"WARNING {first}: from a thread\n" in told and f"WARNING {second}: async\n" in told
    assert " one\n" not in told


def test_with_logging_of_one_logger_of_the_users_only_ours_is_added(folder: Path) -> None:
    own = "import logging\nlogging.getLogger('mine').addHandler(logging.StreamHandler())\n"
    (folder / "talking.py").write_text(own + TALK + "\napp.tasks.pop('talk')\n")
    told = worker_output(folder)
    assert told.splitlines().count("async") == 1
    assert "WARNING" in told and "wants the task 'talk'" in told


def worker_output(folder: Path) -> str:
    command = [sys.executable, "-m", "penstock", "worker", "talking:app", "--burst"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60).stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [("counting", "MODULE:APP"), ("nothing:app", "There is no module nothing"), ("counting:nope", "It has: app")],
)
def test_an_app_that_cannot_be_found_is_named(folder: Path, place: str, said: str) -> None:
    code = [sys.executable, "-m", "penstock", "worker", place]
    answer = subprocess.run(code, cwd=folder, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import penstock\n\n1 / 0\n", 'broken.py", line 3, in <module>\n    1 / 0'),
        ("import penstock\napp = App(\n", 'broken.py", line 2\n    app = App('),
        ("import no_such_thing\n", "No module named 'no_such_thing'"),
    ],
)
def test_a_module_that_breaks_is_shown_where_it_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (folder / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(penstock.PenstockError, match="broken cannot be imported:") as raised:
        load_app("broken:app")
    assert said in str(raised.value)
    assert "importlib" not in str(raised.value) and "user_modules" not in str(raised.value)


def test_all_shards_of_a_table_are_looked_at(folder: Path) -> None:
    """The commands ask the table how many it has: with the default's four, half of the jobs were not listed."""
    with penstock.App(folder / "many.db", shards=8) as app:

        @app.task()
        def noop(ctx: penstock.JobContext) -> None: ...

        ids = {noop.enqueue().id for _ in range(24)}
    listed = json.loads(run("list", "--db", "many.db", "--limit", "100", "--json").stdout)
    assert {job["id"] for job in listed["jobs"]} == ids
    assert len(json.loads(run("cancel", "--db", "many.db", "--task", "noop", "--dry-run", "--json").stdout)) == 24


def test_looking_writes_nothing_into_an_empty_file(folder: Path) -> None:
    (folder / "empty.db").touch()
    answer = run("list", "--db", "empty.db")
    assert answer.exit_code == 1
    assert (folder / "empty.db").stat().st_size == 0


def test_a_large_result_is_read_from_where_PENSTOCK_FILES_says(
    tmp_path: Path, penstock_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_FILES", str(tmp_path / "files"))
    with penstock.App(penstock_server) as app:

        @app.task()
        def large(ctx: penstock.JobContext) -> str:
            ctx.log("counted", atoms=10**80)
            return "x" * 400_000  # above 300 KB: a file

        job = large.enqueue()
        Worker(app, burst=True).run()
    told = CliRunner().invoke(cli, ["jobs", "show", job.id, "--db", penstock_server, "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["result"] == "x" * 400_000
    assert json.loads(told.stdout)["log"][0]["data"] == {"atoms": 10**80}
    # Without it, everything else is told.
    monkeypatch.delenv("PENSTOCK_FILES")
    for command in (["show", job.id], ["show", job.id, "--json"], ["wait", job.id, "--json"], ["report", job.id]):
        told = CliRunner().invoke(cli, ["jobs", *command, "--db", penstock_server])
        assert told.exit_code == 0, told.output
        text = Path(f"{job.id}.html").read_text() if command[0] == "report" else told.stdout
        assert "it is in a file of 400,002 bytes. PENSTOCK_FILES says where" in unescape(text)


def test_a_table_of_something_else_is_named(folder: Path) -> None:
    with penstock.connect(folder / "orders.db") as db:
        make(db, penstock.Table("orders", "id:S"), "orders")
    with pytest.raises(penstock.PenstockError, match=r"The table orders of .*orders\.db cannot be used for jobs"):
        _ = penstock.App(folder / "orders.db", table="orders").store
    for command in (["list"], ["show", "job_1"]):
        answer = run(*command, "--db", "orders.db", "--table", "orders")
        assert answer.exit_code == 1
        assert "orders of orders.db is no table of jobs" in answer.stderr


def test_numbers_of_any_size_are_shown(app: penstock.App, folder: Path) -> None:
    job = enqueue(app, "count", to=10**80)
    assert f'{{"to":{10**80}}}' in run("show", job).stdout
    assert json.loads(run("show", job, "--json").stdout)["args"] == {"to": 10**80}
