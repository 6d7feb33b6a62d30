"""Exported definitions (S1.5–6): the same bytes each time, and back again."""

from __future__ import annotations

import json
import re

import pytest
from fleets import Place
from hypothesis import given
from table_checks import without_empty_maximums
from table_strategies import tables

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.catalog.catalog import Scope
from penstock.tables.definitions.aws_shapes import Facts, create_request, from_description
from penstock.tables.definitions.definition import Index, Table, Throughput
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
        ('{"Table": {"TableName": "x"}}', "table 'x': /Table/AttributeDefinitions is missing"),
        (
            '{"Table": {"TableName": "x", "AttributeDefinitions": [], "KeySchema": 5}}',
            "jobs.json:1: table 'x': /Table/KeySchema is 5, and not a list of objects",
        ),
        (
            '{"Table": {"TableName": "x", "AttributeDefinitions": [], "KeySchema": '
            '[{"AttributeName": "id", "KeyType": "HASH"}]}}',
            "/Table/KeySchema/0/AttributeName is 'id', which AttributeDefinitions does not have",
        ),
        ("[" * 100_000 + "]", "it is nested too deep"),
    ],
)
def test_what_is_no_export_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ExportError) as caught:
        read_export(text, "jobs.json")
    assert reason in str(caught.value)


def test_an_export_of_what_cannot_be_is_refused() -> None:
    whole = export_text(Table("jobs", "id:S", indexes=[Index("by-x", "id:S")]))
    for wrong, told in (
        ('"AttributeType": "BOOL"', r"jobs.json:7: .*AttributeType is 'BOOL', and not one of S, N, B"),
        ('"ProjectionType": "SOME"', r"jobs.json:2\d: .*is 'SOME', and not one of ALL, KEYS_ONLY, INCLUDE"),
    ):
        text = re.sub(wrong.partition(" ")[0] + ' "[A-Z]+"', wrong, whole)
        with pytest.raises(ExportError, match=told):
            read_export(text, "jobs.json")
    broken = json.loads(whole)
    broken["Table"]["TableName"] = "no such name"
    with pytest.raises(DefinitionError, match="a character that DynamoDB refuses"):
        read_export(json.dumps(broken), "jobs.json")


def test_S1_6_the_summary_has_a_line_for_each_table() -> None:
    table = Table("companies", ("companyId:S", "at:S"), indexes=[Index("by-mail", "mail:S")])
    facts = Facts("app-companies", "ACTIVE", 1234, 56789, "")
    rows = [SummaryRow(table, facts, "companies.json"), SummaryRow(Table("jobs", "id:S"), None, "")]
    assert summary_text(rows).splitlines() == [
        "TABLE          KEYS           INDEXES  BILLING    ITEMS    BYTES   FILE",
        "app-companies  companyId, at  1        on demand  1,234    56,789  companies.json",
        "jobs           id             0        on demand  missing",
    ]


# ── members that are not known, and what is not told ─────────────────────────────────────────────

FULL = Table(
    "jobs",
    "id:S",
    indexes=[Index("by-state", "state:S", projection=["at"])],
    ttl="expires",
    stream="NEW_IMAGE",
    pitr=7,
    tags={"team": "blue"},
)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "GlobalSecondaryIndexes",
            "GlobalSecondaryIndexs",
            "/Table/GlobalSecondaryIndexs is unknown (did you mean Glo",
        ),
        ("IndexName", "indexname", "/Table/GlobalSecondaryIndexes/0/indexname is unknown (did you mean IndexName?)"),
        (
            "NonKeyAttributes",
            "NonkeyAttribute",
            "/Table/GlobalSecondaryIndexes/0/Projection/NonkeyAttribute is unknown (did you mean NonKeyAttributes?)",
        ),
        ("TimeToLiveDescription", "TimeToLive", "/TimeToLive is unknown (did you mean TimeToLiveDescription?)"),
        ("StreamViewType", "View", "/Table/StreamSpecification/View is unknown (there is StreamEnabled, Stre"),
        ("RecoveryPeriodInDays", "a/b~", "/PointInTimeRecoveryDescription/a~1b~0 is unknown (there is"),
        ('"Value"', '"Values"', "/Tags/0/Values is unknown (did you mean Value?)"),
    ],
)
def test_a_member_that_is_not_known_is_refused_at_every_level(old: str, new: str, told: str) -> None:
    text = export_text(FULL)
    assert old in text
    with pytest.raises(ExportError) as caught:
        read_export(text.replace(old, new), "jobs.json")
    assert told in str(caught.value)


