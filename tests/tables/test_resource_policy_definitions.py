"""Resource policies, defined and applied as everything else; and what is not managed, named and left whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleets import PLAIN, Place

from penstock.client.database import Database
from penstock.client.transports.base import Capabilities
from penstock.errors import AccessDeniedException
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.definitions.export_file import export_text, read_export
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.readers.definition_file import read_definition_file
from penstock.tables.definitions.resource_policy import same_policy
from penstock.tables.definitions.sources import load
from penstock.tables.formats import cloudformation, python_source, terraform
from penstock.tables.formats.import_tables import read_tables
from penstock.tables.iam_policy import policy
from penstock.tables.plan.changes import RemoveResourcePolicy, SetResourcePolicy
from penstock.tables.plan.failures import TablesUnreadable
from penstock.tables.plan.survey import survey
from penstock.tables.plan.unmanaged import unmanaged_of
from penstock.tables.state.locked_apply import apply_locked
from penstock.tables.state.state_table import StateTable

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"


def document(*actions: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"AWS": "123456789012"}, "Action": list(actions), "Resource": ARN}
    return {"Version": "2012-10-17", "Statement": [statement]}


ONE = Table("jobs", "id:S", resource_policy=document("dynamodb:GetItem"))
TWO = Table("jobs", "id:S", resource_policy=json.dumps(document("dynamodb:Query", "dynamodb:GetItem"), indent=2))


def test_a_policy_is_made_changed_and_removed(db: Database) -> None:
    """In the file, on our server and on moto's."""
    state = StateTable(db)
    for table in (ONE, TWO):
        report = apply_locked(db, survey(db, [table], PLAIN), state)
        if "this endpoint has no resource policies" in report.outcomes[0].notes:
            pytest.skip("this endpoint has no resource policies")
        assert (report.failures, report.outcomes[0].notes) == ((), ())
        assert survey(db, [table], PLAIN).plan.is_empty
    none = Table("jobs", "id:S", resource_policy={})
    (change,) = survey(db, [none], PLAIN).tables[0].plan.changes
    assert change == RemoveResourcePolicy()
    assert survey(db, [Table("jobs", "id:S")], PLAIN).plan.is_empty, "what a definition does not say stays"
    ignoring = Table("jobs", "id:S", resource_policy={}, ignore=["resource_policy"])
    assert survey(db, [ignoring], PLAIN).plan.is_empty
    assert read_tables(db, ["jobs"]).tables[0].resource_policy == TWO.resource_policy
    assert not apply_locked(db, survey(db, [none], PLAIN), state).failures
    assert survey(db, [none], PLAIN).plan.is_empty
    assert read_tables(db, ["jobs"]).tables[0].resource_policy is None


def test_policies_that_IAM_reads_the_same_are_the_same() -> None:
    one = document("dynamodb:GetItem")
    other = json.loads(json.dumps(one))
    other["Statement"] = other["Statement"][0] | {"Action": "dynamodb:GetItem"}
    other["Statement"]["Principal"] = {"AWS": ["arn:aws:iam::123456789012:root"]}
    assert same_policy(json.dumps(one), json.dumps(other))
    assert same_policy(json.dumps(document("a", "b")), json.dumps(document("b", "a")))
    assert not same_policy(json.dumps(one), json.dumps(document("dynamodb:Query")))
    place = Place()
    place.apply(ONE)
    assert place.survey(Table("jobs", "id:S", resource_policy=other)).plan.is_empty
    changes = place.survey(TWO).tables[0].plan.changes
    assert [type(one) for one in changes] == [SetResourcePolicy]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "it is no JSON object"),
        ("{", "it is no JSON"),
        ("[]", "it is no JSON object"),
        ({"Version": "2012-10-17"}, "it has no Statement"),
        ({"Statement": ["x" * 20_480]}, "it has 20,499 bytes"),
    ],
)
def test_what_is_no_policy_is_refused(given: Any, told: str) -> None:
    with pytest.raises(DefinitionError, match=r"table 'jobs': resource_policy is") as caught:
        Table("jobs", "id:S", resource_policy=given)
    assert told in str(caught.value)


@pytest.mark.parametrize("table", [ONE, TWO])
def test_a_policy_is_the_same_in_every_format(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_export(export_text(table), "jobs.json") == table
    assert cloudformation.read_template(cloudformation.template_text([table], PLAIN)) == (table,)
    assert terraform.read_template(terraform.template_text([table], PLAIN)) == (table,)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "written", raising=False)
    (tmp_path / "written.py").write_text(python_source.module_text([table.replace(ignore=("billing",))]))
    assert load("written:all", {}).tables == (table.replace(ignore=("billing",)),)


