"""`penstock tables import`: live tables as definitions, in each format; planned again, there is nothing to do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleets import Place
from hypothesis import given, settings
from table_strategies import tables

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.errors import AccessDeniedException, InternalServerError, UnknownOperationException
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.definitions.readers.definition_file import read_definition_file
from penstock.tables.definitions.sources import read_folder
from penstock.tables.formats import cloudformation, terraform
from penstock.tables.formats.import_tables import FileExists, Imported, files_of, read_tables, text_of, write_files

JOBS = Table("shop-jobs", "id:S", indexes=[Index("by-state", "state:S")], ttl="ttl", tags={"Team": "blue"})
LOGS = Table("logs", ("id:S", "at:N"), stream="NEW_IMAGE", pitr=7, tags={"Team": "red"})


def from_python(text: str) -> tuple[Table, ...]:
    scope: dict[str, Any] = {}
    exec(text, scope)
    return tuple(scope["all"])


@settings(max_examples=25, deadline=None)
@given(tables())
def test_what_was_imported_needs_no_change_in_any_format(table: Table) -> None:
    place = Place()
    place.apply(table)
    found = read_tables(place.db, warm=True)
    formats = {
        "python": from_python(text_of(found, "python")),
        "cloudformation": cloudformation.read_template(text_of(found, "cloudformation")),
        "terraform": terraform.read_template(text_of(found, "terraform")),
    }
    for kind, read in formats.items():
        assert place.survey(*read).plan.is_empty, kind


def test_json_is_a_folder_and_one_file_of_several(tmp_path: Path) -> None:
    place = Place()
    place.apply(JOBS, LOGS)
    found = read_tables(place.db)
    write_files(files_of(found, "json", tmp_path / "schemas"), force=False)
    (tmp_path / "all.json").write_text(text_of(found, "json"))
    for read in (read_folder(tmp_path / "schemas"), read_definition_file(tmp_path / "all.json").tables):
        assert len(read) == 2 and place.survey(*read).plan.is_empty


def test_tables_are_chosen_by_name_prefix_and_tag() -> None:
    place = Place()
    place.apply(JOBS, LOGS, Table("penstock-rekey", "source:S"), Table("penstock-streams", ("pk:S", "sk:S")))

    def names(*given: str, **options: Any) -> list[str]:
        return [table.name for table in read_tables(place.db, given, **options).tables]

    assert names() == ["logs", "shop-jobs"], "Penstock's own tables are nobody's definition"
    assert names(prefix="shop-") == ["shop-jobs"]
    assert names(tags={"Team": "red"}) == ["logs"]
    assert names(prefix="shop-", tags={"Team": "red"}) == []
    assert names("logs") == ["logs"]
    assert read_tables(place.db, ["nowhere"]).missing == ("nowhere",)


class Answers:
    """A transport that answers some operations itself, by their names."""

    def __init__(self, inner: Any, answers: dict[str, Any]) -> None:
        self.inner, self.answers = inner, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.answers.get(operation)
        if isinstance(answer, Exception):
            raise answer
        if operation == "DescribeTable":
            described: dict[str, Any] = self.inner.execute(operation, request)
            return {"Table": {**described["Table"], **(answer or {})}}
        found: dict[str, Any] = answer if answer is not None else self.inner.execute(operation, request)
        return found


def test_what_is_not_managed_is_told_in_every_format(tmp_path: Path) -> None:
    place = Place()
    place.apply(JOBS)
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
    answers = {
        "DescribeTable": {"Replicas": [{"RegionName": "eu-west-1"}]},
        "DescribeKinesisStreamingDestination": {
            "KinesisDataStreamDestinations": [{"StreamArn": stream, "DestinationStatus": "ACTIVE"}]
        },
        "DescribeContributorInsights": AccessDeniedException("no"),
        "GetResourcePolicy": UnknownOperationException("what?"),
    }
    found = read_tables(Database(Answers(place.inner.transport, answers)))
    told = found.not_compared["shop-jobs"]
    assert told[:2] == ("replicas in eu-west-1", f"Kinesis destination {stream}")
    assert told[2:] == ("Contributor Insights: not known, because DescribeContributorInsights is not allowed",)
    assert f"    # Not compared: {told[0]}\n" in text_of(found, "python")
    assert "# shop-jobs: Not compared: replicas in eu-west-1\n" in text_of(found, "terraform")
    template = json.loads(text_of(found, "cloudformation"))["Resources"]["ShopJobsTable"]
    assert template["Metadata"]["NotCompared"] == list(told)
    notes = files_of(found, "json", tmp_path)[tmp_path / "not-compared.txt"]
    assert notes.splitlines()[0] == "shop-jobs: replicas in eu-west-1"


def test_terraform_takes_over_what_exists() -> None:
    text = text_of(Imported((JOBS,), {}), "terraform")
    block = terraform.parse(text).one("import")
    assert block is not None
    assert block.attributes == {"to": terraform.Reference("aws_dynamodb_table.shop_jobs"), "id": "shop-jobs"}


def test_cfn_lint_accepts_an_import_with_notes() -> None:
    lint = pytest.importorskip("cfnlint.api", reason="cfn-lint is not installed")
    text = text_of(Imported((JOBS, LOGS), {"logs": ("replicas in eu-west-1",)}), "cloudformation")
    assert [str(one) for one in lint.lint_all(text) if not one.rule.id.startswith("I")] == []


def test_no_file_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    files = {tmp_path / "a": "1", tmp_path / "b": "2"}
    with pytest.raises(FileExists, match="Nothing was written: give --force"):
        write_files(files, force=False)
    assert not (tmp_path / "a").exists() and (tmp_path / "b").read_text() == "mine"
    write_files(files, force=True)
    write_files(files, force=False)
    assert (tmp_path / "b").read_text() == "2"


def test_a_text_in_a_table_is_never_code() -> None:
    table = Table("t-1", "a\"b'\\\n:S", tags={"Team": "x"}, ttl='"""')
    found = Imported((table,), {"t-1": ("a\nimport os",)})
    assert from_python(text_of(found, "python")) == (table,)


