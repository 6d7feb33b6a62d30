"""Definitions in files of other tools: CloudFormation, `terraform show -json`, `describe-table`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.extras import ExtraMissing
from penstock.registry import system_tables
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.readers import documents
from penstock.tables.definitions.readers.definition_file import read_definition_file
from penstock.tables.definitions.sources import LoadingError, load

TEMPLATE = """
AWSTemplateFormatVersion: 2010-09-09
Parameters:
  Stage: {Type: String, Default: dev}
  Units: {Type: Number, Default: 5}
Mappings: {Days: {dev: {recovery: 7}, prod: {recovery: 35}}}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
Resources:
  Key: {Type: "AWS::KMS::Key"}
  Jobs:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: !Sub "${Stage}-jobs"
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
      ProvisionedThroughput: {ReadCapacityUnits: !Ref Units, WriteCapacityUnits: 2}
      DeletionProtectionEnabled: !If [IsProd, true, !Ref "AWS::NoValue"]
      PointInTimeRecoverySpecification:
        PointInTimeRecoveryEnabled: true
        RecoveryPeriodInDays: !FindInMap [Days, !Ref Stage, recovery]
      Tags: [{Key: Name, Value: !Join ["-", [!Ref Stage, !Select [1, !Split [",", "a,b"]]]]}]
  OnlyProd:
    Type: AWS::DynamoDB::Table
    Condition: IsProd
    Properties: {TableName: !GetAtt Never.Known}
