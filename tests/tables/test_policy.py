"""S1.16: the least IAM policy."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.iam_policy import COMMANDS, policy

NAMING = Naming("shop", "dev")
PLAIN = Table("jobs", "id:S")
FULL = Table("jobs", "id:S", ttl="ttl", pitr=True, tags={"a": "b"}, sse="1234abcd")


def statement(document: dict[str, Any], sid: str) -> dict[str, Any] | None:
    return next((one for one in document["Statement"] if one["Sid"] == sid), None)


def test_looking_needs_no_right_to_change() -> None:
    document = policy(["plan"], [PLAIN], NAMING, account="123456789012")
    only, rekeys, others, listed = document["Statement"]
    assert others["Action"] == ["dynamodb:DescribeTable", "dynamodb:ListTagsOfResource"]
    assert others["Resource"] == ["arn:aws:dynamodb:us-east-1:123456789012:table/shop-dev-*"], "to find orphans"
    assert (listed["Action"], listed["Resource"]) == (["dynamodb:ListTables"], ["*"])
    assert (rekeys["Action"], rekeys["Sid"]) == (["dynamodb:GetItem"], "RekeyState")
    assert only["Resource"] == ["arn:aws:dynamodb:us-east-1:123456789012:table/shop-dev-jobs"]
    assert only["Action"] == [
        "dynamodb:DescribeContinuousBackups",
        "dynamodb:DescribeContributorInsights",
        "dynamodb:DescribeKinesisStreamingDestination",
        "dynamodb:DescribeTable",
        "dynamodb:DescribeTimeToLive",
        "dynamodb:ListTagsOfResource",
        "dynamodb:Scan",
    ]


def test_S1_16_ListTables_needs_a_star() -> None:
    document = policy(["export"], [PLAIN], NAMING)
    assert statement(document, "List") == {
        "Sid": "List",
        "Effect": "Allow",
        "Action": ["dynamodb:ListTables"],
        "Resource": ["*"],
    }
    assert "dynamodb:ListTables" not in (statement(document, "Tables") or {})["Action"]


def test_only_what_the_definitions_use_is_allowed() -> None:
    plain = (statement(policy(["apply"], [PLAIN], NAMING), "Tables") or {})["Action"]
    full = (statement(policy(["apply"], [FULL], NAMING), "Tables") or {})["Action"]
    assert set(full) - set(plain) == {
        "dynamodb:UntagResource",
        "dynamodb:UpdateContinuousBackups",
    }
    assert "dynamodb:UpdateTimeToLive" in plain, "TTL that a definition does not have is switched off"
    assert not any("Delete" in action for action in full)


def test_a_key_of_ones_own_is_used_by_a_grant() -> None:
    keys = statement(policy(["apply"], [FULL], NAMING, region="eu-west-2", account="1"), "Keys")
    assert keys is not None
    assert keys["Resource"] == ["arn:aws:kms:eu-west-2:1:key/1234abcd"]
    assert statement(policy(["plan"], [FULL], NAMING), "Keys") is None


def test_streams_and_backups_have_resources_of_their_own() -> None:
    document = policy(["rekey", "backup"], [PLAIN], NAMING, partition="aws-cn")
    assert (statement(document, "Streams") or {})["Resource"] == [
        "arn:aws-cn:dynamodb:us-east-1:*:table/shop-dev-jobs/stream/*"
    ]
    assert (statement(document, "Backups") or {})["Action"] == ["dynamodb:DescribeBackup"]


def test_every_action_is_a_call_of_DynamoDB() -> None:
    session = botocore.session.get_session()
    known = {
        f"dynamodb:{name}"
        for service in ("dynamodb", "dynamodbstreams")
        for name in session.get_service_model(service).operation_names
    }
    for one in policy(COMMANDS, [FULL], NAMING)["Statement"]:
        assert {action for action in one["Action"] if action.startswith("dynamodb:")} <= known


def test_templates_need_no_rights() -> None:
    assert policy(["terraform", "cloudformation", "policy"], [FULL], NAMING)["Statement"] == []


def test_a_table_that_is_only_named_may_use_everything() -> None:
    document = policy(["load"], [], NAMING, also=["orders"])
    tables = statement(document, "Tables") or {}
    assert tables["Resource"] == ["arn:aws:dynamodb:us-east-1:*:table/orders"]
    assert {"dynamodb:UpdateContinuousBackups", "dynamodb:UntagResource"} <= set(tables["Action"])


def test_rekey_may_use_the_table_of_its_jobs_and_nothing_else_there() -> None:
    state = statement(policy(["rekey"], [PLAIN], NAMING), "RekeyState") or {}
    assert state["Resource"] == ["arn:aws:dynamodb:us-east-1:*:table/penstock-rekey"]
    assert "dynamodb:DeleteTable" not in state["Action"]
    assert statement(policy(["dump"], [PLAIN], NAMING), "RekeyState") is None


def test_a_command_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="There is no command 'drop'; there are plan, verify"):
        policy(["drop"], [PLAIN], NAMING)
