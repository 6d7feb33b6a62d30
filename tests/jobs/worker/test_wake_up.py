"""An idle worker and writes of others. The numbers cite wake_up.py.

The workers here would not poll again for an hour: what they do, they do because they were woken.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.engine import Engine
from penstock.jobs.worker import wake_up
from penstock.jobs.worker.worker import Worker
from penstock.retry import Backoff
from penstock.server.server import running_server

HOUR = 3600.0
LONG = 60.0
OTHER_PROCESS = """
import sys
import penstock

app = penstock.App(sys.argv[1])

@app.task()
def note(ctx: penstock.JobContext, text: str, lasts: float = 0) -> str: ...

exec(sys.argv[2])
"""


@pytest.fixture(params=["file", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "x.db")
    if request.param == "file":
        yield path
        return
    with Engine(path) as engine, running_server(engine) as server:
        yield server.url


@pytest.fixture
def app(url: str, tmp_path: Path) -> Iterator[penstock.App]:
    app = penstock.App(url, files=tmp_path / "files")

    @app.task()
    def note(ctx: penstock.JobContext, text: str) -> str:
        return text

    with app:
        yield app


def in_another_process(url: str, code: str) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, url, code], check=True, capture_output=True, text=True, env={**os.environ}
    )
    return done.stdout.strip()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def idle_worker(app: penstock.App) -> Iterator[Worker]:
    """One that has polled, has found nothing, and has no reason of its own to poll again."""
    worker = Worker(app, concurrency=2, idle_seconds=HOUR)
    worker.fetcher._polls_pause = Backoff(HOUR, 1.0, HOUR)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        until_quiet(worker)
        yield worker
    finally:
        worker.stop()
        thread.join(LONG)
        assert not thread.is_alive()


def until_quiet(worker: Worker) -> None:
    """Waits until what the worker itself has written, as that it is there, has had its poll."""
    polls = -1
    while polls != worker.fetcher.polls or not polls:
        polls = worker.fetcher.polls
        time.sleep(0.3)


def test_a_job_of_another_process_wakes_an_idle_worker(app: penstock.App, url: str) -> None:
    """(1)"""
    with idle_worker(app):
        job_id = in_another_process(url, "print(note.enqueue(text='a').id)")
        assert app.result(job_id, timeout_seconds=LONG) == "a"


def test_a_queue_that_another_process_resumes_wakes_it(app: penstock.App, url: str) -> None:
    app.store.pause("default")
    job = app.tasks["note"].enqueue(text="a")
    with idle_worker(app):
        assert app.get(job.id).state == "queued"
        in_another_process(url, "app.store.resume('default')")
        assert app.result(job.id, timeout_seconds=LONG) == "a"


def test_a_job_for_later_of_another_process_starts_when_it_is_due(app: penstock.App, url: str) -> None:
    """The poll that its write causes finds out when."""
    with idle_worker(app):
        job_id = in_another_process(url, "print(note.options(delay=1).enqueue(text='a').id)")
        assert app.result(job_id, timeout_seconds=LONG) == "a"
        job = app.get(job_id)
        assert job.started_at is not None
        assert job.started_at >= job.run_at


class Script:
    """A database that changes all the time, a fetcher whose polls find nothing, and a stop that is asked for gaps."""

    poll_seconds = 0.0
    quiet_seconds = 0.0

    def __init__(self, changes: int, found_jobs: bool = False) -> None:
        self.left = changes
        self.found_jobs = found_jobs
        self.polls = 0
        self.gaps: list[float] = []

    def wait(self, seconds: float) -> bool:
        if seconds == wake_up._WAIT_SECONDS:
            self.left -= 1
            return True
        self.gaps.append(seconds)
        return False

    def is_set(self) -> bool:
        return not self.left

    def poll_soon(self) -> bool:
        self.polls += 1
        return self.found_jobs


def follow(script: Script) -> list[float]:
    with penstock.connect() as db:
        wakes = wake_up.WakeUp(db, script)  # type: ignore[arg-type]
        wakes._stopped = script  # type: ignore[assignment]
        wakes._follow(script)
    assert script.polls == len(script.gaps)
    return script.gaps


def test_polls_for_writes_that_are_none_of_its_business_come_less_and_less_often() -> None:
    """(2)"""
    gaps = follow(Script(100))
    assert gaps == sorted(gaps)
    assert gaps[4:] == [wake_up._LONGEST_GAP_SECONDS] * 96


def test_while_polls_find_jobs_they_come_as_often_as_they_may() -> None:
    """(2)"""
    assert set(follow(Script(100, found_jobs=True))) == {wake_up._GAP_SECONDS}


def test_many_writes_at_once_are_few_polls(app: penstock.App, url: str) -> None:
    with idle_worker(app) as worker:
        before = worker.fetcher.polls
        in_another_process(
            url,
            "db, layout = app.store.db, app.store.layout\n"
            "for n in range(500):\n"
            "    item = {**layout.main_key('unrelated'), 'n': {'N': str(n)}}\n"
            "    db.execute('PutItem', {'TableName': layout.table, 'Item': item})",
        )
        until_quiet(worker)
        assert 0 < worker.fetcher.polls - before < 500


def test_an_idle_worker_at_a_server_polls_no_more_often_than_the_server_needs(tmp_path: Path) -> None:
    """(3)"""
    with Engine(str(tmp_path / "x.db")) as engine, running_server(engine) as server, penstock.App(server.url) as app:
        app.task("note")(_note)
        worker = Worker(app, concurrency=1, idle_seconds=0.02)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        until(lambda: worker.fetcher.quiet_seconds)
        until_quiet(worker)
        worker.stop()
        thread.join(LONG)


def _note(ctx: penstock.JobContext) -> None: ...


def test_a_worker_that_was_stopped_leaves_no_thread(app: penstock.App) -> None:
    with idle_worker(app):
        pass
    until(lambda: not [one for one in threading.enumerate() if one.name == "penstock-wake-up"])


def test_a_server_that_comes_back_wakes_its_workers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_up, "_RETRIES", Backoff(0.05, 1.0, 0.05))
    with Engine(str(tmp_path / "x.db")) as engine:
        with running_server(engine) as server:
            port = int(server.url.rpartition(":")[2])
            app = penstock.App(server.url, files=tmp_path / "files")
            app.task("note")(_note)
            assert app.store
            worker = Worker(app, concurrency=1, idle_seconds=HOUR)
            worker.fetcher._polls_pause = Backoff(HOUR, 1.0, HOUR)
            thread = threading.Thread(target=worker.run, daemon=True)
            thread.start()
            until(lambda: worker.fetcher.quiet_seconds)
        until(lambda: not worker.fetcher.quiet_seconds)
        with running_server(engine, port=port) as server:
            until(lambda: worker.fetcher.quiet_seconds)
            job_id = in_another_process(
                server.url, "from penstock.jobs.model.job import NewJob\nprint(app.enqueue_new(NewJob('note', {})).id)"
            )
            app.wait(job_id, timeout_seconds=LONG)
            worker.stop()
            thread.join(LONG)
            app.close()
