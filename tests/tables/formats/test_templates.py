"""S1.19: CloudFormation and Terraform. What a template declares is what the definition says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from table_checks import without_empty_maximums
from table_strategies import tables

from penstock.registry import system_tables
from penstock.tables.definitions.definition import Index, Maximum, Naming, Table, Throughput
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.sources import load
from penstock.tables.formats import cloudformation, terraform

NAMING = Naming("shop", "dev")

EVERYTHING = (
    Table(
        "everything",
        ("company#client:S", "at:N"),
        indexes=[
            Index("places", ("country:S", "city:S"), ("street:S", "number:N"), projection=["name"]),
            Index("plain", "country:S", on_demand_max=Maximum(5, 6), warm=Throughput(13_000, 5_000)),
            Index("nearby", "company#client:S", "city:S", projection="KEYS_ONLY", local=True),
        ],
        ttl="expiresAt",
        stream="NEW_AND_OLD_IMAGES",
        pitr=7,
        tags={"Team": "blue team", "a/b": "é"},
        on_demand_max=Maximum(100, None),
        warm=Throughput(15_000, 5_000),
        table_class="STANDARD_INFREQUENT_ACCESS",
        deletion_protection=True,
        sse="alias/jobs",
    ),
    Table(
        "provisioned", "id:S", indexes=[Index("one", "a:S")], billing=Throughput(5, 6), sse=True, pitr=False, tags={}
    ),
    Table("keyed", "id:S", sse="arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"),
)


def named(several: tuple[Table, ...], naming: Naming = NAMING) -> tuple[Table, ...]:
    return tuple(naming.with_full_name(table) for table in several)


@given(tables())
def test_a_cloudformation_template_declares_the_definition(table: Table) -> None:
    (read,) = cloudformation.read_template(cloudformation.template_text([table], NAMING))
    assert read == NAMING.with_full_name(without_empty_maximums(table))


@given(tables())
def test_a_terraform_file_declares_the_definition(table: Table) -> None:
    (read,) = terraform.read_template(terraform.template_text([table], NAMING))
    assert read == NAMING.with_full_name(table)


def test_everything_goes_both_ways() -> None:
    assert cloudformation.read_template(cloudformation.template_text(EVERYTHING, NAMING)) == named(EVERYTHING)
    assert terraform.read_template(terraform.template_text(EVERYTHING, NAMING)) == named(EVERYTHING)


@pytest.mark.parametrize("system", system_tables())
def test_S1_19_every_systems_tables_go_both_ways(system: str) -> None:
    found = load(system, system_tables())
    naming = Naming(found.prefix)
    expected = named(found.tables, naming)
    assert cloudformation.read_template(cloudformation.template_text(found.tables, naming)) == expected
    text = terraform.template_text(found.tables, naming)
    assert terraform.read_template(text) == tuple(one.replace(vector_indexes=()) for one in expected)
    unwritten = [
        f"vector index {index.name} is not written" for table in found.tables for index in table.vector_indexes
    ]
    assert [line.split(": ")[1] for line in text.splitlines() if line.startswith("#")] == unwritten


def test_an_edit_of_a_template_deletes_no_data() -> None:
    resources = cloudformation.template(EVERYTHING, NAMING)["Resources"].values()
    assert {(one["DeletionPolicy"], one["UpdateReplacePolicy"]) for one in resources} == {("Retain", "Retain")}
    assert terraform.template_text(EVERYTHING, NAMING).count("prevent_destroy = true") == 3


def test_names_that_become_the_same_are_told_apart() -> None:
    twins = [Table("a-b", "id:S"), Table("a.b", "id:S"), Table("1st", "id:S")]
    assert list(cloudformation.template(twins, NAMING)["Resources"]) == ["ABTable", "ABTable2", "1stTable"]
    text = terraform.template_text(twins, NAMING)
    assert [f'"aws_dynamodb_table" "{label}"' in text for label in ("a_b", "a_b_2", "table_1st")] == [True] * 3


@pytest.mark.parametrize("text", ["{", "[]", '{"Resources": {"x": {"Type": "AWS::DynamoDB::Table"}}}'])
def test_what_is_no_cloudformation_template_is_refused(text: str) -> None:
    with pytest.raises(ExportError, match=r"^template\.json"):
        cloudformation.read_template(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('resource "aws_dynamodb_table" "x" {', 1),
        ('\nresource "aws_dynamodb_table" "x" {\n  name = ;\n}', 3),
        ('resource "aws_dynamodb_table" "x" {\n  name = "${var.name}"\n}', 2),
        ('resource "aws_dynamodb_table" "x" {\n  name = \n}', 3),
    ],
)
def test_what_is_no_terraform_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ExportError) as caught:
        terraform.read_template(text)
    assert caught.value.line == line


def test_terraform_written_by_hand_is_read() -> None:
    text = """
    # A comment, and another // here
    resource "aws_dynamodb_table" "jobs" {
      name         = "jobs" /* its name */
      billing_mode = "PAY_PER_REQUEST"
      hash_key     = "id"
      attribute {
        name = "id"
        type = "S"
      }
      tags = { Team = "blue", "a b" : "c" }
    }
    """
    assert terraform.read_template(text) == (Table("jobs", "id:S", tags={"Team": "blue", "a b": "c"}),)


def test_cfn_lint_has_no_complaint() -> None:
    lint = pytest.importorskip("cfnlint.api", reason="cfn-lint is not installed")
    expenses = load("construction-expenses", system_tables())
    for several in (EVERYTHING, expenses.tables):
        text = cloudformation.template_text(several, NAMING)
        # Rules named I… are advice on what else a template might say.
        found = [one for one in lint.lint_all(text) if not one.rule.id.startswith("I")]
        assert [str(one) for one in found] == []


def test_terraform_formats_it_the_same(tmp_path: Path) -> None:
    program = shutil.which("terraform") or shutil.which("tofu")
    if program is None:
        pytest.skip("neither terraform nor tofu is installed")
    (tmp_path / "tables.tf").write_text(terraform.template_text(EVERYTHING, NAMING))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    done = subprocess.run(
        [program, "fmt", "-check", "-diff", str(tmp_path / "tables.tf")],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment | {"CHECKPOINT_DISABLE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
