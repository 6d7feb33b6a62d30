"""What every command shares: the database, errors, exit codes, colours, sections, completion, lazy imports."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import penstock
from penstock.cli.kit.exit_codes import DIFFERENT, EVERYWHERE, INTERRUPTED, NOT_FOUND
from penstock.cli.kit.groups import Command, Group, group
from penstock.cli.kit.options import confirm, db_option, place_options
from penstock.cli.main import COMMANDS, SECTIONS, cli
from penstock.jobs.store.store import JobStore
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.plan.survey import survey


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and none of the machine's variables."""
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_DB", "PENSTOCK_URL", "PENSTOCK_FILES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*words: str, **options: Any) -> Result:
    return CliRunner().invoke(cli, words, prog_name="penstock", **options)


def pages(found: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    with click.Context(found) as context:
        for name in found.list_commands(context):
            command = found.get_command(context, name)
            yield (*path, name)
            if isinstance(command, click.Group):
                yield from pages(command, (*path, name))


# ── the database ─────────────────────────────────────────────────────────────────────────────────


def target_of(*words: str, variables: dict[str, str], **options: Any) -> Result:
    @click.command()
    @db_option(**options)
    def show(target: str | None) -> None:
        click.echo(target)

    return CliRunner(env={"PENSTOCK_DB": None, "PENSTOCK_URL": None, **variables}).invoke(show, words)


def test_the_database_is_that_of_the_option_then_of_the_system_then_of_PENSTOCK_DB_then_the_default() -> None:
    options: dict[str, Any] = {"seed": lambda variables: variables.get("SEED"), "default": "default.db"}
    both = {"SEED": "seed.db", "PENSTOCK_DB": "ours.db"}
    assert target_of("--db", "given.db", variables=both, **options).output == "given.db\n"
    assert target_of(variables=both, **options).output == "seed.db\n"
    assert target_of(variables={"PENSTOCK_DB": "ours.db"}, **options).output == "ours.db\n"
    assert target_of(variables={}, **options).output == "default.db\n"


def test_a_missing_database_is_asked_for_with_its_forms() -> None:
    told = target_of(variables={})
    assert told.exit_code == 2 and "Give --db, or set PENSTOCK_DB: a file, :memory:, http://" in told.output


def test_PENSTOCK_URL_is_an_error_where_it_would_have_been_read() -> None:
    old = {"PENSTOCK_URL": "old.db"}
    told = target_of(variables=old)
    assert told.exit_code == 2 and "PENSTOCK_URL is not read any more: set PENSTOCK_DB." in told.output
    assert target_of("--db", "given.db", variables=old).output == "given.db\n"
    assert target_of(variables={**old, "PENSTOCK_DB": "new.db"}).output == "new.db\n"


def test_an_app_refuses_PENSTOCK_URL_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "old.db")
    with pytest.raises(penstock.PenstockError, match="Set PENSTOCK_DB"):
        _ = penstock.App().store
    monkeypatch.setenv("PENSTOCK_DB", "new.db")
    with penstock.App() as app:
        assert app.store.db.name == "new.db"


@pytest.mark.parametrize("words", [("jobs", "list"), ("tables", "plan", "jobs"), ("records", "failures", "T"), ("up",)])
def test_the_option_url_is_called_db(words: tuple[str, ...]) -> None:
    told = run(*words, "--url", "x.db")
    assert told.exit_code == 2 and "No such option '--url'. Did you mean --db?" in told.output


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "meant"), [(("table",), "tables"), (("jobs", "lst"), "list"), (("tables", "aply"), "apply")]
)
def test_a_word_that_is_no_command_is_answered_with_the_nearest(words: tuple[str, ...], meant: str) -> None:
    told = run(*words)
    assert told.exit_code == 2 and f"Did you mean {meant}" in told.output


@pytest.mark.parametrize("word", ["diff", "drift"])
def test_other_tools_words_are_answered_with_ours(word: str) -> None:
    assert f"No such command '{word}'. Did you mean plan or verify" in run("tables", word).output


@pytest.mark.parametrize("option", ["--url", "--db"])
def test_a_worker_says_where_its_database_is_named(option: str) -> None:
    told = run("worker", "reports:app", option, "x.db")
    assert told.exit_code == 2 and "A worker has no --db: the app names its database" in told.output


@pytest.mark.parametrize(
    "words", ["tables terraform jobs", "tables cloudformation jobs", "tables policy jobs", "jobs policy"]
)
def test_with_json_a_file_that_was_written_is_told_on_stdout(words: str, folder: Path) -> None:
    printed = run(*words.split()).stdout
    told = run(*words.split(), "--out", "file", "--json")
    assert told.exit_code == 0 and told.stderr == ""
    assert json.loads(told.stdout) == {"written": "file", "bytes": len(printed.encode())}
    assert (folder / "file").read_text() == printed


