"""`penstock accounts`: what its commands print, and how they exit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.records.run.run import Interrupted
from penstock.systems.account_records.commands import command
from penstock.systems.account_records.config import DEFAULTS, EXAMPLE
from penstock.systems.account_records.services.record_processor import RecordProcessor

KEY = ("ACC12345", "2026-02-17T12:00:00Z")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (*DEFAULTS, "PENSTOCK_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / ".env").write_text("DYNAMODB_ENDPOINT=accounts.db\n")
    return tmp_path


@pytest.fixture(params=["safe", "compat"])
def made(request: pytest.FixtureRequest) -> None:
    run("create-tables", "--layout", request.param)


def run(*words: str, code: int = 0, given: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["accounts", *words], input=given)
    assert result.exit_code == code, result.output
    return result


def told(*words: str, **options: Any) -> Any:
    return json.loads(run(*words, "--json", **options).stdout)


def add(number: int = 1) -> None:
    forms = [{"AccountId": "ACC12345", "RunTime": f"2026-02-17T12:00:{n:02d}Z", "n": n} for n in range(number)]
    run("add", "-", given="\n".join(json.dumps(form) for form in forms))


@pytest.mark.parametrize("name", command.commands)
def test_every_command_has_help_with_an_example(name: str) -> None:
    text = run(name, "--help").output
    assert f"penstock accounts {name}" in text
    assert "Examples:" in text
    assert "--json" in text


def test_S4_3_create_tables_makes_what_is_missing(here: Path) -> None:
    assert told("create-tables", "--dry-run") == {"created": ["Users", "Records"], "skipped": [], "dry_run": True}
    assert not (here / "accounts.db").exists()
    assert run("create-tables").output == "Users  made\nRecords  made\n"
    assert run("create-tables").output == "Users  is there already\nRecords  is there already\n"
    (here / ".env").write_text("DYNAMODB_ENDPOINT=accounts.db\nUSER_TABLE=People\nRECORD_TABLE=Runs\n")
    assert told("create-tables")["created"] == ["People", "Runs"]
    with connect("accounts.db") as db:
        assert db.tables() == ["People", "Records", "Runs", "Users"]


def test_S4_2_another_file_and_another_url(here: Path) -> None:
    (here / "other.env").write_text("DYNAMODB_ENDPOINT=other.db\n")
    run("create-tables", "--env-file", "other.env")
    run("create-tables", "--db", "third.db")
    assert sorted(path.name for path in here.glob("*.db")) == ["other.db", "third.db"]
    (here / ".env").write_text("nonsense\n")
    assert ".env:1: a line is NAME=value" in run("list", code=1).output


def test_S4_2_the_example_is_a_file_that_works(here: Path) -> None:
    assert run("env-example").output == EXAMPLE
    assert told("env-example") == DEFAULTS


def test_S4_6_records_are_added_listed_shown_marked_and_deleted(made: None) -> None:
    assert run("add", "--account", KEY[0], "--run-time", KEY[1], "--set", "DocumentId=DOC67890").output == (
        "Added 1 record.\n"
    )
    line = 'ACC12345  2026-02-17T12:00:00Z  0  {"DocumentId":"DOC67890"}\n'
    assert run("list").stdout == line
    assert run("show", *KEY).output == line
    assert json.loads(run("list", "--account", "ACC12345", "--json").stdout)["DocumentId"] == "DOC67890"
    assert told("mark", *KEY)["Processed"] == 1
    assert run("list").stdout == ""
    assert run("list", "--processed").stdout == line.replace("  0  ", "  1  ")
    assert "Give --yes" in run("delete", *KEY, code=2).output
    assert told("delete", *KEY, "--dry-run")["dry_run"] is True
    assert run("delete", *KEY, "--yes").output.startswith("Deleted ACC12345")
    for words in (("show", *KEY), ("mark", *KEY), ("delete", *KEY, "--yes")):
        assert "There is no record of 'ACC12345'" in run(*words, code=4).output


def test_S4_6_many_records_are_added_from_a_file(made: None, here: Path) -> None:
    (here / "records.json").write_text(
        json.dumps([{"AccountId": "a", "RunTime": str(n), "rate": 0.1} for n in range(30)])
    )
    assert run("add", "records.json").output == "Added 30 records.\n"
    (here / "pretty.json").write_text(json.dumps({"AccountId": "a", "RunTime": "x"}, indent=1))
    assert len(told("add", "pretty.json")) == 1
    assert len(run("list", "--limit", "7", "--json").stdout.splitlines()) == 7
    assert len(run("list", "--since", "5").stdout.splitlines()) == 6


@pytest.mark.parametrize(
    ("words", "given", "code", "said"),
    [
        (("add",), None, 2, "Give a FILE of records, or --account"),
        (("add", "--account", "a"), None, 1, "RunTime: a record has it"),
        (("add", "--account", "a", "--run-time", "t", "--set", "x"), None, 2, "--set is NAME=VALUE"),
        (("add", "-"), "nonsense", 1, "the file is no JSON"),
        (("add", "-"), '{"AccountId":"a","RunTime":"t"}\nnonsense', 1, "line 2 is no JSON"),
        (("add", "-"), "{}", 1, "AccountId: a record has it"),
        (("add", "-"), "7", 1, "a record is a JSON object"),
        (("process", "nonsense"), None, 2, "MODULE:FUNCTION"),
        (("process", "json:nothing"), None, 1, "json has no function named nothing"),
        (("process", "json:decoder"), None, 1, "function"),
        (("list", "--db", "none.db"), None, 1, "none.db: there is no such database"),
        (("list", "--env-file", "none.env"), None, 1, "none.env: it cannot be read"),
        (("user", "nobody"), None, 4, "There is no user 'nobody'"),
        (("user", "a#b"), None, 1, "has no #"),
    ],
)
def test_what_is_wrong_is_told_with_its_exit_code(
    words: tuple[str, ...], given: str | None, code: int, said: str
) -> None:
    run("create-tables")
    assert said in run(*words, code=code, given=given).output


def test_tables_that_are_missing_are_told(here: Path) -> None:
    with connect("accounts.db") as db:
        assert db.tables() == []
    assert "`penstock accounts create-tables` makes them" in run("list", code=1).output


WORK = """
tried = []
def handle(record):
    return {"Result": "read"}