def test_terraform_shows_a_policy_beside_its_table(tmp_path: Path) -> None:
    table = {"name": "jobs", "hash_key": "id", "attribute": [{"name": "id", "type": "S"}]}
    resources = [
        {"type": "aws_dynamodb_table", "address": "t", "values": table | {"billing_mode": "PAY_PER_REQUEST"}},
        {
            "type": "aws_dynamodb_resource_policy",
            "address": "p",
            "values": {"resource_arn": ARN, "policy": ONE.resource_policy},
        },
    ]
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"format_version": "1.0", "values": {"root_module": {"resources": resources}}}))
    found = read_definition_file(file)
    assert found.tables[0].resource_policy == ONE.resource_policy and found.not_compared == ()


def test_ignored_members_are_those_of_terraform() -> None:
    ignoring = ONE.replace(ignore=("billing", "resource_policy", "ttl"))
    text = terraform.template_text([ignoring], PLAIN)
    assert "ignore_changes  = [billing_mode, read_capacity, write_capacity, ttl]" in text
    assert "ignore_changes = [policy]" in text
    assert terraform.read_template(text) == (ignoring,)


def test_the_rights_are_those_that_a_definition_needs() -> None:
    def actions(command: str, table: Table) -> set[str]:
        return {one for statement in policy([command], [table], PLAIN)["Statement"] for one in statement["Action"]}

    assert "dynamodb:GetResourcePolicy" in actions("plan", ONE)
    assert "dynamodb:GetResourcePolicy" not in actions("plan", Table("jobs", "id:S"))
    assert {"dynamodb:PutResourcePolicy", "dynamodb:DeleteResourcePolicy"} <= actions("apply", ONE)


# ── what is not managed ──────────────────────────────────────────────────────────────────────────


class Beside:
    """A DynamoDB whose table has more than a definition says."""

    def __init__(self, inner: Database, **answers: Any) -> None:
        self.inner, self.name, self.answers = inner.transport, inner.name, answers
        self.capabilities = Capabilities()

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.answers.get(operation)
        if isinstance(answer, Exception):
            raise answer
        if operation == "DescribeTable":
            described = self.inner.execute(operation, request)
            return {"Table": {**described["Table"], **(answer or {})}}
        return answer if answer is not None else self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()


def test_what_is_not_managed_is_named_and_a_stream_that_replicas_need_stays() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", stream="NEW_AND_OLD_IMAGES"))
    destination = {"StreamArn": "arn:aws:kinesis:x", "DestinationStatus": "ACTIVE"}
    answers: dict[str, Any] = {
        "DescribeTable": {"Replicas": [{"RegionName": "eu-west-1"}]},
        "DescribeKinesisStreamingDestination": {"KinesisDataStreamDestinations": [destination]},
        "DescribeContributorInsights": AccessDeniedException("no"),
        "GetResourcePolicy": AccessDeniedException("no"),
    }
    db = Database(Beside(place.inner, **answers))
    for wanted in (Table("jobs", "id:S"), Table("jobs", "id:S", stream="KEYS_ONLY")):
        found = survey(db, [wanted], PLAIN)
        assert found.plan.is_empty
        assert found.tables[0].note == "its stream stays as it is: its replicas in eu-west-1 need it"
    assert unmanaged_of(db, found) == {
        "jobs": (
            "replicas in eu-west-1",
            "Kinesis destination arn:aws:kinesis:x",
            "Contributor Insights: not known, because DescribeContributorInsights is not allowed",
        )
    }
    with pytest.raises(TablesUnreadable, match="dynamodb:GetResourcePolicy"):
        survey(db, [ONE], PLAIN)


def test_capacity_that_was_changed_since_is_told_with_what_to_define() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", billing=Throughput(5, 5), indexes=[Index("by-x", "x:S")]))
    wanted = Table("jobs", "id:S", billing=Throughput(6, 6), indexes=[Index("by-x", "x:S")])
    units = {"ReadCapacityUnits": 77, "WriteCapacityUnits": 5, "LastIncreaseDateTime": 1.0}
    db = Database(Beside(place.inner, DescribeTable={"ProvisionedThroughput": units}))
    assert 'if autoscaling does that, define ignore=["billing"]' in survey(db, [wanted], PLAIN).tables[0].note
    assert place.survey(wanted).tables[0].note == ""
