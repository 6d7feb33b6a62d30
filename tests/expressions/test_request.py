"""The checks between the parameters of a request, in DynamoDB's order, and what comes of a request that is right."""

from __future__ import annotations

import pytest

from penstock.errors import ValidationException
from penstock.expressions import KeyTerm
from penstock.expressions.request import condition_of, in_java_order, projection_of, query_of, scan_of, update_of

FUNCTIONS = {
    "put": condition_of,
    "update": update_of,
    "get": projection_of,
    "query": query_of,
    "scan": scan_of,
}
EQ = {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "x"}]}
MIXED = "Can not use both expression and non-expression parameters in the same request: "


def refusal(call: str, **request: object) -> str:
    with pytest.raises(ValidationException) as refused:
        FUNCTIONS[call](request)
    return refused.value.message


@pytest.mark.parametrize(
    ("call", "legacy", "expressions"),
    [
        ("put", ["Expected"], ["ConditionExpression"]),
        ("put", ["Expected", "ConditionalOperator"], ["ConditionExpression"]),
        ("update", ["AttributeUpdates"], ["UpdateExpression"]),
        (
            "update",
            ["AttributeUpdates", "Expected", "ConditionalOperator"],
            ["UpdateExpression", "ConditionExpression"],
        ),
        ("get", ["AttributesToGet"], ["ProjectionExpression"]),
        (
            "query",
            ["AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"],
            ["ProjectionExpression", "FilterExpression", "KeyConditionExpression"],
        ),
        (
            "scan",
            ["AttributesToGet", "ScanFilter", "ConditionalOperator"],
            ["ProjectionExpression", "FilterExpression"],
        ),
    ],
)
def test_expressions_do_not_stand_beside_what_they_replaced(
    call: str, legacy: list[str], expressions: list[str]
) -> None:
    request = {key: {} for key in reversed(legacy)} | dict.fromkeys(reversed(expressions), "")
    request |= {"ExpressionAttributeNames": {}, "ExpressionAttributeValues": {}}
    assert refusal(call, **request) == (
        f"{MIXED}Non-expression parameters: {{{', '.join(legacy)}}} Expression parameters: {{{', '.join(expressions)}}}"
    )


def test_key_conditions_may_stand_beside_other_expressions() -> None:
    parts = query_of({"KeyConditions": {"pk": EQ}, "ProjectionExpression": "a"})
    assert parts.key_terms == (KeyTerm("pk", "=", ({"S": "x"},)),)
    assert parts.projected_attributes == ("a",)


@pytest.mark.parametrize("call", FUNCTIONS)
def test_names_need_an_expression(call: str) -> None:
    assert refusal(call, ExpressionAttributeNames={}, ExpressionAttributeValues={}) == (
        "ExpressionAttributeNames can only be specified when using expressions"
    )


@pytest.mark.parametrize(
    ("call", "which"),
    [
        ("put", ""),
        ("update", ""),
        ("query", ": FilterExpression and KeyConditionExpression are null"),
        ("scan", ": FilterExpression is null"),
    ],
)
def test_values_need_an_expression(call: str, which: str) -> None:
    assert refusal(call, ExpressionAttributeValues={}) == (
        f"ExpressionAttributeValues can only be specified when using expressions{which}"
    )


def test_a_projection_uses_no_values() -> None:
    request = {"ProjectionExpression": "a", "ExpressionAttributeValues": {":v": {"S": "x"}}}
    assert refusal("scan", **request).endswith("when using expressions: FilterExpression is null")


def test_a_transaction_may_give_names_that_nothing_uses() -> None:
    request = {"ExpressionAttributeNames": {"#n": "a"}, "ExpressionAttributeValues": {":v": {"N": "1"}}}
    assert condition_of(request, transaction=True) is None
    assert projection_of({"ExpressionAttributeNames": {"#n": "a"}}, transaction=True) is None


@pytest.mark.parametrize(
    ("call", "conditions"),
    [("put", "Expected"), ("update", "Expected"), ("query", "QueryFilter"), ("scan", "ScanFilter")],
)
def test_a_conditional_operator_joins_two_conditions(call: str, conditions: str) -> None:
    missing = "ConditionalOperator cannot be used without Filter or Expected"
    assert refusal(call, ConditionalOperator="AND") == missing
    assert refusal(call, ConditionalOperator="AND", **{conditions: {}}) == missing
    assert refusal(call, ConditionalOperator="AND", **{conditions: {"a": EQ}}) == (
        "ConditionalOperator can only be used when Filter or Expected has two or more elements"
    )


