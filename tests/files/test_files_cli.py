"""`penstock files …`, on a folder and on a bucket: what it prints, its exit codes, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.files import command as files_group
from penstock.cli.kit import output
from penstock.cli.main import cli
from penstock.files import open_files

PROGRAM = "from penstock.cli.main import main; main()"


def penstock(*words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["files", *words], input=stdin)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run; `out` is a home with two files."""
    monkeypatch.chdir(tmp_path)
    files = open_files("out")
    files.save("jobs/j1/report.txt", b"hello")
    files.save("jobs/j2/report.txt", b"hello!")
    return tmp_path


def test_every_command_has_help_with_an_example() -> None:
    assert "penstock files put out/" in penstock("--help").output
    for name in files_group.commands:
        told = penstock(name, "--help")
        assert told.exit_code == 0 and f"penstock files {name} " in told.output, name
        assert "--json" in told.output, name


@pytest.mark.usefixtures("folder")
def test_list() -> None:
    told = penstock("list", "out", "jobs/j1")
    assert told.stdout.split() == ["5", told.stdout.split()[1], "jobs/j1/report.txt"]
    assert told.stderr == "1 file, 5 bytes\n"
    form = json.loads(penstock("list", "out", "--json").stdout)
    assert [(one["key"], one["size"]) for one in form] == [("jobs/j1/report.txt", 5), ("jobs/j2/report.txt", 6)]
    assert "More than 1" in penstock("list", "out", "--limit", "1").stderr
    missing = penstock("list", "otu")
    assert missing.exit_code == 4 and "otu: there is no such folder" in missing.stderr


def test_put_and_get(folder: Path) -> None:
    (folder / "mine.txt").write_bytes(b"some text")
    told = penstock("put", "new", "mine.txt")
    assert told.exit_code == 0 and told.stdout.startswith("mine.txt: 9 bytes, SHA-256 ")
    form = json.loads(penstock("put", "new", "-", "a/b.txt", "--json", stdin=b"piped").stdout)
    assert (form["key"], form["size"], form["content_type"]) == ("a/b.txt", 5, "text/plain")
    assert penstock("get", "new", "a/b.txt").stdout == "b.txt: 5 bytes, as it was saved\n"
    assert (folder / "b.txt").read_bytes() == b"piped"
    assert penstock("get", "new", "a/b.txt", "--out", "-").stdout_bytes == b"piped"
    again = penstock("get", "new", "mine.txt")
    assert again.exit_code == 2 and "mine.txt exists already. Give --force" in again.stderr
    assert json.loads(penstock("get", "new", "mine.txt", "--force", "--json").stdout)["size"] == 9


@pytest.mark.usefixtures("folder")
def test_what_is_not_there_has_exit_code_4() -> None:
    for words in (["get", "out", "none"], ["url", "out", "none"], ["delete", "out", "none", "--yes"]):
        told = penstock(*words)
        assert told.exit_code == 4 and "none" in told.stderr, words
    assert not Path("none").exists() and list(Path().glob(".none*")) == []


@pytest.mark.usefixtures("folder")
def test_what_is_called_wrongly_is_told() -> None:
    for words, code, reason in (
        (["put", "out", "-"], 2, "Give a KEY"),
        (["put", "out", "nofile"], 2, "does not exist"),
        (["get", "out", "../x"], 1, "'..' is no name"),
        (["list", "ftp://x"], 1, "no files are kept there"),
        (["sweep", "out", "--older-than", "soon"], 2, "is no age"),
        (["url", "out", "x", "--seconds", "0"], 2, "--seconds"),
        (["lifecycle", "out"], 2, "only a bucket has a lifecycle"),
    ):
        told = penstock(*words)
        assert told.exit_code == code and reason in told.stderr, (words, told.stderr)


@pytest.mark.usefixtures("folder")
def test_a_file_that_was_changed_is_not_written() -> None:
    Path("out/jobs/j1/report.txt").write_bytes(b"HELLO")
    told = penstock("get", "out", "jobs/j1/report.txt")
    assert told.exit_code == 1 and "its SHA-256 is" in told.stderr
    assert not Path("report.txt").exists() and list(Path().glob(".report*")) == []


@pytest.mark.usefixtures("folder")
def test_delete_wants_exact_keys_and_a_yes() -> None:
    assert "Would delete 1 file." in penstock("delete", "out", "jobs/j1/report.txt", "--dry-run").stdout
    unasked = penstock("delete", "out", "jobs/j1/report.txt")
    assert unasked.exit_code == 2 and "Give --yes" in unasked.stderr
    some = penstock("delete", "out", "jobs/j1/report.txt", "jobs/", "--yes")
    assert some.exit_code == 1 and open_files("out").exists("jobs/j1/report.txt")
    form = json.loads(penstock("delete", "out", "jobs/j1/report.txt", "--yes", "--json").stdout)
    assert form["deleted"] == ["jobs/j1/report.txt"]
    assert [one.key for one in open_files("out").list()] == ["jobs/j2/report.txt"]


@pytest.mark.usefixtures("folder")
def test_verify_finds_what_changed_and_what_is_gone() -> None:
    assert penstock("verify", "out").stdout == "2 files, 11 bytes: as they were saved.\n"
    Path("out/by-hand").write_bytes(b"1")
    assert "1 of them without a hash" in penstock("verify", "out").stdout
    Path("out/jobs/j1/report.txt").write_bytes(b"HELLO")
    Path("out/jobs/j2/report.txt").unlink()
    told = penstock("verify", "out")
    assert told.exit_code == 7
    assert "changed  jobs/j1/report.txt: its SHA-256 is" in told.stdout
    assert "lost  jobs/j2/report.txt: saved at" in told.stdout
    form = json.loads(penstock("verify", "out", "--json").stdout)
    assert (form["good"], list(form["changed"]), list(form["lost"])) == (
        False,
        ["jobs/j1/report.txt"],
        ["jobs/j2/report.txt"],
    )


