"""`penstock worker --reload` and `--processes`: what is started again, when, and what becomes of the jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

import penstock
from penstock.cli.jobs import supervisor as supervisor_module
from penstock.cli.jobs import worker as worker_module
from penstock.cli.jobs.supervisor import SourceFiles, Supervisor, without_own_options
from penstock.cli.main import cli
from penstock.jobs.model.state import State

PATIENCE_SECONDS = 60


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


# ── which files are watched ──────────────────────────────────────────────────────────────────────


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_change_an_addition_and_a_removal_are_seen_once_each(tmp_path: Path) -> None:
    module = write(tmp_path / "shop" / "tasks.py", "a = 1")
    files = SourceFiles(tmp_path)
    assert files.changed() == ""
    module.write_text("a = 10")
    assert files.changed() == str(Path("shop", "tasks.py"))
    assert files.changed() == ""
    write(tmp_path / "new.py")
    assert files.changed() == "new.py"
    module.unlink()
    assert files.changed() == str(Path("shop", "tasks.py"))
    assert files.changed() == ""


@pytest.mark.parametrize(
    "place", [".git/hook.py", "node_modules/x/y.py", "env/lib/z.py", "shop/__pycache__/t.py", "a.db"]
)
def test_what_is_no_source_of_the_program_is_not_watched(tmp_path: Path, place: str) -> None:
    write(tmp_path / "env" / "pyvenv.cfg")
    files = SourceFiles(tmp_path)
    write(tmp_path / place)
    assert files.changed() == ""


def test_a_folder_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_MOST_SOURCES", 2)
    for number in range(3):
        write(tmp_path / f"m{number}.py")
    with pytest.raises(UsageError, match="in the folder of your program"):
        SourceFiles(tmp_path)


# ── processes that die ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[float]]:
    """The pauses before restarts of a process that dies again and again, when it has reached that age."""

    def run(age_seconds: float, *, works: bool = False) -> list[float]:
        supervisor = Supervisor([], 1, 0.0)

        def start() -> Any:
            report = f"os.write({supervisor._inherited[1]}, b'+%d ' % os.getpid())" if works else "0"
            command = [sys.executable, "-S", "-c", f"import os; {report}; os._exit(9)"]
            child = subprocess.Popen(command, pass_fds=supervisor._inherited)
            child.wait()
            supervisor._born_at[child.pid] = now
            return child

        monkeypatch.setattr(supervisor, "_start", start)
        now, waited = 1_000.0, []
        supervisor._children = [start()]
        for _ in range(4):
            now += age_seconds
            supervisor._replace_dead(now)
            (due,) = supervisor._due_at
            waited.append(due - now)
            now = due
            supervisor._replace_dead(now)
        return waited

    return run


def test_a_process_that_dies_young_again_and_again_is_started_later_and_later(
    pauses: Callable[..., list[float]],
) -> None:
    assert pauses(1.0) == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.skipif(os.name != "posix", reason="processes report to their supervisor by a pipe, on POSIX")
def test_a_process_that_a_job_has_killed_is_soon_started_again(pauses: Callable[..., list[float]]) -> None:
    """Other jobs wait: with eight that kill, and three crashes each, pauses of 30 s would be minutes."""
    assert pauses(1.0, works=True) == [0.5, 1.0, 2.0, 2.0]


def test_a_process_that_dies_old_is_started_soon(pauses: Callable[..., list[float]]) -> None:
    assert pauses(3_600.0) == [0.5] * 4


def test_a_second_signal_is_passed_on_and_ends_the_processes_at_once() -> None:
    class Child:
        signals = 0

        def terminate(self) -> None:
            self.signals += 1

    supervisor, child = Supervisor([], 1, 0.0), Child()
    supervisor._children = [child]  # type: ignore[list-item]
    supervisor._stop(signal.SIGTERM, None)
    assert child.signals == 0  # the first is for the supervisor, which then tells each of them once
    supervisor._stop(signal.SIGTERM, None)
    assert child.signals == 1


def test_a_process_is_not_given_the_options_of_its_supervisor() -> None:
    given = ["worker", "a:app", "--processes", "4", "--reload", "--queue", "mail", "--processes=2"]
    assert without_own_options(given) == ["worker", "a:app", "--queue", "mail"]


@pytest.mark.parametrize("option", [["--burst"], ["--until-empty"], ["--time-limit", "9"]])
def test_reload_is_refused_for_a_worker_that_ends_by_itself(option: list[str]) -> None:
    answer = CliRunner().invoke(cli, ["worker", "a:app", "--reload", *option])
    assert answer.exit_code == 2
    assert "--reload is for a worker that keeps running" in answer.output


# ── a database that is not there yet ─────────────────────────────────────────────────────────────

LATE = """
import penstock
from penstock.errors import ConnectionFailed