ORDER = [
    ({"ExpressionAttributeNames": {}}, "ExpressionAttributeNames must not be empty"),
    (
        {"ExpressionAttributeNames": {"a": "a"}},
        'ExpressionAttributeNames contains invalid key: Syntax error; key: "a"',
    ),
    (
        {"ExpressionAttributeNames": {"#": "a"}},
        'ExpressionAttributeNames contains invalid key: Syntax error; key: "#"',
    ),
    (
        {"ExpressionAttributeNames": {"#" + "a" * 255: "a"}},
        "ExpressionAttributeNames contains invalid key: "
        "The expression attribute map contains a key that is too long; size of key: 256",
    ),
    (
        {"ExpressionAttributeNames": {"#a": ""}},
        "ExpressionAttributeNames contains invalid value: Empty attribute name for key #a",
    ),
    ({"ExpressionAttributeValues": {}}, "ExpressionAttributeValues must not be empty"),
    (
        {"ExpressionAttributeValues": {":b": {"a": ""}, "b": {"S": "a"}}},
        'ExpressionAttributeValues contains invalid key: Syntax error; key: "b"',
    ),
    (
        {"ExpressionAttributeValues": {":b": {}}},
        "ExpressionAttributeValues contains invalid value: "
        "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes for key :b",
    ),
    (
        {"ExpressionAttributeValues": {":b": {"SS": []}}},
        "ExpressionAttributeValues contains invalid value: "
        "One or more parameter values were invalid: An string set  may not be empty for key :b",
    ),
    (
        {"ExpressionAttributeValues": {":b": {"N": "b"}}},
        "ExpressionAttributeValues contains invalid value: "
        "The parameter cannot be converted to a numeric value: b for key :b",
    ),
    (
        {"UpdateExpression": "", "ConditionExpression": ""},
        "Invalid UpdateExpression: The expression can not be empty;",
    ),
    (
        {"UpdateExpression": "SET a = :v"},
        "Invalid UpdateExpression: An expression attribute value used in expression is not defined; "
        "attribute value: :v",
    ),
    (
        {"UpdateExpression": "REMOVE a", "ConditionExpression": "((a = b))"},
        "Invalid ConditionExpression: The expression has redundant parentheses;",
    ),
    (
        {
            "UpdateExpression": "REMOVE a",
            "ConditionExpression": "a = :b",
            "ExpressionAttributeNames": {"#a": "a", "#b": "b"},
            "ExpressionAttributeValues": {":b": {"S": "x"}, ":c": {"S": "x"}},
        },
        "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b}",
    ),
    (
        {
            "UpdateExpression": "REMOVE a",
            "ConditionExpression": "a = :b",
            "ExpressionAttributeValues": {":b": {"S": "x"}, ":c": {"S": "x"}},
        },
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:c}",
    ),
]


@pytest.mark.parametrize(("request_", "message"), ORDER)
def test_what_is_checked_of_an_update(request_: dict, message: str) -> None:
    assert refusal("update", **({"UpdateExpression": "", "ConditionExpression": ""} | request_)) == message


def test_unused_names_are_listed_as_java_hashes_them() -> None:
    assert in_java_order(["#b", "#a"], 2) == ["#a", "#b"]
    assert in_java_order(["BB", "Aa"], 2) == ["BB", "Aa"], "their hashes are one and the same"
    assert in_java_order([":p", ":a"], 2) == [":p", ":a"], "58 * 31 + 112 falls before 58 * 31 + 97, modulo 16"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {},
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.",
        ),
        (
            {"KeyConditionExpression": "", "FilterExpression": "", "ProjectionExpression": ""},
            "Invalid KeyConditionExpression: The expression can not be empty;",
        ),
        (
            {"KeyConditionExpression": "attribute_exists(a)", "FilterExpression": "", "ProjectionExpression": ""},
            "Invalid FilterExpression: The expression can not be empty;",
        ),
        (
            {"KeyConditionExpression": "attribute_exists(a)", "ProjectionExpression": ""},
            "Invalid ProjectionExpression: The expression can not be empty;",
        ),
        (
            {"KeyConditionExpression": "attribute_exists(a)"},
            "Invalid operator used in KeyConditionExpression: attribute_exists",
        ),
        (
            {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": ""}, ":q": {"S": ""}}},
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:q}",
        ),
        (
            {
                "KeyConditionExpression": "pk = :p",
                "FilterExpression": "#missing = :p",
                "ExpressionAttributeValues": {":p": {"S": ""}},
            },
            "Invalid FilterExpression: An expression attribute name used in the document path is not defined; "
            "attribute name: #missing",
        ),
        ({"KeyConditions": {}}, "Conditions can be of length 1 or 2 only"),
        (
            {"KeyConditions": {"a": {"ComparisonOperator": "EQ"}}},
            "One or more parameter values were invalid: Invalid number of argument(s) for the EQ ComparisonOperator",
        ),
        (
            {"AttributesToGet": ["a", "b", "a"], "KeyConditions": {}},
            "One or more parameter values were invalid: Duplicate value in attribute name: a",
        ),
    ],
)
def test_what_is_checked_of_a_query(request_: dict, message: str) -> None:
    assert refusal("query", **request_) == message


