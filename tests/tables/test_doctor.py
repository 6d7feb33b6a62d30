"""Known mistakes are found, and what is right is left in peace."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.registry import system_tables
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.definitions.doctor_rules import DOCTOR_RULES
from penstock.tables.definitions.export_file import ExportError, export_text, read_export
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.sources import load
from penstock.tables.doctor import Finding, Item, examine, examine_items, words
from penstock.tables.formats.python_source import module_text

CALM = {"pitr": True, "deletion_protection": True}


def rules(table: Table) -> list[tuple[str, str | None]]:
    return [(one.rule, one.index) for one in examine([table])]


@pytest.mark.parametrize("name", ["status", "Processed", "job_type", "date_bucket", "createdMonth", "state"])
def test_an_index_by_a_few_values_is_hot(name: str) -> None:
    table = Table("jobs", "id:S", indexes=[Index("hot", f"{name}:S", "at:S")], **CALM)
    assert rules(table) == [("hot-index-key", "hot")]


@pytest.mark.parametrize("name", ["status#shard", "statusId", "email", "company_id", "userId"])
def test_an_index_by_many_values_is_not(name: str) -> None:
    assert rules(Table("jobs", "id:S", indexes=[Index("cool", f"{name}:S")], **CALM)) == []


def test_an_index_by_two_attributes_is_spread() -> None:
    assert rules(Table("jobs", "id:S", indexes=[Index("cool", ("status:S", "city:S"))], **CALM)) == []


def test_an_index_by_what_tenants_share_leaks() -> None:
    leaky = Table("jobs", "company#client#job:S", indexes=[Index("clients", "client_name:S")], **CALM)
    assert rules(leaky) == [("tenant-leak", "clients")]
    tight = Table("jobs", "company#client#job:S", indexes=[Index("clients", "company#client:S")], **CALM)
    assert rules(tight) == []


def test_S2_7_the_safe_layout_heals_what_the_doctor_finds_in_compat() -> None:
    def found(layout: str) -> set[tuple[str, str | None]]:
        several = load("security-assistant", system_tables(), layout=layout).tables
        return {(one.rule, one.index) for one in examine(several) if one.index is not None}

    assert found("compat") == {
        ("hot-index-key", "StatusDateIndex"),
        ("hot-index-key", "DateRangeIndex"),
        ("tenant-leak", "ClientProjectIndex"),
    }
    assert found("safe") == set()


@pytest.mark.parametrize(("ttl", "noted"), [("expiresAt", True), ("expires_at", True), ("ttl", False), ("end", False)])
def test_a_ttl_named_like_a_text_is_noted(ttl: str, noted: bool) -> None:
    assert (("string-ttl", None) in rules(Table("jobs", "id:S", ttl=ttl, **CALM))) == noted


def test_missing_safeguards_are_told() -> None:
    assert rules(Table("jobs", "id:S")) == [("no-pitr", None), ("no-deletion-protection", None)]


def test_an_index_that_another_answers_for_is_redundant() -> None:
    twins = [Index("one", "a:S"), Index("two", "a:S"), Index("three", "id:S")]
    assert rules(Table("jobs", "id:S", indexes=twins, **CALM)) == [
        ("redundant-index", "three"),
        ("redundant-index", "two"),
    ]


def test_an_index_slower_than_its_table_throttles_it() -> None:
    slow = Index("slow", "a:S", throughput=Throughput(9, 4))
    assert rules(Table("jobs", "id:S", indexes=[slow], billing=Throughput(5, 5), **CALM)) == [("slow-index", "slow")]


def test_a_table_of_events_without_ttl_grows_for_ever() -> None:
    assert rules(Table("audit-log", "id:S", **CALM)) == [("endless-table", None)]
    assert rules(Table("audit-log", "id:S", ttl="ttl", **CALM)) == []


def test_many_indexes_are_many_writes() -> None:
    many = [Index(f"index-{n}", f"a{n}:S") for n in range(10)]
    assert rules(Table("jobs", "id:S", indexes=many, **CALM)) == [("many-indexes", None)]


def test_every_finding_says_how_to_mend_it() -> None:
    for system in system_tables():
        for finding in examine(load(system, system_tables(), layout="compat").tables):
            assert finding.text
            assert finding.mend
            assert str(finding).startswith(f"{finding.severity}: {finding.table}")


def test_rules_about_items_are_asked_too() -> None:
    def no_items(table: Table, items: Iterable[Item]) -> Iterable[Finding]:
        yield Finding("items", table.name, None, "note", f"{len(list(items))} items", "Nothing")

    (found,) = examine_items(Table("jobs", "id:S"), [{"id": {"S": "x"}}], [no_items])
    assert found.text == "1 items"


def test_words_of_names() -> None:
    assert words("companyId") == {"company", "id"}
    assert words("date_bucket") == {"date", "bucket"}
    assert words("S3URL#shard") == {"s", "3", "url", "shard"}


# ── rules that are switched off ──────────────────────────────────────────────────────────────────


def test_a_rule_is_switched_off_with_a_reason() -> None:
    table = Table("cache", "id:S", allow={"no-pitr": "a cache, rebuilt every night"})
    off, on = examine([table])
    assert (off.rule, off.reason) == ("no-pitr", "a cache, rebuilt every night")
    assert str(off) == "cache: [no-pitr] switched off: a cache, rebuilt every night"
    assert (on.rule, on.reason) == ("no-deletion-protection", "")


@pytest.mark.parametrize(
    ("allow", "told"),
    [
        ({"no-pitrr": "x"}, "allow names 'no-pitrr', which is no rule of doctor's. Did you mean 'no-pitr'?"),
        ({"zzz": "x"}, "which is no rule of doctor's. There is empty-index, endless-table,"),
        ({"no-pitr": " "}, "allow switches 'no-pitr' off without a reason. Say why"),
        ({"no-pitr": True}, "allow switches 'no-pitr' off without a reason. Say why"),
        (["no-pitr"], "allow is ['no-pitr']. Use a mapping"),
    ],
)
def test_a_rule_that_there_is_not_and_a_missing_reason_are_refused(allow: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Table("cache", "id:S", allow=allow)
    assert told in str(caught.value)


def test_every_rule_has_a_name_that_can_be_switched_off() -> None:
    source = Path(inspect.getfile(examine)).read_text()
    assert set(re.findall(r'"([a-z]+(?:-[a-z]+)+)",?', source)) == set(DOCTOR_RULES)


def test_switched_off_rules_are_in_the_json_definition_and_in_python() -> None:
    table = Table("cache", "id:S", allow={"no-pitr": "a cache"})
    text = export_text(table)
    assert json.loads(text)["Allow"] == {"no-pitr": "a cache"}
    assert read_export(text, "cache.json") == table
    assert 'allow={"no-pitr": "a cache"},' in module_text([table])
    wrong = json.loads(text) | {"Allow": {"no-pitrr": "x"}}
    with pytest.raises(DefinitionError, match="Did you mean 'no-pitr'"):
        read_export(json.dumps(wrong), "cache.json")
    with pytest.raises(ExportError, match=r"/Allow is .* not an object"):
        read_export(json.dumps(wrong | {"Allow": ["no-pitr"]}), "cache.json")


def test_doctor_shows_what_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "schemas"
    folder.mkdir()
    allow = {"no-pitr": "a cache", "string-ttl": "mended by a job"}
    (folder / "cache.json").write_text(export_text(Table("cache", "id:S", ttl="ttl", allow=allow)))

    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["tables", *words])
        assert result.exit_code == code, result.output
        return result.stdout

    run("apply", "schemas", "--db", "t.db", "--yes")
    with connect("t.db") as db:
        db.execute("PutItem", {"TableName": "cache", "Item": {"id": {"S": "1"}, "ttl": {"S": "soon"}}})
    told = run("doctor", "schemas", "--db", "t.db", "--exit-code")
    assert "cache: [no-pitr] switched off: a cache\n" in told
    assert "cache: [string-ttl] switched off: mended by a job\n" in told
    assert told.endswith("Doctor: 0 warnings, 1 note, 2 switched off.\n")
    form = json.loads(run("doctor", "schemas", "--db", "t.db", "--json"))
    assert [(one["rule"], one["reason"]) for one in form["switched_off"]] == list(allow.items())
    assert form["warnings"] == 0 and [one["rule"] for one in form["findings"]] == ["no-deletion-protection"]