opened = 0

class Late(penstock.App):
    def _open(self):
        global opened
        opened += 1
        if opened < 3:
            raise ConnectionFailed("http://127.0.0.1:1", "nothing listens there")
        return super()._open()

app = Late(":memory:")

@app.task()
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Runs a worker in this process whose database answers at the third call."""
    (tmp_path / "late_database.py").write_text(LATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(worker_module, "stop_on_signals", lambda worker: None)
    yield lambda *options: CliRunner().invoke(cli, ["worker", "late_database:app", *options])
    del sys.modules["late_database"]


def test_a_supervisor_starts_before_its_database(late: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes wait for it, as a worker without a supervisor does."""

    class Ended(Supervisor):
        def run(self) -> int:
            self._report_killed(1, "ended by SIGTERM")
            return 0

    monkeypatch.setattr(worker_module, "Supervisor", Ended)
    answer = late("--processes", "2")
    assert answer.exit_code == 0
    assert "How a worker process was killed could not be stored: http://127.0.0.1:1" in answer.output


def test_a_worker_that_serves_metrics_waits_for_its_database(late: Callable[..., Result]) -> None:
    answer = late("--until-empty", "--metrics-port", "0")
    assert answer.exit_code == 0
    assert "0 completed" in answer.output


# ── a worker that is started again ───────────────────────────────────────────────────────────────

PROGRAM = """
import time
import penstock

app = penstock.App("jobs.db")

@app.task(lease_seconds=5)
def which(ctx: penstock.JobContext) -> str:
    return "{version}"

@app.task(lease_seconds=5)
def long(ctx: penstock.JobContext) -> str:
    first = ctx.step("first", lambda: "{version}")
    while "{version}" == "old":
        time.sleep(0.02)
        ctx.progress(1)
    return first + " {version}"
"""


class Running:
    """A worker with --reload in a folder, and the lines that it has printed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "penstock", "worker", "program:app", "--reload", "--quiet", "--idle", "0.05"]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "program.py").write_text(PROGRAM.format(version="old"))
    running = Running(tmp_path)
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.wait()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[penstock.App]:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def which(ctx: penstock.JobContext) -> str: ...

        @app.task()
        def long(ctx: penstock.JobContext) -> str: ...

        yield app


@pytest.mark.crash
@pytest.mark.skipif(os.name != "posix", reason="workers are stopped by POSIX signals here")
def test_a_change_requeues_what_runs_and_the_new_code_continues_it(
    tmp_path: Path, reloading: Running, app: penstock.App
) -> None:
    assert app.result(app.tasks["which"].enqueue().id, timeout_seconds=PATIENCE_SECONDS) == "old"
    job = app.tasks["long"].enqueue()
    wait_for(lambda: app.get(job.id).state is State.PROCESSING and app.store.checkpoint(job.id, "first") is not None)
    (tmp_path / "program.py").write_text(PROGRAM.format(version="newer"))
    assert app.result(job.id, timeout_seconds=PATIENCE_SECONDS) == "old newer"
    assert [event.label for event in app.get(job.id).events].count("requeued") == 1
    assert reloading.stop() == 0
    assert reloading.said("program.py has changed: the worker stops calmly, and starts again.")


@pytest.mark.crash
@pytest.mark.skipif(os.name != "posix", reason="workers are stopped by POSIX signals here")
def test_a_program_that_is_broken_for_a_while_waits_for_its_next_change(
    tmp_path: Path, reloading: Running, app: penstock.App
) -> None:
    assert app.result(app.tasks["which"].enqueue().id, timeout_seconds=PATIENCE_SECONDS) == "old"
    (tmp_path / "program.py").write_text("this is no Python")
    wait_for(lambda: reloading.said("It is started again when a Python file changes."))
    assert reloading.said("SyntaxError")
    (tmp_path / "program.py").write_text(PROGRAM.format(version="mended"))
    assert app.result(app.tasks["which"].enqueue().id, timeout_seconds=PATIENCE_SECONDS) == "mended"
    assert reloading.stop() == 0