def picky(record):
    tried.append(record["n"])
    if record["n"] == 3:
        raise TimeoutError("the archive does not answer")
"""


def test_S4_8_process_runs_a_function_and_exits_with_3_where_one_failed(made: None, here: Path) -> None:
    (here / "mywork.py").write_text(WORK)
    add(10)
    assert told("process", "mywork:picky", "--dry-run")["unprocessed"] == 10
    assert run("process", "mywork:picky", "--dry-run").output == "Would process 10 records.\n"
    report = told("process", "mywork:picky", "--retries", "1", "--backoff-base-ms", "0", code=3)
    assert (report["processed"], report["failed"], report["attempts"]) == (9, 1, 11)
    assert report["errors"][0]["key"] == {"AccountId": "ACC12345", "RunTime": "2026-02-17T12:00:03Z"}
    again = run("process", "mywork:handle")
    assert again.output.startswith("0 done in "), "what failed is left alone"
    assert "1  TimeoutError: the archive does not answer" in run("failures").output
    assert told("failures")[0]["count"] == 1
    assert told("redrive", "--dry-run") == {"dry_run": True, "redriven": 1}
    assert run("redrive", "--kind", "ValueError").output == "Redrove 0 records.\n"
    assert run("redrive", "--kind", "TimeoutError").output == "Redrove 1 record.\n"
    assert told("process", "mywork:handle")["processed"] == 1
    assert "No record has failed." in run("failures").output


def test_S4_8_what_failed_is_shown(here: Path) -> None:
    run("create-tables")
    (here / "mywork.py").write_text(WORK)
    add(4)
    failed = run("process", "mywork:picky", "--retries", "0", "--workers", "2", "--timeout", "60", code=3)
    assert "failed  AccountId=ACC12345 RunTime=2026-02-17T12:00:03Z: TimeoutError: the archive" in failed.output
    assert "3 done, 1 failed (1 TimeoutError) in " in failed.output


def test_ctrl_c_leaves_what_was_done_and_says_how_to_go_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("create-tables")
    (here / "mywork.py").write_text(WORK)
    add(3)
    finished = RecordProcessor.process_all

    def stopped(self: RecordProcessor, *args: Any, **options: Any) -> None:
        raise Interrupted(finished(self, *args, **options))

    monkeypatch.setattr(RecordProcessor, "process_all", stopped)
    result = run("process", "mywork:handle", code=130)
    assert "3 done" in result.output
    assert "Run it again to continue with the remaining records." in result.output


@pytest.mark.parametrize("name", ["user", "record", "processor", "complete"])
def test_S4_18_the_examples_are_run_by_name(made: None, name: str) -> None:
    assert run("example", name).output == "".join(f"{line}\n" for line in told("example", name))


def test_S4_7_a_user_is_added_changed_and_shown() -> None:
    run("create-tables")
    assert told("user", "123", "--set", "name=Ada", "--set", "email=ada@example.org")["name"] == "Ada"
    assert run("user", "123", "--set", "name=Ada Lovelace").output == (
        '{"id":"123","name":"Ada Lovelace","email":"ada@example.org"}\n'
    )
    assert told("user", "123")["email"] == "ada@example.org"
