"""A worker process whose server is stopped, killed, frozen and started again while its tasks report."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.database import connect
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.testing.invariants import check

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")

_APP = """
import time
import penstock

app = penstock.App()

@app.task()
def count(ctx, steps):
    for number in range(ctx.resume("done", 0), steps):
        time.sleep(0.1)
        ctx.checkpoint("done", number + 1)
        ctx.progress(100 * number / steps)
    return ctx.attempt
"""


class Server:
    """`penstock serve` on one file and one port, however often it is started."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "penstock", "serve", "--db", "jobs.db", "--port", str(self.port)]
        self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL)
        with connect(self.url) as db:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    db.tables()
                except penstock.PenstockError:
                    time.sleep(0.05)
                else:
                    return
        raise AssertionError("the server has not started")

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        if number != signal.SIGSTOP and number != signal.SIGCONT:
            self._process.wait(60)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "counting.py").write_text(_APP)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = Server(tmp_path)
    monkeypatch.setenv("PENSTOCK_DB", server.url)
    yield server
    server.close()


@pytest.fixture
def worker(server: Server, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Started before its server is."""
    command = [sys.executable, "-m", "penstock", "worker", "counting:app", "--grace", "5", "--idle", "0.1"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def app_of(server: Server) -> penstock.App:
    app = penstock.App(server.url)

    @app.task()
    def count(ctx: penstock.JobContext, steps: int) -> None: ...

    return app


def wait_for_entries(app: penstock.App, jobs: list[Job]) -> None:
    end = time.monotonic() + 60
    while any(app.get(job.id).entries < 3 for job in jobs):
        assert time.monotonic() < end, "the worker has not begun"
        time.sleep(0.05)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
def test_no_job_fails_when_its_server_is_away(server: Server, worker: subprocess.Popen[str], end: int) -> None:
    time.sleep(1.0)
    server.start()
    with app_of(server) as app:
        jobs = app.tasks["count"].enqueue_many([{"steps": 20}] * 4)
        wait_for_entries(app, jobs)
        server.signal(end)
        time.sleep(8.0)  # longer than the client itself repeats a call
        if end == signal.SIGSTOP:
            server.signal(signal.SIGCONT)
        else:
            server.start()
        ended = [app.wait(job.id, timeout_seconds=60) for job in jobs]
        assert [(job.state, job.attempt, job.failures, job.crashes) for job in ended] == [
            (State.COMPLETED, 1, 0, 0)
        ] * 4
        check(app.store, [job.id for job in jobs])
    worker.send_signal(signal.SIGTERM)
    told = worker.communicate(timeout=60)[1]
    assert worker.returncode == 0
    assert "4 completed, 0 failed, 0 to retry." in told


def test_a_worker_whose_server_stays_away_stops_when_it_is_told(server: Server, worker: subprocess.Popen[str]) -> None:
    server.start()
    with app_of(server) as app:
        jobs = app.tasks["count"].enqueue_many([{"steps": 1_000}] * 2)
        wait_for_entries(app, jobs)
        server.signal(signal.SIGKILL)
        time.sleep(1.0)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
        server.start()
        left = [app.get(job.id) for job in jobs]
        assert [(job.state, job.failures, job.error) for job in left] == [(State.PROCESSING, 0, None)] * 2


def test_a_worker_that_stopped_while_its_server_was_away_has_not_crashed(
    server: Server, worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    server.start()
    with app_of(server) as app:
        jobs = app.tasks["count"].enqueue_many([{"steps": 1_000}] * 3)
        wait_for_entries(app, jobs)
        server.signal(signal.SIGKILL)
        worker.send_signal(signal.SIGTERM)
        told = worker.communicate(timeout=60)[1]
        assert worker.returncode == 0
        server.start()
        assert "3 lost" in told
        next_worker = [sys.executable, "-m", "penstock", "worker", "counting:app", "--grace", "5", "--idle", "0.1"]
        with subprocess.Popen(next_worker, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            for job in jobs:
                end = time.monotonic() + 60
                while app.get(job.id).attempt < 2:
                    assert time.monotonic() < end, "nobody has taken it over"
                    time.sleep(0.05)
            process.terminate()
        for job in jobs:
            history = app.store.history(job.id)
            assert (history.job.suspect, history.job.crashes) == (False, 0)
            assert any("no crash, it was told to stop" in event.detail for event in history.events)
