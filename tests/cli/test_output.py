"""What jobs, items and errors say is printed by commands, and must not speak to the terminal of who reads it."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from penstock import connect
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.output import SafeStream, one_line, printable
from penstock.cli.main import cli
from penstock.jobs.model.job import JobError, NewJob
from penstock.jobs.store.store import JobStore

EVIL = (
    "\x1b]52;c;cm0gLXJmIH4=\x07"  # writes to the clipboard
    "\x1b[2J\x1b[H\x1b[8mhidden"  # clears the screen, hides what follows
    "\x9b2J\u202etxt.exe"  # the same in one character; and turns the direction of writing
    "\nFAKE  completed  line\rover"
)
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One failed job whose every text is hostile."""
    path = tmp_path_factory.mktemp("terminal") / "jobs.db"
    with connect(str(path)) as db:
        store = JobStore(db)
        store.create_tables()
        job = store.claim(store.create(NewJob("report", {"name": EVIL}))[0], "w1", 60.0)
        assert job is not None
        job = store.report(job, message=EVIL, step=EVIL, progress=10, data={"a": EVIL})
        store.fail(job, JobError("ValueError", EVIL, f"Traceback\n{EVIL}"))
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    return result.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    "words", ["tables terraform jobs", "tables plan jobs --db x.db", "--help", "tables plan --help"]
)
def test_output_that_cannot_be_written_is_one_line_and_exit_code_1(words: str, tmp_path: Path) -> None:
    line = f'"{sys.executable}" -m penstock {words} >/dev/full'
    told = subprocess.run(["bash", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=120)
    last = told.stderr.splitlines()[-1]
    assert (told.returncode, last) == (1, "Error: The output cannot be written: No space left on device.")
    assert "Traceback" not in told.stderr and "Exception ignored" not in told.stderr


@pytest.mark.parametrize(
    "command", [["list"], ["show", "ID"], ["why", "ID"], ["list", "--json"], ["show", "ID", "--json"]]
)
def test_no_command_lets_a_job_speak_to_the_terminal(database: Path, command: list[str]) -> None:
    job_id = orjson.loads(run("jobs", "list", "--db", str(database), "--json"))["jobs"][0]["id"]
    told = run("jobs", *[job_id if word == "ID" else word for word in command], "--db", str(database))
    assert "u001b" in told or "hidden" not in told
    assert _OBEYED.search(told) is None
    if "--json" in command:
        assert EVIL in str(orjson.loads(told)) or repr(EVIL)[1:-1] in str(orjson.loads(told))


def test_a_job_makes_no_lines_of_its_own_in_a_list(database: Path) -> None:
    assert len(run("jobs", "list", "--db", str(database)).splitlines()) == 1


def test_an_error_that_quotes_somebody_is_harmless_too(database: Path) -> None:
    told = run("jobs", "show", EVIL.replace("\n", ""), "--db", str(database))
    assert "hidden" in told
    assert _OBEYED.search(told) is None


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_a_real_terminal_receives_no_control_character_either(database: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "penstock", "jobs", "list", "--db", str(database)]
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, timeout=60).returncode
        os.close(theirs)
        told = os.read(ours, 65536).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
    assert code == 0
    assert "\\u001b]52" in told
    assert _OBEYED.search(told) is None


@given(st.text())
def test_what_is_printable_stays_so_and_nothing_else_is_obeyed(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert _OBEYED.search(re.sub(r"\x1b\[\d+m", "", shown)) is None
    assert len(one_line(text).splitlines() or [""]) == 1
    one_line(text).encode()


def test_our_own_colours_and_progress_get_through() -> None:
    stream = io.StringIO()
    coloured = click.style("failed", fg="red", bold=True) + click.style("a few seconds", dim=True)
    for text in (coloured, "\r 10 % of jobs", "\r", "   \r", "a\n"):
        SafeStream(stream).write(text)
    assert stream.getvalue() == f"{coloured}\r 10 % of jobs\r   \ra\n"


def test_a_message_of_the_log_makes_no_other_and_its_traceback_keeps_its_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ours = logging.Logger("of this test"), logging.getLogger("penstock")
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(ours, "parent", root)
    monkeypatch.setattr(ours, "handlers", [])
    log_warnings()
    try:
        raise ValueError("two\nlines")
    except ValueError:
        ours.warning("GET %s: %s", "/jobs/\nERROR all is lost\x1b[2J", EVIL, exc_info=True)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("WARNING GET /jobs/\\u000aERROR all is lost\\u001b[2J: ")
    assert told[1] == "Traceback (most recent call last):"
    assert not [line for line in told if line.startswith(("ERROR", "FAKE"))]


FLEET = """
from penstock.tables.definitions.definition import Table

fleet = [Table(f"table-{number}", "id:S") for number in range(5)]
"""


def run_without_reader(folder: Path, *arguments: str) -> tuple[int, str]:
    """A command whose stdout is a pipe that nobody reads any more; its exit code and its stderr."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        process = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            cwd=folder,
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(theirs)
    return process.returncode, process.stderr


def test_a_change_is_finished_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(FLEET)
    apply = ["tables", "apply", "fleet:fleet", "--db", "z.db", "--yes"]
    assert run_without_reader(tmp_path, *apply) == (0, "")
    with connect(str(tmp_path / "z.db")) as db:
        assert db.tables() == ["penstock-state", *(f"table-{number}" for number in range(5))]
    rekey = ["tables", "rekey", "table-0", "--key", "id:S,at:N", "--into", "other", "--db", "z.db"]
    assert run_without_reader(tmp_path, *rekey) == (0, "")
    assert run_without_reader(
        tmp_path, "tables", "destroy", "fleet:fleet", "--db", "z.db", "--yes", "--allow-destroy"
    ) == (0, "")
    with connect(str(tmp_path / "z.db")) as db:
        assert db.tables() == ["other", "penstock-rekey", "penstock-state"]


@pytest.mark.skipif(os.name == "nt", reason="closes a stream as a shell does")
def test_a_change_is_finished_without_a_stdout(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(FLEET)
    command = f"{sys.executable} -m penstock tables apply fleet:fleet --db z.db --yes >&-"
    process = subprocess.run(command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    with connect(str(tmp_path / "z.db")) as db:
        assert len(db.tables()) == 6  # with penstock-state


def test_a_list_of_files_ends_when_nobody_reads_it(tmp_path: Path) -> None:
    run("files", "put", str(tmp_path / "home"), __file__, "a")
    code, told = run_without_reader(tmp_path, "files", "list", "home")
    assert code == 1
    assert "Traceback" not in told


def test_a_job_that_runs_is_not_watched_when_nobody_reads_it(tmp_path: Path) -> None:
    with connect(str(tmp_path / "jobs.db")) as db:
        store = JobStore(db)
        store.create_tables()
        job = store.claim(store.create(NewJob("report", {}))[0], "w1", 60.0)
        assert job is not None
        store.report(job, message="begun", progress=10)
    code, told = run_without_reader(tmp_path, "jobs", "watch", job.id, "--db", "jobs.db")
    assert code == 1
    assert "Traceback" not in told