@pytest.mark.usefixtures("folder")
def test_sweep_shows_its_plan_and_keeps_what_is_known() -> None:
    Path("out/_temp/abandoned").write_bytes(b"12345678")
    Path("known").write_text("jobs/j1/report.txt\n")
    assert penstock("sweep", "out").stdout == "Nothing to sweep.\n"
    shown = penstock("sweep", "out", "--older-than", "0", "--keep", "known", "--dry-run").stdout
    assert shown.splitlines() == [
        "  - _temp/abandoned   8 bytes",
        "  - jobs/j2/report.txt   6 bytes",
        "Plan: 1 leftover, 1 orphan, 14 bytes.",
    ]
    assert penstock("sweep", "out", "--older-than", "0").exit_code == 2
    done = penstock("sweep", "out", "--older-than", "0", "--keep", "known", "--yes").stdout
    assert done.endswith("Removed 2 files, 14 bytes.\n")
    assert [one.key for one in open_files("out").list()] == ["jobs/j1/report.txt"]
    empty = penstock("sweep", "out", "--keep", os.devnull, "--older-than", "0", "--yes")
    assert empty.exit_code == 2 and "every file would go" in empty.stderr
    assert json.loads(penstock("sweep", "out", "--json").stdout)["orphans"] == 0


def test_url_of_a_folder(folder: Path) -> None:
    url = (folder / "out/jobs/j1/report.txt").as_uri()
    assert penstock("url", "out", "jobs/j1/report.txt").stdout == f"{url}\n"
    assert json.loads(penstock("url", "out", "jobs/j1/report.txt", "--json").stdout)["seconds"] is None


def test_a_bucket_from_the_command_line(
    folder: Path, s3: Any, bucket: str, s3_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client is the tests' own, because making one takes a third of a second a command; one command makes its own.
    home = f"s3://{bucket}/reports"
    assert penstock("list", home).stderr == "0 files, 0 bytes\n"
    monkeypatch.setattr("penstock.files.bucket.S3._create_client", lambda self: s3)
    assert penstock("put", home, "out/jobs/j1/report.txt", "a/x.txt").exit_code == 0
    assert penstock("get", home, "a/x.txt", "--out", "-").stdout == "hello"
    assert "X-Amz-Expires=60" in penstock("url", home, "a/x.txt", "--seconds", "60").stdout
    assert penstock("verify", home).stdout == "1 file, 5 bytes: as they were saved.\n"
    assert penstock("delete", home, "a/x.txt", "--yes").exit_code == 0
    assert penstock("get", home, "a/x.txt").exit_code == 4
    missing = penstock("list", "s3://no-such-bucket-here")
    assert missing.exit_code == 4 and "there is no such bucket" in missing.stderr


def test_lifecycle_shows_and_asks_and_applies(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.files.bucket.S3._create_client", lambda self: s3)
    home = f"s3://{bucket}/reports"
    shown = penstock("lifecycle", home, "--dry-run").stdout
    assert "  ~ move to Intelligent-Tiering at once: reports/\n  ~ delete after 90 days: reports/\n" in shown
    assert penstock("lifecycle", home).exit_code == 2
    assert penstock("lifecycle", home, "--yes").stdout.endswith("Done.\n")
    assert penstock("lifecycle", home, "--yes").stdout == f"{home}\n  all as it should be\n"
    form = json.loads(penstock("lifecycle", home, "--days", "30", "--dry-run", "--json").stdout)
    assert form["changes"][1] == "delete after 30 days: reports/" and form["applied"] is False


# ── progress and Ctrl-C ──────────────────────────────────────────────────────────────────────────


def test_progress_is_shown_on_a_terminal_after_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    line = output.ByteLine(40_000_000)
    line.add(5_000_000)
    assert capsys.readouterr().err == ""
    now[0] += 2
    line.add(5_000_000)
    assert capsys.readouterr().err == "\r10.0 MB of 40.0 MB, 5.0 MB a second"
    line.add(1)
    line.end()
    assert capsys.readouterr().err.endswith("\r")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1_500_000, "1.5 MB"), (5e12, "5,000.0 GB")],
)
def test_sizes_are_readable(size: float, text: str) -> None:
    assert output.size_text(size) == text


def test_ctrl_c_leaves_nothing_half_done_and_says_how_to_go_on(folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "files", "put", "out", "-", "jobs/j1/report.txt"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(b"x" * 3_000_000)
    process.stdin.flush()
    until = time.monotonic() + 60
    while not any((folder / "out/_temp").iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    with suppress(BrokenPipeError):  # wakes a read that began just as the signal came
        process.stdin.write(b"x" * 100_000)
        process.stdin.flush()
    told = process.stderr.read().decode()
    with suppress(BrokenPipeError):
        process.stdin.close()
    assert process.wait(timeout=60) == 130
    assert (
        "Interrupted: nothing of jobs/j1/report.txt was saved. To continue, run it again:\n  penstock files put" in told
    )
    assert open_files("out").read("jobs/j1/report.txt") == b"hello"
    assert list((folder / "out/_temp").iterdir()) == []
