"""Exported definitions (S1.5–6): the same bytes each time, and back again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from table_checks import without_empty_maximums
from table_strategies import tables

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.catalog.catalog import Scope
from penstock.tables.definitions.aws_shapes import Facts, create_request, from_description
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.definitions.export_file import ExportError, SummaryRow, export_text, read_export, summary_text
from penstock.tables.definitions.problems import DefinitionError


@given(tables())
def test_what_is_exported_is_read_again(table: Table) -> None:
    assert read_export(export_text(table, warm=True), "things.json") == without_empty_maximums(table)


@given(tables())
def test_one_table_has_one_text(table: Table) -> None:
    again = read_export(export_text(table), "things.json")
    assert export_text(again) == export_text(table)


def test_S1_5_two_exports_of_the_same_table_are_the_same_bytes() -> None:
    texts = set()
    for account, at in (("111111111111", 1_600_000_000.0), ("222222222222", 1_700_000_000.0)):
        engine = Engine(clock=ManualClock(at))
        scope = Scope(account=account)
        indexes = [Index("b-index", "b:S"), Index("a-index", "a:S")]
        request = create_request(Table("jobs", "id:S", indexes=indexes, stream="NEW_IMAGE", sse=True), "jobs")
        request["AttributeDefinitions"].sort(key=lambda one: one["AttributeName"], reverse=account[0] == "1")
        request["GlobalSecondaryIndexes"].sort(key=lambda one: one["IndexName"], reverse=account[0] == "2")
        engine.execute("CreateTable", request, scope)
        engine.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": account}}}, scope)
        texts.add(export_text(from_description(engine.execute("DescribeTable", {"TableName": "jobs"}, scope))))
        engine.close()
    (text,) = texts
    for secret in ("arn:", "111111111111", "TableId", "DateTime", "ItemCount", "Label"):
        assert secret not in text


def test_tags_of_one_environment_and_moment_are_left_out() -> None:
    tags = {"ManagedBy": "penstock", "CreatedAt": "2025", "Environment": "dev", "Application": "x", "Team": "blue"}
    assert json.loads(export_text(Table("jobs", "id:S", tags=tags)))["Tags"] == [{"Key": "Team", "Value": "blue"}]
    theirs = {"Environment": "dev"}
    assert read_export(export_text(Table("jobs", "id:S", tags=theirs)), "jobs.json").tags == theirs


def test_the_plain_output_of_describe_table_is_read() -> None:
    engine = Engine(clock=ManualClock())
    engine.execute("CreateTable", create_request(Table("jobs", "id:S"), "app-jobs"))
    text = json.dumps(engine.execute("DescribeTable", {"TableName": "app-jobs"}))
    engine.close()
    assert read_export(text, "jobs.json", name="jobs").key == Table("jobs", "id:S").key


def test_broken_json_is_told_with_file_and_line() -> None:
    with pytest.raises(ExportError, match=r"^schemas/jobs.json:3:5: broken JSON: ") as caught:
        read_export('{\n  "Table": {\n    TableName": 1\n}}', "schemas/jobs.json")
    assert (caught.value.file, caught.value.line) == ("schemas/jobs.json", 3)


def test_a_half_written_file_is_told() -> None:
    text = export_text(Table("jobs", "id:S"))
    for cut in range(len(text) - 2):
        with pytest.raises(ExportError):
            read_export(text[:cut], "jobs.json")
    with pytest.raises(ExportError, match="it ends too early"):
        read_export(text[: len(text) // 2].rstrip() + " ", "jobs.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff\xfe\x00", "it is no JSON text"),
        ("[]", "it is no description of a table"),
        ('{"Table": []}', "it is no description of a table"),
        ('{"Table": {"TableName": "x"}}', "the member AttributeDefinitions is missing"),
        (
            '{"Table": {"TableName": "x", "AttributeDefinitions": [], "KeySchema": 5}}',
            "it is no description of a table",
        ),
        (
            '{"Table": {"TableName": "x", "AttributeDefinitions": [], "KeySchema": '
            '[{"AttributeName": "id", "KeyType": "HASH"}]}}',
            "the member id is missing",
        ),
        ("[" * 100_000 + "]", "it is nested too deep"),
    ],
)
def test_what_is_no_export_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ExportError) as caught:
        read_export(text, "jobs.json")
    assert reason in str(caught.value)


def test_an_export_of_what_cannot_be_is_refused() -> None:
    text = export_text(Table("jobs", "id:S")).replace('"AttributeType": "S"', '"AttributeType": "BOOL"')
    with pytest.raises(DefinitionError, match="has the type 'BOOL'"):
        read_export(text, "jobs.json")


def test_S1_6_the_summary_has_a_line_for_each_table() -> None:
    table = Table("companies", ("companyId:S", "at:S"), indexes=[Index("by-mail", "mail:S")])
    facts = Facts("app-companies", "ACTIVE", 1234, 56789, "")
    rows = [SummaryRow(table, facts, "companies.json"), SummaryRow(Table("jobs", "id:S"), None, "")]
    assert summary_text(rows).splitlines() == [
        "TABLE          KEYS           INDEXES  BILLING    ITEMS    BYTES   FILE",
        "app-companies  companyId, at  1        on demand  1,234    56,789  companies.json",
        "jobs           id             0        on demand  missing",
    ]
