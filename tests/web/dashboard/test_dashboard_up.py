"""`penstock up` as a process: the dashboard, an endpoint and a worker in one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.cli.up import command
from penstock.client.database import connect
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

PATIENCE_SECONDS = 120.0
DOCS = Path(__file__).parents[3] / "docs"
APP = """
import time

import penstock

app = penstock.App("reports.db")


@app.task()
def hello(ctx: penstock.JobContext, name: str) -> str:
    ctx.progress(50, step="greeting")
    return f"Hello, {name}"


@app.task()
def endless(ctx: penstock.JobContext) -> None:
    while True:
        time.sleep(0.05)
        ctx.progress(1, step="round and round")
"""


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    line = [sys.executable, "-m", "penstock", "up", "--port", "0", "--json", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline()), process
        finally:
            if process.poll() is None:
                process.kill()


def test_the_dashboard_a_worker_and_an_endpoint_are_one_process(tmp_path: Path) -> None:
    (tmp_path / "reports_of_up.py").write_text(APP)
    with up(tmp_path, "--worker", "reports_of_up:app", "--serve", "0") as (ready, process):
        make = "import reports_of_up as r; print(r.hello.enqueue(name='world').id)"
        made = subprocess.run([sys.executable, "-c", make], cwd=tmp_path, capture_output=True, text=True, check=True)
        job_id = made.stdout.strip()
        page = until(f"{ready['url']}/jobs/{job_id}", "Hello, world")
        assert re.search(r"attempt 1 on .*: completed", page)
        with connect(ready["endpoint"]) as db:
            assert "penstock-jobs" in db.tables()
        # A page that is open does not hold up the end.
        with httpx.stream("GET", f"{ready['url']}/live/overview", timeout=PATIENCE_SECONDS) as stream:
            next(stream.iter_lines())
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0


def test_a_running_job_is_handed_over_when_it_is_told_to_stop(tmp_path: Path) -> None:
    (tmp_path / "reports_of_up.py").write_text(APP)
    with up(tmp_path, "--worker", "reports_of_up:app") as (ready, process):
        make = "import reports_of_up as r; print(r.endless.enqueue().id)"
        made = subprocess.run([sys.executable, "-c", make], cwd=tmp_path, capture_output=True, text=True, check=True)
        job_id = made.stdout.strip()
        until(f"{ready['url']}/jobs/{job_id}", "round and round")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    with connect(tmp_path / "reports.db") as db:
        job = JobStore.of_table(db, "penstock-jobs").get(job_id)
    assert (job.state, job.events[-1].type) == (State.QUEUED, "handed_over")


def until(url: str, text: str) -> str:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        page = httpx.get(url, timeout=PATIENCE_SECONDS).text
        if text in page:
            return page
        time.sleep(0.1)
    raise AssertionError(f"{url} never said {text!r}: {page}")


def test_bound_to_every_address_it_makes_a_token(tmp_path: Path) -> None:
    with up(tmp_path, "--db", "a.db", "--host", "0.0.0.0", "--read-only") as (ready, _):
        base, _, token = ready["url"].partition("/login?token=")
        assert len(token) > 16
        assert httpx.get(f"{base}/jobs", timeout=PATIENCE_SECONDS).headers["location"] == "/login?next=%2Fjobs"
        with httpx.Client(follow_redirects=True, timeout=PATIENCE_SECONDS) as client:
            assert "No jobs yet" in client.get(ready["url"]).text


def test_what_cannot_be_started_says_why(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    runner = CliRunner()
    remote = runner.invoke(cli, ["up", "--port", "0", "--db", "http://127.0.0.1:1", "--serve", "0"])
    assert remote.exit_code == 2 and "is served already" in remote.output
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").touch()
    which = runner.invoke(cli, ["up", "--port", "0"])
    assert which.exit_code == 2 and "Which database?" in which.output
    missing = runner.invoke(cli, ["up", "--port", "0", "--worker", "no_such_module:app"])
    assert missing.exit_code == 1 and "There is no module no_such_module" in missing.output
    (tmp_path / "text.db").write_text("not a database at all")
    text = runner.invoke(cli, ["up", "--port", "0", "--db", "text.db"])
    assert text.exit_code == 1 and "is not a database" in text.output


def test_a_worker_of_another_database_than_the_dashboard_shows_is_named(tmp_path: Path) -> None:
    (tmp_path / "other_app.py").write_text(APP.replace("reports.db", "theirs.db"))
    line = [sys.executable, "-m", "penstock", "up", "--port", "0", "--db", "ours.db", "--worker", "other_app:app"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.kill()
        assert "The worker runs the jobs of theirs.db; the dashboard shows ours.db." in process.stderr.read()


def test_every_option_is_in_the_docs_and_so_is_every_picture() -> None:
    page = (DOCS / "dashboard.md").read_text()
    for option in command.params:
        assert any(f"`{name}" in page for name in option.opts), option.opts
    for picture in re.findall(r"\]\((images/[^)]+)\)", page):
        assert (DOCS / picture).stat().st_size < 100_000
    shown = "".join(one.read_text() for one in DOCS.glob("*.md"))
    assert [one.name for one in (DOCS / "images").glob("dashboard*") if f"images/{one.name}" not in shown] == []


def test_on_all_addresses_the_ones_that_work_are_printed(tmp_path: Path) -> None:
    with up(tmp_path, "--host", "0.0.0.0", "--token", "sesame") as (ready, _):
        assert len(ready["urls"]) >= 2 and not any("0.0.0.0" in url for url in ready["urls"])
        assert ready["urls"][0].startswith("http://127.0.0.1:")
        for url in ready["urls"][:2]:
            assert httpx.get(url, follow_redirects=True).status_code == 200
