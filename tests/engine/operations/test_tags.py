"""TagResource, UntagResource, ListTagsOfResource."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import Engine
from penstock.errors import AccessDeniedException, DynamoDBError, ResourceNotFoundException, ValidationException

OTHER = "arn:aws:dynamodb:us-east-1:000000000000:table/other"


@pytest.fixture
def arn(engine: Engine) -> str:
    request = {
        "TableName": "jobs",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "Tags": [{"Key": "env", "Value": "test"}],
    }
    found: str = engine.execute("CreateTable", request)["TableDescription"]["TableArn"]
    return found


def tags(engine: Engine, arn: str) -> dict[str, str]:
    listed = engine.execute("ListTagsOfResource", {"ResourceArn": arn})["Tags"]
    return {tag["Key"]: tag["Value"] for tag in listed}


def tag(engine: Engine, arn: str, **values: str) -> None:
    given = [{"Key": key, "Value": value} for key, value in values.items()]
    assert engine.execute("TagResource", {"ResourceArn": arn, "Tags": given}) == {}


def refusal(engine: Engine, operation: str, request: dict[str, Any]) -> DynamoDBError:
    with pytest.raises(DynamoDBError) as refused:
        engine.execute(operation, request)
    return refused.value


def test_tags_are_added_replaced_and_removed(engine: Engine, arn: str) -> None:
    tag(engine, arn, team="blue", env="live")
    assert tags(engine, arn) == {"env": "live", "team": "blue"}
    engine.execute("UntagResource", {"ResourceArn": arn, "TagKeys": ["env", "never there"]})
    assert tags(engine, arn) == {"team": "blue"}


def test_an_empty_value_is_a_value(engine: Engine, arn: str) -> None:
    tag(engine, arn, env="")
    assert tags(engine, arn) == {"env": ""}


WRONG: list[tuple[list[dict[str, str]], str]] = [
    ([], "Atleast one Tag needs to be provided as Input."),
    ([{"Key": "", "Value": "x"}], "The Tag Key provided is invalid, Key: "),
    ([{"Key": "k" * 129, "Value": "x"}], f"The Tag Key provided is invalid, Key: {'k' * 129}"),
    ([{"Key": "a|b", "Value": "x"}], "The Tag Key provided is invalid, Key: a|b"),
    ([{"Key": "k", "Value": "v" * 257}], f"The Tag Value provided is invalid, Value: {'v' * 257}"),
    ([{"Key": "aws:k", "Value": "x"}], "Tag Key cannot be prefixed with aws:, Key: aws:k"),
    (
        [{"Key": "k", "Value": "x"}, {"Key": "k", "Value": "y"}],
        "Duplicate Tag Keys provided as input: Duplicate Tag Key found k",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_wrong_tags_are_refused(engine: Engine, arn: str, given: list[dict[str, str]], message: str) -> None:
    refused = refusal(engine, "TagResource", {"ResourceArn": arn, "Tags": given})
    assert (type(refused), refused.message) == (ValidationException, message)
    assert tags(engine, arn) == {"env": "test"}


def test_a_resource_has_fifty_tags(engine: Engine, arn: str) -> None:
    tag(engine, arn, **{f"k{number}": "x" for number in range(49)})
    full = "Number of Tags exceed the current limit for the provided ResourceArn"
    request = {"ResourceArn": arn, "Tags": [{"Key": "more", "Value": "x"}]}
    assert refusal(engine, "TagResource", request).message == full
    tag(engine, arn, k0="y")
    assert len(tags(engine, arn)) == 50


OPERATIONS = [
    ("TagResource", {"Tags": [{"Key": "a", "Value": "b"}]}),
    ("UntagResource", {"TagKeys": ["a"]}),
    ("ListTagsOfResource", {}),
]


@pytest.mark.parametrize(("operation", "members"), OPERATIONS)
def test_what_is_no_arn_is_refused(engine: Engine, operation: str, members: dict[str, Any]) -> None:
    assert refusal(engine, operation, members).message == "Invalid TableArn"
    wrong = refusal(engine, operation, {"ResourceArn": "not-a-valid-arn", **members})
    assert isinstance(wrong, ValidationException)
    strange = refusal(engine, operation, {"ResourceArn": "a:b:c:d:e/f", **members})
    assert isinstance(strange, AccessDeniedException)
    assert strange.message.endswith(f"is not authorized to perform: dynamodb:{operation} on resource: a:b:c:d:e/f")


@pytest.mark.parametrize(("operation", "members"), OPERATIONS)
def test_only_tables_have_tags(engine: Engine, arn: str, operation: str, members: dict[str, Any]) -> None:
    index = refusal(engine, operation, {"ResourceArn": f"{arn}/index/x", **members})
    assert "only table or stream is accepted" in index.message
    short = arn.replace("jobs", "ab")
    assert refusal(engine, operation, {"ResourceArn": short, **members}).message == (
        f"Invalid TableArn: Invalid ResourceArn provided as input {short}"
    )


def test_each_operation_has_its_words_for_a_missing_table(engine: Engine) -> None:
    added = refusal(engine, "TagResource", {"ResourceArn": OTHER, "Tags": [{"Key": "a", "Value": "b"}]})
    assert isinstance(added, ResourceNotFoundException)
    assert added.message == f"Requested resource not found: ResourcArn: {OTHER} not found"
    removed = refusal(engine, "UntagResource", {"ResourceArn": OTHER, "TagKeys": ["a"]})
    assert removed.message == "Requested resource not found"
    listed = refusal(engine, "ListTagsOfResource", {"ResourceArn": OTHER})
    assert isinstance(listed, AccessDeniedException)


def test_members_that_are_missing_are_named_after_the_arn_was_looked_at(engine: Engine, arn: str) -> None:
    null = "1 validation error detected: Value null at '{}' failed to satisfy constraint: Member must not be null"
    assert refusal(engine, "TagResource", {"ResourceArn": arn}).message == null.format("tags")
    assert refusal(engine, "UntagResource", {"ResourceArn": arn}).message == null.format("tagKeys")


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ("TagResource", {"Tags": [{"Key": "a", "Value": "b"}]}),
        ("UntagResource", {"TagKeys": ["a"]}),
        ("ListTagsOfResource", {}),
    ],
)
def test_an_arn_has_a_greatest_length(engine: Engine, operation: str, members: dict[str, Any]) -> None:
    longest = refusal(engine, operation, {"ResourceArn": ":" * 1283, **members})
    assert isinstance(longest, AccessDeniedException)
    longer = ":" * 1284
    assert refusal(engine, operation, {"ResourceArn": longer, **members}).message == (
        f"1 validation error detected: Value '{longer}' at 'resourceArn' failed to satisfy constraint: "
        "Member must have length less than or equal to 1283"
    )