def test_an_index_may_have_more_key_attributes_than_a_table() -> None:
    text = "a = :a AND b = :a AND c > :a"
    parts = query_of(
        {
            "IndexName": "i",
            "KeyConditionExpression": text,
            "ExpressionAttributeValues": {":a": {"S": "x"}},
        }
    )
    assert [term.attribute for term in parts.key_terms] == ["a", "b", "c"]


def test_a_query_gives_its_parts() -> None:
    parts = query_of(
        {
            "KeyConditionExpression": "#p = :p AND sk > :n",
            "FilterExpression": "#f.x = :p",
            "ProjectionExpression": "b.c, d",
            "ExpressionAttributeNames": {"#p": "pk", "#f": "f"},
            "ExpressionAttributeValues": {":p": {"S": "x"}, ":n": {"N": "007.0"}},
        }
    )
    assert parts.key_terms == (KeyTerm("pk", "=", ({"S": "x"},)), KeyTerm("sk", ">", ({"N": "7"},)))
    assert parts.filter is not None
    assert parts.filter({"f": {"M": {"x": {"S": "x"}}}})
    assert (parts.filter_attributes, parts.filter_nested) == (("f",), {"f"})
    assert parts.projector is not None
    assert parts.projector({"d": {"N": "1"}, "e": {"N": "2"}}) == {"d": {"N": "1"}}
    assert (parts.projected_attributes, parts.projected_nested) == (("b", "d"), {"b"})


def test_requests_without_expressions_ask_for_everything() -> None:
    assert condition_of({"Item": {}}) is None
    assert update_of({"Key": {}}) == (None, None)
    assert projection_of({"Key": {}, "ProjectionExpression": None}) is None
    assert scan_of({"TableName": "t"}) == ((), None, None, (), (), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        ("put", {"Expected": {}, "ConditionExpression": ""}, {"ConditionExpression": ""}),
        ("put", {"ConditionalOperator": "OR"}, {"Expected": {"a": {}}}),
        ("update", {"AttributeUpdates": {}, "UpdateExpression": ""}, {"AttributeUpdates": {"a": {}}}),
        ("get", {"AttributesToGet": ["a"], "ProjectionExpression": ""}, {"AttributesToGet": ["a", "a"]}),
        ("query", {"QueryFilter": {"a": {"ComparisonOperator": "EQ"}}}, {}),
        ("scan", {"ScanFilter": {"a": {"ComparisonOperator": "EQ"}}}, {"FilterExpression": ""}),
    ],
)
def test_other_checks_are_made_in_between(call: str, before: dict, after: dict) -> None:
    class Between(Exception):
        pass

    def check() -> None:
        raise Between

    with pytest.raises(ValidationException):
        FUNCTIONS[call](before, check)
    with pytest.raises(Between):
        FUNCTIONS[call](after, check)


MB = 1024 * 1024


@pytest.mark.parametrize(
    ("names", "values", "message"),
    [
        ({"#a": "a" * 65536}, {":v": {"S": "x"}}, "contains invalid value: Attribute name is too large"),
        ({"#a": "a"}, {":v": {"S": "x" * 2 * MB}}, "ExpressionAttributeValues exceeds max size"),
        (
            {f"#{n}": "a" * 65000 for n in range(33)},
            {":v": {"S": "x"}},
            "ExpressionAttributeNames exceeds max size",
        ),
        (
            {f"#{n}": "a" * 65000 for n in range(17)},
            {":v": {"S": "x" * MB}},
            "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size",
        ),
    ],
)
def test_placeholders_stand_for_2_mb_at_most(names: dict, values: dict, message: str) -> None:
    request = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
    assert message in refusal("put", ConditionExpression="#a = :v", **request)