def test_an_option_that_does_not_exist_is_answered_with_the_nearest() -> None:
    assert "--state" in run("jobs", "list", "--stat", "failed").output


def test_with_json_an_error_is_one_line_of_json_on_stderr() -> None:
    told = run("jobs", "list", "--db", "none.db", "--json")
    assert told.exit_code == 1 and told.stdout == "" and told.stderr.count("\n") == 1
    error = json.loads(told.stderr)["error"]
    assert error["kind"] == "PenstockError" and error["exit_code"] == 1
    assert error["message"].startswith("none.db: there is no such database")
    usage = json.loads(run("jobs", "list", "--url", "x.db", "--json").stderr)["error"]
    assert usage["kind"] == "Usage" and usage["message"].endswith("Did you mean --db?")
    assert usage["next"] == "penstock jobs list --help" and usage["exit_code"] == 2
    wrong = json.loads(run("tables", "plan", "nothing", "--db", "x.db", "--json").stderr)["error"]
    assert wrong["kind"] == "LoadingError" and wrong["next"].startswith("Give one of")


def test_with_json_a_job_that_is_not_there_has_its_own_kind_and_code(folder: Path) -> None:
    with penstock.App("jobs.db") as app:
        app.store.ensure_tables()
    told = run("jobs", "show", "job_none", "--json")
    assert told.exit_code == NOT_FOUND
    assert json.loads(told.stderr)["error"]["kind"] == "JobNotFound"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_ctrl_c_at_a_question_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    with pytest.raises(click.exceptions.Exit) as ended:
        confirm("Delete it?", yes=False)
    assert ended.value.exit_code == INTERRUPTED
    assert capsys.readouterr().err.endswith("\nInterrupted: nothing was changed.\n")


def test_ctrl_c_at_any_other_question_is_exit_code_130_too() -> None:
    @group("root")
    def root() -> None: ...

    @root.command("ask")
    def ask() -> None:
        click.prompt("Name")

    told = CliRunner().invoke(root, ["ask"], input="")  # the end of the input is told as Ctrl-C is
    assert told.exit_code == INTERRUPTED and told.stderr == "Interrupted.\n"


# ── help ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [(), *pages()], ids=" ".join)
def test_every_help_lists_the_exit_codes(path: tuple[str, ...]) -> None:
    text = " ".join(run(*path, "--help").output.split())
    assert text.count("Exit codes: ") == 1
    assert all(f" {code} " in text.split("Exit codes:")[1] for code in EVERYWHERE)


@pytest.mark.parametrize("path", [("plan",), ("verify",), ("diff-data",), ("doctor",)], ids=" ".join)
def test_a_difference_is_exit_code_7(path: tuple[str, ...]) -> None:
    assert f"{DIFFERENT} " in run("tables", *path, "--help").output.split("Exit codes:")[1]


def test_the_root_help_has_a_section_for_each_kind_of_command() -> None:
    text = run("--help").output
    places = [text.index(f"\n{title}:\n") for title in ("Database", "Tables", "Jobs", "Systems")]
    assert places == sorted(places) and "\nCommands:\n" not in text
    assert sorted(name for section in SECTIONS.values() for name in section) == sorted(COMMANDS)
    assert text.index("\nSystems:\n") < text.index("\n  excel ") < text.index("Exit codes:")


def commands(found: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    with click.Context(found) as context:
        for name in found.list_commands(context):
            command = found.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))
            else:
                yield " ".join((*path, name)), command


def test_every_command_prints_json() -> None:
    assert [name for name, one in commands() if not any("--json" in param.opts for param in one.params)] == []


def test_every_option_of_our_own_commands_says_what_it_is() -> None:
    own = [(name, one) for name, one in commands() if name.split()[0] in COMMANDS]
    options = [(name, param) for name, one in own for param in one.params if isinstance(param, click.Option)]
    assert [(name, one.opts) for name, one in options if not one.help and not one.hidden] == []


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_switched_off(variables: dict[str, str]) -> None:
    @group("root")
    def root() -> None: ...

    @root.command("paint")
    def paint() -> None:
        click.echo(click.style("red", fg="red"))

    assert isinstance(root, Group) and isinstance(paint, Command)
    quiet = CliRunner(env={"TERM": "xterm", **variables}).invoke(root, ["paint"])
    assert quiet.output == "red\n"
    with click.Context(root, color=True):
        plain = root.make_context("root", ["paint"])
    assert plain.color is (None if os.environ.get("TERM") != "dumb" else False)


def test_a_file_and_a_table_are_not_confused_by_the_two_backups() -> None:
    assert "penstock tables backup" in run("backup", "--help").output
    assert "penstock backup SOURCE DEST" in run("tables", "backup", "--help").output
    with penstock.connect("app.db") as db:
        apply(db, survey(db, [Table("orders", "id:S")], Naming()))
    table = run("backup", "orders", "app.db")
    assert table.exit_code == 1 and "`penstock tables backup orders --db TARGET`" in table.output
    file = run("tables", "backup", "app.db", "--db", "app.db")
    assert file.exit_code == 1 and "`penstock backup app.db DEST` copies one" in file.output
    option = run("backup", "orders", "--db", "app.db")
    assert option.exit_code == 2 and "`penstock tables backup TABLE --db app.db`" in option.output