"""


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


def read(tmp_path: Path, text: str, name: str = "t.yaml", **parameters: str) -> tuple[Table, ...]:
    (tmp_path / name).write_text(text)
    return read_definition_file(tmp_path / name, parameters).tables


def properties(**more: Any) -> str:
    shape = {
        "TableName": "jobs",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        **more,
    }
    kind = "GlobalTable" if "Replicas" in more else "Table"
    resource = {"Type": f"AWS::DynamoDB::{kind}", "Properties": {k: v for k, v in shape.items() if v is not None}}
    return json.dumps({"Resources": {"Jobs": resource}})


def test_functions_are_resolved_as_a_stack_would(tmp_path: Path) -> None:
    units = Throughput(5, 2)
    dev = Table("dev-jobs", "id:S", billing=units, pitr=7, tags={"Name": "dev-b"})
    assert read(tmp_path, TEMPLATE) == (dev,)
    with pytest.raises(ExportError, match=r"Resources\.OnlyProd\.Properties\.TableName: GetAtt Never\.Known is known"):
        read(tmp_path, TEMPLATE, Stage="prod")
    text = TEMPLATE.replace("Condition: IsProd\n", "Condition: IsProd\n    DeletionPolicy: Retain\n").split(
        "  OnlyProd"
    )[0]
    (prod,) = read(tmp_path, text, Stage="prod", Units="9")
    assert (prod.name, prod.billing, prod.deletion_protection, prod.pitr) == ("prod-jobs", Throughput(9, 2), True, 35)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"TableName": {"Ref": "Stage"}},
            "Properties.TableName: Ref Stage is known to the stack only; give",
        ),
        ({"TableName": None}, "has no TableName, so CloudFormation makes a name; give .* --parameter Jobs=NAME"),
        ({"TableName": {"Fn::Cidr": []}}, "Properties.TableName: Fn::Cidr is not resolved here"),
        ({"TableName": {"Fn::If": ["No", 1, 2]}}, "the condition No is not in the template"),
        ({"TableName": {"Fn::Select": [5, ["a"]]}}, "Fn::Select cannot be resolved"),
        ({"KeySchema": None}, r"Resources.Jobs.Properties.KeySchema is missing"),
        ({"DeletionProtectionEnabled": "perhaps"}, "'perhaps' is neither true nor false"),
    ],
)
def test_a_value_that_cannot_be_resolved_names_its_place(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ExportError, match=reason):
        read(tmp_path, properties(**more), "t.json")


@pytest.mark.parametrize("type", ["Table", "GlobalTable"])
@pytest.mark.parametrize("properties", ["a text", "[]", "5", "!Sub x", "!Ref AWS::NoValue", "{Replicas: [5]}"])
def test_properties_that_are_none_are_refused(tmp_path: Path, type: str, properties: str) -> None:
    text = f"Resources:\n  Jobs:\n    Type: AWS::DynamoDB::{type}\n    Properties: {properties}\n"
    with pytest.raises(ExportError, match=r"t\.yaml: Resources\.Jobs"):
        read(tmp_path, text)


def test_a_resource_of_terraform_that_lacks_a_member_is_told_by_its_name(tmp_path: Path) -> None:
    lacking = resource("one", "aws_dynamodb_table.a", billing_mode="PROVISIONED", read_capacity=5)
    state = {"format_version": "1.0", "values": {"root_module": {"resources": [lacking]}}}
    with pytest.raises(ExportError, match=r"aws_dynamodb_table\.a: write_capacity is missing"):
        read(tmp_path, json.dumps(state), "a.json")


def test_what_only_a_stack_knows_can_be_given(tmp_path: Path) -> None:
    key = {"SSEEnabled": True, "KMSMasterKeyId": {"Fn::GetAtt": ["Key", "Arn"]}}
    text = properties(TableName=None, SSESpecification=key)
    arn = "arn:aws:kms:us-east-1:123456789012:key/k"
    (tmp_path / "t.json").write_text(text)
    found = read_definition_file(tmp_path / "t.json", {"Jobs": "stack-Jobs-1X", "Key.Arn": arn}).tables
    assert found == (Table("stack-Jobs-1X", "id:S", sse=arn),)


def test_a_global_table_is_its_replica_in_this_region(tmp_path: Path) -> None:
    replicas = [
        {"Region": "us-east-1", "DeletionProtectionEnabled": True},
        {"Region": "eu-west-1", "TableClass": "STANDARD", "ContributorInsightsSpecification": {"Enabled": True}},
    ]
    (tmp_path / "t.json").write_text(properties(Replicas=replicas))
    found = read_definition_file(tmp_path / "t.json", {"AWS::Region": "eu-west-1"})
    assert found.tables == (Table("jobs", "id:S", stream="NEW_AND_OLD_IMAGES", table_class="STANDARD"),)
    assert found.not_compared == ("jobs: replicas in us-east-1, eu-west-1", "jobs: Contributor Insights")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "unfolds to more than"),
        ("a: &a {b: *a}", "unfolds to more than"),
        ("a: &a {b: 1}\nc: {<<: *a}", "merge keys"),
        ("a: 1\na: 2", "'a' is written twice"),
        ("a: !!python/object/apply:os.system [x]", "broken YAML"),
        ("a: [", "broken YAML"),
        ("[" * 5000, "nested too deep|broken YAML"),
        ("hello", "it is no definition"),
        ("a: 1", "it is not a CloudFormation template"),
        ("TableName: jobs", "/KeySchema is missing|/AttributeDefinitions is missing"),
    ],
)  # fmt: skip
def test_hostile_yaml_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ExportError, match=reason):
        read(tmp_path, text)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LARGEST_YAML_BYTES", 5)
    with pytest.raises(ExportError, match="at most 5"):
        read(tmp_path, "a: 12345")
    monkeypatch.setattr(documents, "LARGEST_JSON_BYTES", 5)
    with pytest.raises(ExportError, match="at most 5"):
        read(tmp_path, '{"a": 12345}', "t.json")


def test_without_yaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ExtraMissing, match=r"penstock\[yaml\]"):
        read(tmp_path, TEMPLATE)


def resource(name: str | None, address: str, **more: Any) -> dict[str, Any]:
    values = {"name": name, "billing_mode": "PAY_PER_REQUEST", "hash_key": "id", "range_key": None,
              "attribute": [{"name": "id", "type": "S"}, {"name": "at", "type": "N"}], "ttl": [], **more}  # fmt: skip
    return {"address": address, "mode": "managed", "type": "aws_dynamodb_table", "values": values}


UNNAMED = {"format_version": "1", "values": {"root_module": {"resources": [resource(None, "m.t[0]")]}}}
INDEX = {"name": "by-at", "hash_key": "at", "range_key": "", "projection_type": "INCLUDE", "non_key_attributes": ["b"]}


@pytest.mark.parametrize("form", ["values", "planned_values"])
def test_every_instance_in_every_module_of_terraform_is_read(tmp_path: Path, form: str) -> None:
    beside = {"address": "k.s", "type": "aws_dynamodb_kinesis_streaming_destination", "values": {"table_name": "one"}}
    data = {**resource("data", "data.x"), "mode": "data"}
    deep = {
        "resources": [resource("three", 'module.a.module.b.t["x"]', tags={"a": "b"}, tags_all={"a": "b", "c": "d"})]
    }
    extras = {"ttl": [{"attribute_name": "ttl", "enabled": True}], "global_secondary_index": [INDEX]}
    pitr = {"point_in_time_recovery": [{"enabled": True, "recovery_period_in_days": None}]}
    warm = {"warm_throughput": [{"read_units_per_second": 12000, "write_units_per_second": 4000}]}
    first = [resource("one", "t[0]", **extras, **warm), resource("two", "t[1]", **pitr), beside, data]
    root = {"resources": first, "child_modules": [{"child_modules": [deep]}]}
    (tmp_path / "s.json").write_text(json.dumps({"format_version": "1.0", form: {"root_module": root}}))
    found = load(str(tmp_path / "s.json"), system_tables())
    assert found.tables == (
        Table("one", "id:S", ttl="ttl", indexes=[Index("by-at", "at:N", projection=["b"])]),
        Table("two", "id:S", pitr=True),
        Table("three", "id:S", tags={"a": "b", "c": "d"}),
    )
    assert found.not_compared == ("one: a Kinesis destination (k.s)",)


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("a.json", UNNAMED, "m.t.0.: its name is known after apply"),
        ("a.json", {"format_version": "1"}, "there is no DynamoDB table in it"),
        ("a.json", {"version": 4, "lineage": "x"}, "raw state.*terraform show -json"),
        ("a.tf", {}, "terraform show -json"),
    ],
)  # fmt: skip
def test_what_terraform_has_not_resolved_is_refused(tmp_path: Path, name: str, document: Any, reason: str) -> None:
    with pytest.raises(ExportError, match=reason):
        read(tmp_path, json.dumps(document), name)


def test_describe_tables_output_is_a_definition(tmp_path: Path) -> None:
    described = json.loads(properties())["Resources"]["Jobs"]["Properties"]
    (found,) = read(tmp_path, json.dumps({"Table": described}), "d.json")
    assert (found.name, str(found.key), found.billing) == ("jobs", "id", "on-demand")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="No such file"):
        load(str(tmp_path / "none.yaml"), system_tables())


def test_a_parameter_that_the_template_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"Stagee: the template has no such name \(did you mean Stage\?\)"):
        read(tmp_path, TEMPLATE, Stagee="prod")
    path = tmp_path / "t.yaml"
    used = {"OnlyProd.Arn": "for a table whose condition does not hold", "AWS::Region": "eu-west-2"}
    assert len(read_definition_file(path, used).tables) == 1
    with pytest.raises(ExportError, match="--parameter Stage: it is no CloudFormation template"):
        read(tmp_path, json.dumps(json.loads(properties())["Resources"]["Jobs"]["Properties"]), "d.json", Stage="x")
    with pytest.raises(LoadingError, match="Give --parameter with a CloudFormation template only"):
        load("mytables:all", {}, parameters={"Stage": "x"})


BY_DAY = {
    "IndexName": "by-day",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"GlobalSecondaryIndexs": [BY_DAY]}, r"Properties\.GlobalSecondaryIndexs is unknown \(did you mean GlobalSec"),
        ({"TimeToLiveSpec": {}}, r"Properties\.TimeToLiveSpec is unknown \(did you mean TimeToLiveSpecification\?"),
        (
            {"GlobalSecondaryIndexes": [BY_DAY | {"Projektion": {}}]},
            r"Properties\.GlobalSecondaryIndexes\[0\]\.Projektion is unknown \(did you mean Projection\?",
        ),
        ({"StreamSpecification": {"StreamView": "NEW_IMAGE"}}, r"StreamSpecification\.StreamViewType is missing"),
        ({"Tags": {"Team": "a"}}, r"Properties\.Tags is \{'Team': 'a'\}, and not a list of objects"),
        ({"BillingMode": "PROVISIONED"}, r"Properties\.ProvisionedThroughput is missing \(for on demand, write Bill"),
    ],
)
def test_a_member_of_a_template_that_means_nothing_is_no_silent_none(
    tmp_path: Path, more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ExportError, match=reason):
        read(tmp_path, properties(**({"BillingMode": "PAY_PER_REQUEST"} | more)), "t.json")


def test_cloudformations_default_is_provisioned_and_its_units_are_not_guessed(tmp_path: Path) -> None:
    template = TEMPLATE.replace(
        "      ProvisionedThroughput: {ReadCapacityUnits: !Ref Units, WriteCapacityUnits: 2}\n", ""
    )
    with pytest.raises(ExportError, match=r"Resources\.Jobs\.Properties\.ProvisionedThroughput is missing"):
        read(tmp_path, template)


def test_a_simple_table_of_sam_is_told_as_not_compared(tmp_path: Path) -> None:
    more = '  Small: {Type: "AWS::Serverless::SimpleTable"}\n'
    (tmp_path / "t.yaml").write_text(TEMPLATE + more)
    found = read_definition_file(tmp_path / "t.yaml", {})
    assert len(found.tables) == 1
    assert found.not_compared == (
        "Small: AWS::Serverless::SimpleTable, which is a table in the processed template only",
    )


def test_what_a_newer_provider_says_of_a_table_is_told_as_not_compared(tmp_path: Path) -> None:
    values = {"name": "jobs", "billing_mode": "PAY_PER_REQUEST", "hash_key": "id"}
    values |= {"attribute": [{"name": "id", "type": "S"}], "colour": "blue", "shade": [], "arn": "x"}
    resource = {"address": "aws_dynamodb_table.jobs", "type": "aws_dynamodb_table", "values": values}
    document = {"format_version": "1.0", "values": {"root_module": {"resources": [resource]}}}
    (tmp_path / "t.json").write_text(json.dumps(document))
    found = read_definition_file(tmp_path / "t.json", {})
    assert found.not_compared == ("jobs: colour (aws_dynamodb_table.jobs)",)


def test_what_is_not_compared_needs_no_value_that_only_the_stack_knows(tmp_path: Path) -> None:
    text = TEMPLATE.replace(
        "      Tags:", "      KinesisStreamSpecification: {StreamArn: !GetAtt Stream.Arn}\n      Tags:"
    )
    (tmp_path / "t.yaml").write_text(text)
    found = read_definition_file(tmp_path / "t.yaml")
    assert found.not_compared == ("dev-jobs: a Kinesis destination",)


@pytest.mark.parametrize(
    ("before", "after", "stage", "told"),
    [
        ("Default: dev}", "AllowedValues: [dev, prod]}", "test", "Stage=test: the template allows dev, prod."),
        ("Default: dev}", "Default: dev}", "test",
         "FindInMap cannot be resolved: it has no 'test'. Mend the template."),
        ("KeySchema: [{AttributeName: id", "KeySchema: [{AttributeName: key", "dev",
         "Jobs: 'key' is in a KeySchema, and not in AttributeDefinitions. Mend the template."),
        ("!Ref Units", "!Ref Other", "dev",
         "Ref Other is known to the stack only; give it with --parameter Other=VALUE."),
    ],
)  # fmt: skip
def test_an_error_of_a_template_ends_with_what_helps(
    tmp_path: Path, before: str, after: str, stage: str, told: str
) -> None:
    with pytest.raises(ExportError) as caught:
        read(tmp_path, TEMPLATE.replace(before, after), Stage=stage)
    assert str(caught.value).endswith(told)


@pytest.mark.parametrize(
    "place", ['!Sub "table/${Jobs}"', "!Join [/, [table, !Ref Jobs]]", "table/dev-jobs/index/by-x"]
)
def test_capacity_that_a_template_scales_is_no_drift(tmp_path: Path, place: str) -> None:
    scaled = f"""
  Scaling:
    Type: AWS::ApplicationAutoScaling::ScalableTarget
    Properties: {{ServiceNamespace: dynamodb, ResourceId: {place}, MinCapacity: 5, MaxCapacity: 50}}
