"""PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import Engine
from penstock.errors import DynamoDBError, PolicyNotFoundException, ResourceNotFoundException

POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow"}]}'
OTHER = '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny"}]}'
INVALID = "One or more parameter values were invalid: "


def create(engine: Engine, **members: Any) -> str:
    request = {
        "TableName": "jobs",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        **members,
    }
    arn: str = engine.execute("CreateTable", request)["TableDescription"]["TableArn"]
    return arn


def put(engine: Engine, arn: str, policy: str = POLICY, **members: str) -> str:
    request = {"ResourceArn": arn, "Policy": policy, **members}
    revision: str = engine.execute("PutResourcePolicy", request)["RevisionId"]
    return revision


def get(engine: Engine, arn: str) -> dict[str, str]:
    answer: dict[str, str] = engine.execute("GetResourcePolicy", {"ResourceArn": arn})
    return answer


def test_a_policy_is_kept_as_it_was_given(engine: Engine) -> None:
    arn = create(engine)
    revision = put(engine, arn)
    assert get(engine, arn) == {"Policy": POLICY, "RevisionId": revision}


def test_the_same_policy_keeps_its_revision_and_another_has_a_later_one(engine: Engine) -> None:
    arn = create(engine)
    revision = put(engine, arn)
    assert put(engine, arn) == revision
    assert int(put(engine, arn, OTHER)) > int(revision)


def test_a_table_may_be_made_with_its_policy(engine: Engine) -> None:
    arn = create(engine, ResourcePolicy=POLICY)
    assert get(engine, arn)["Policy"] == POLICY


def test_a_policy_is_deleted_once_or_twice(engine: Engine) -> None:
    arn = create(engine)
    revision = put(engine, arn)
    assert engine.execute("DeleteResourcePolicy", {"ResourceArn": arn}) == {"RevisionId": revision}
    assert engine.execute("DeleteResourcePolicy", {"ResourceArn": arn}) == {}
    with pytest.raises(PolicyNotFoundException):
        get(engine, arn)


def test_an_expected_revision_must_be_the_current_one(engine: Engine) -> None:
    arn = create(engine)
    with pytest.raises(PolicyNotFoundException):
        put(engine, arn, ExpectedRevisionId="1")
    revision = put(engine, arn, ExpectedRevisionId="NO_POLICY")
    with pytest.raises(PolicyNotFoundException):
        put(engine, arn, OTHER, ExpectedRevisionId="NO_POLICY")
    with pytest.raises(PolicyNotFoundException):
        engine.execute("DeleteResourcePolicy", {"ResourceArn": arn, "ExpectedRevisionId": "1"})
    put(engine, arn, OTHER, ExpectedRevisionId=revision)


def test_a_wrong_revision_is_refused_in_sentences_of_aws(engine: Engine) -> None:
    arn = create(engine)
    revision = put(engine, arn)
    opening = "Resource-based policy not found for the provided ResourceArn: Requested "
    with pytest.raises(PolicyNotFoundException) as refused:
        put(engine, arn, OTHER, ExpectedRevisionId="NO_POLICY")
    assert refused.value.message == (
        f"{opening}policy update expecting none to be present for table jobs, "
        f"but a policy exists with revision id {revision}."
    )
    with pytest.raises(PolicyNotFoundException) as refused:
        engine.execute("DeleteResourcePolicy", {"ResourceArn": arn, "ExpectedRevisionId": "1"})
    assert refused.value.message == (
        f"{opening}update for policy with revision id 1, "
        f"but the policy associated to target table jobs has revision id {revision}."
    )


def test_a_stream_has_a_policy_of_its_own(engine: Engine) -> None:
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    arn = create(engine, StreamSpecification=stream)
    described = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    put(engine, described["LatestStreamArn"])
    assert get(engine, described["LatestStreamArn"])["Policy"] == POLICY
    with pytest.raises(PolicyNotFoundException):
        get(engine, arn)


WRONG = [
    ("{", INVALID + "Invalid policy document: This policy contains invalid Json"),
    ("[]", INVALID + "Invalid policy document: This policy contains invalid Json"),
    ("null", INVALID + "Invalid policy document: This text appears not to be a policy"),
    ("{}", INVALID + "Invalid policy document: Syntax error at position (1,3)"),
    ('{"Statement": []}', INVALID + "Invalid policy document: Could not parse the policy: Statement is empty!"),
    ('{"Statement": [{}]}', INVALID + "Invalid policy document: Missing required field Effect"),
    (" " * 20_481, INVALID + "Maximum policy size of 20480 bytes exceeded"),
]


@pytest.mark.parametrize(("policy", "message"), WRONG)
def test_a_wrong_policy_is_refused(engine: Engine, policy: str, message: str) -> None:
    arn = create(engine)
    with pytest.raises(DynamoDBError) as refused:
        put(engine, arn, policy)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("arn", "message"),
    [
        ("jobs", INVALID + "ARNs must start with 'arn:': jobs"),
        ("arn:aws:s3:::x", INVALID + "Provided Arn is not a DynamoDB resource arn: arn:aws:s3:::x"),
    ],
)
def test_only_tables_and_streams_have_policies(engine: Engine, arn: str, message: str) -> None:
    with pytest.raises(DynamoDBError) as refused:
        put(engine, arn)
    assert refused.value.message == message


def test_a_missing_table_is_not_found(engine: Engine) -> None:
    with pytest.raises(ResourceNotFoundException) as refused:
        get(engine, "arn:aws:dynamodb:us-east-1:000000000000:table/none")
    assert refused.value.message == "Requested resource not found: Table: none not found"