# ── completion ───────────────────────────────────────────────────────────────────────────────────


def completed(*words: str, incomplete: str = "") -> list[str]:
    shell = ShellComplete(cli, {}, "penstock", "_PENSTOCK_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), incomplete)]


def test_commands_options_and_definitions_are_completed() -> None:
    assert completed(incomplete="ta") == ["tables"]
    assert "--db" in completed("jobs", "list", incomplete="--")
    assert completed("tables", "apply", incomplete="del") == ["delphi"]


def test_tables_and_jobs_of_a_database_file_are_completed() -> None:
    with penstock.connect("app.db") as db:
        apply(db, survey(db, [Table("orders", "id:S"), Table("users", "id:S")], Naming()))
    with penstock.App("app.db") as app:

        @app.task()
        def nothing(ctx: penstock.JobContext) -> None: ...

        job_id = nothing.enqueue().id
        assert isinstance(app.store, JobStore)
    assert completed("tables", "dump", "--db", "app.db", incomplete="or") == ["orders"]
    assert completed("records", "failures", incomplete="us") == ["users"]
    assert completed("jobs", "show", "--db", "app.db") == [job_id]
    assert completed("jobs", "retry", "--db", "app.db") == [job_id]
    for words in (("add-index", "--table"), ("verify", "jobs", "--table"), ("load", "folder", "--table"), ("rekey",)):
        assert completed("tables", *words[:1], "--db", "app.db", *words[1:], incomplete="or") == ["orders"]


def test_jobs_of_systems_are_completed_too() -> None:
    assert run("demo", "--only", "account-records", "--keep", "demo").exit_code == 0
    runs = completed("jobs", "show", "--db", "demo/demo.db")
    assert runs and all(one.startswith("run_") for one in runs)


@pytest.mark.parametrize("target", ["http://127.0.0.1:9", "aws://eu-west-2", "none.db", "text.db"])
def test_completion_asks_no_network_and_is_quiet_on_errors(target: str) -> None:
    Path("text.db").write_text("not a database")
    assert completed("tables", "dump", "--db", target) == []
    assert completed("jobs", "show", "--db", target) == []
    assert sorted(path.name for path in Path().iterdir()) == ["text.db"]


@pytest.mark.parametrize("variables", [{"COMP_WORDS": "penstock broken ", "COMP_CWORD": "2"}, {}])
def test_an_error_in_completion_prints_nothing(variables: dict[str, str]) -> None:
    broken = Group("penstock", lazy={"broken": ("penstock.no_such_module", "Cannot be imported.")})
    told = CliRunner(env={"_PENSTOCK_COMPLETE": "bash_complete", **variables}).invoke(broken, prog_name="penstock")
    assert isinstance(told.exception, SystemExit) and (told.exit_code, told.output) == (1, "")


def test_completing_a_command_imports_none_of_them() -> None:
    broken = Group("penstock", lazy={"broken": ("penstock.no_such_module", "Cannot be imported.")})
    variables = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": "penstock br", "COMP_CWORD": "1"}
    told = CliRunner(env=variables).invoke(broken, prog_name="penstock")
    assert (told.exit_code, told.output) == (0, "plain,broken\n")


# ── start ────────────────────────────────────────────────────────────────────────────────────────

HEAVY = ("boto3", "botocore", "starlette", "uvicorn", "jinja2", "numpy", "openpyxl", "dask", "pypdf", "fastapi")


@pytest.mark.parametrize("words", [("--help",), ("jobs", "--help"), ("tables", "--help"), ("files", "--help")])
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom penstock.cli.main import cli\n"
        f"cli.main({list(words)!r}, standalone_mode=False)\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    modules = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not modules & set(HEAVY)
    if words == ("--help",):
        assert "penstock.client" not in done.stdout and "penstock.engine" not in done.stdout


@pytest.mark.parametrize(
    ("words", "output"), [((), "a file None twice 1"), (("--db", "x", "--env", "dev"), "x dev twice 1")]
)
def test_options_that_say_where_something_is_are_one_argument(words: tuple[str, ...], output: str) -> None:
    def make(target: str, env: str | None) -> str:
        return f"{target} {env}"

    @click.command()
    @click.argument("name")
    @place_options(make, db_option(default="a file"), click.option("--env"))
    @click.option("--limit", default=1)
    def show(place: str, name: str, limit: int) -> None:
        click.echo(f"{place} {name} {limit}")

    assert CliRunner().invoke(show, ["twice", *words]).output == f"{output}\n"