"""
    (tmp_path / "t.yaml").write_text(TEMPLATE + scaled)
    found = read_definition_file(tmp_path / "t.yaml")
    assert found.tables[0].ignore == ("billing",) and found.tables[0].billing == Throughput(5, 2)
    assert found.not_compared == ("dev-jobs: autoscaling of its capacity",)
    (plain,) = read(tmp_path, TEMPLATE + scaled.replace("obs", "obz"))
    assert plain.ignore == ()


def test_capacity_that_terraform_scales_is_no_drift(tmp_path: Path) -> None:
    def table(name: str) -> dict[str, Any]:
        values = {
            "name": name,
            "billing_mode": "PROVISIONED",
            "read_capacity": 5,
            "write_capacity": 5,
            "hash_key": "id",
        }
        values["attribute"] = [{"name": "id", "type": "S"}]
        return {"address": f"aws_dynamodb_table.{name}", "type": "aws_dynamodb_table", "values": values}

    target = {"address": "t", "type": "aws_appautoscaling_target", "values": {"resource_id": "table/jobs/index/by-x"}}
    document = {
        "format_version": "1.0",
        "values": {"root_module": {"resources": [table("jobs"), table("logs"), target]}},
    }
    jobs, logs = read(tmp_path, json.dumps(document), "t.json")
    assert (jobs.ignore, logs.ignore) == (("billing",), ())