# ── the command ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    place = Place()
    with connect("live.db") as db:
        place.db = db
        place.apply(JOBS, LOGS)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["tables", *words])


@pytest.mark.parametrize(("kind", "source"), [("json", "schemas"), ("cloudformation", "template.json")])
def test_the_next_command_that_is_shown_finds_nothing_to_do(here: Path, kind: str, source: str) -> None:
    done = run("import", "--all", "--as", kind, "--db", "live.db")
    assert done.exit_code == 0, done.output
    command = done.stdout.splitlines()[-1].split()
    assert command == ["penstock", "tables", "plan", source, "--db", "live.db"]
    assert "Nothing to do: 2 tables as defined." in run(*command[2:]).stdout
    again = run("import", "shop-jobs", "--as", "cloudformation", "--out", "template.json", "--db", "live.db")
    assert (again.exit_code == 0) == (kind == "json")


def test_json_says_what_was_written_and_what_comes_next(here: Path) -> None:
    told = json.loads(run("import", "shop-jobs", "--out", "mine.py", "--db", "live.db", "--json").stdout)
    assert told["tables"] == ["shop-jobs"] and told["written"] == ["mine.py"]
    assert told["next"] == "penstock tables plan mine:all --db live.db"
    told = json.loads(run("import", "shop-jobs", "--out", "-", "--db", "live.db", "--json").stdout)
    assert told["written"] == [] and from_python(told["text"])[0].name == "shop-jobs"
    missing = run("import", "nowhere", "--db", "live.db", "--json")
    assert missing.exit_code == 1 and json.loads(missing.stdout)["missing"] == ["nowhere"]


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "Name them, or give --prefix, --tag or --all"),
        (["--tag", "Team"], 2, "--tag is NAME=VALUE"),
        (["--prefix", "zzz"], 1, "No table is selected by"),
        (["nowhere"], 1, "missing nowhere: there is no such table"),
    ],
)
def test_a_selection_of_nothing_writes_nothing(here: Path, words: list[str], code: int, reason: str) -> None:
    done = run("import", *words, "--db", "live.db")
    assert done.exit_code == code and reason in done.output
    assert not (here / "tables.py").exists()


def test_a_failure_to_tell_of_insights_counts_on_aws_only() -> None:
    place = Place()
    place.apply(JOBS)
    failing: Any = Answers(
        place.inner.transport, {"DescribeContributorInsights": InternalServerError("not implemented")}
    )
    failing.capabilities = replace(place.inner.transport.capabilities, tells_settings=False)
    assert read_tables(Database(failing)).not_compared == {}
    failing.capabilities = replace(place.inner.transport.capabilities, tells_settings=True)
    assert read_tables(Database(failing)).not_compared == {
        "shop-jobs": ("Contributor Insights: not known, because DescribeContributorInsights failed",)
    }