def test_every_unknown_member_is_told_at_once() -> None:
    with pytest.raises(ExportError, match=r"/TableNam is unknown .*; /KeySchem is unknown"):
        read_export('{"TableNam": "x", "KeySchem": []}', "jobs.json")


@pytest.mark.parametrize("wrapped", [True, False])
def test_describe_table_as_a_definition_plans_nothing_away(wrapped: bool) -> None:
    place = Place()
    place.apply(FULL)
    answer = place.db.execute("DescribeTable", {"TableName": "jobs"})
    description = answer["Table"] | {
        "TableId": "1f1c", "LatestStreamLabel": "2026", "Replicas": [{"RegionName": "eu-west-1"}],
        "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
    }  # fmt: skip
    text = json.dumps({"Table": description} if wrapped else description, default=str)
    read = read_export(text, "jobs.json")
    found = place.survey(read)
    assert found.plan.is_empty, "TTL, recovery and tags stay"
    assert found.ignored == ("jobs (ttl)",)
    assert read_export(export_text(read), "again.json").ignore == ("ttl",)
    with_ttl = json.dumps({"Table": description, "TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})
    assert not place.survey(read_export(with_ttl, "jobs.json")).plan.is_empty, "what is told is compared"


# ── what something else owns ─────────────────────────────────────────────────────────────────────


def test_capacity_that_something_else_owns_is_no_drift() -> None:
    place = Place()
    index = Index("by-state", "state:S")
    place.apply(Table("jobs", "id:S", billing=Throughput(77, 77), indexes=[index]))
    five = Table("jobs", "id:S", billing=Throughput(5, 5), indexes=[index])
    assert not place.survey(five).plan.is_empty
    ignoring = Table("jobs", "id:S", billing=Throughput(5, 5), indexes=[index], ignore=["billing"])
    assert place.survey(ignoring).plan.is_empty
    assert place.survey(Table("jobs", "id:S", indexes=[index], ignore=["billing"])).plan.is_empty, "on demand"
    assert place.survey(read_export(export_text(ignoring), "jobs.json")).plan.is_empty

    more = Table("jobs", "id:S", indexes=[index, Index("by-at", "at:N")], ignore=["billing"])
    report = place.apply(more)
    assert not report.failures, "a new index of a provisioned table gets units"
    assert place.survey(more).plan.is_empty

    on_demand = Table("logs", "id:S")
    place.apply(on_demand)
    provisioned = Table("logs", "id:S", billing=Throughput(5, 5), indexes=[index], ignore=["billing"])
    assert not place.apply(provisioned).failures, "and one of an on-demand table gets none"
    assert place.survey(provisioned).plan.is_empty


def test_what_is_ignored_is_still_made_with_a_new_table() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", billing=Throughput(5, 5), ttl="expires", ignore=["billing", "ttl"]))
    assert place.survey(Table("jobs", "id:S", billing=Throughput(5, 5), ttl="expires")).plan.is_empty
    assert place.survey(Table("jobs", "id:S", ttl="other", ignore=["billing", "ttl"])).plan.is_empty


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["biling"], "Did you mean 'billing'"),
        (["key"], "It may name billing, deletion_protection"),
        ("billing", 'Use a list of members, such as ["billing"]'),
        (None, 'Use a list of members, such as ["billing"]'),
        ([7], 'Use a list of members, such as ["billing"]'),
    ],
)
def test_ignore_of_what_cannot_be_ignored_is_refused(given: object, told: str) -> None:
    with pytest.raises(DefinitionError, match=r"table 'jobs'") as caught:
        Table("jobs", "id:S", ignore=given)  # type: ignore[arg-type]
    assert told in str(caught.value)
    if isinstance(given, list) and given != [7]:
        with pytest.raises(DefinitionError, match=r"table 'jobs'"):
            read_export(export_text(Table("jobs", "id:S")).rstrip()[:-1] + f', "Ignore": {json.dumps(given)}}}', "x")


def test_a_description_without_capacity_is_no_table_of_one_unit() -> None:
    table = {
        "TableName": "jobs",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    }
    for mode in ({}, {"BillingMode": "PROVISIONED"}, {"BillingModeSummary": {"BillingMode": "PROVISIONED"}}):
        with pytest.raises(ExportError, match="ProvisionedThroughput is missing"):
            read_export(json.dumps(table | mode), "jobs.json")
    assert read_export(json.dumps(table | {"BillingMode": "PAY_PER_REQUEST"}), "jobs.json").billing == "on-demand"
