"""Which answers wear the envelope, and in which layer's words values are refused (docs/decisions/0004-wording.md)."""

from __future__ import annotations

from typing import Any

import pytest
from golden import ENVELOPE, INVALID, make_tables, n, s

from penstock.engine import Engine
from penstock.errors import DynamoDBError

Request = dict[str, Any]

NOT_A_NUMBER = "The parameter cannot be converted to a numeric value"
TOO_LARGE = "Number overflow. Attempting to store a number with magnitude larger than supported range"
TOO_SMALL = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
)
RETURN_VALUES = (
    "Failed to satisfy constraint: Member must satisfy enum value set: "
    "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
)
OPERATOR = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"

KEY = {"TableName": "plain", "Key": {"pk": s("k")}}
ITEM = {"TableName": "plain", "Item": {"pk": s("k")}}
WRITES = [("PutItem", ITEM), ("DeleteItem", KEY), ("UpdateItem", KEY)]


@pytest.fixture(scope="module")
def tables() -> Engine:
    return make_tables(Engine())


def message(engine: Engine, operation: str, request: Request) -> str:
    with pytest.raises(DynamoDBError) as caught:
        engine.execute(operation, request)
    assert caught.value.code == "ValidationException"
    return caught.value.message


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = s("leaf")
    for _ in range(levels):
        value = {"M": {"n": value}}
    return value


def action(kind: str, **members: Any) -> Request:
    return {"TransactItems": [{kind: {"TableName": "plain", **members}}]}


# ── values, by the layer that reads them ─────────────────────────────────────────────────────────

BAD_VALUES = [  # (value, older, current)
    (n(""), NOT_A_NUMBER, f"{NOT_A_NUMBER}: "),
    (n("x1"), f"{NOT_A_NUMBER}: x1", f"{NOT_A_NUMBER}: x1"),
    (n("1e200"), TOO_LARGE, TOO_LARGE),
    (n("1e2147483647"), TOO_SMALL, TOO_LARGE),
    (n("1e3000000000"), f"{NOT_A_NUMBER}: 1e3000000000", TOO_LARGE),
    (
        {"SS": ["z", "y", "z", "x"]},
        f"{INVALID}Input collection [z, y, z, x] contains duplicates.",
        f'{INVALID}Input collection ["y", "z", "z", "x"] contains duplicates.',
    ),
    ({"NS": ["1", "1.0"]}, "Input collection contains duplicates", f"{INVALID}Input collection contains duplicates."),
    (deep(32), TOO_DEEP, TOO_DEEP),
    ({"M": {"": s("x")}}, "Empty attribute name", "Empty attribute name"),
]
OF_VALUE = pytest.mark.parametrize(("value", "older", "current"), BAD_VALUES, ids=lambda one: str(one)[:20])


@OF_VALUE
def test_single_item_writes_refuse_a_value_in_the_envelope_wherever_it_is(
    tables: Engine, value: dict[str, Any], older: str, current: str
) -> None:
    condition = {"ConditionExpression": "v = :v", "ExpressionAttributeValues": {":v": value}}
    update = {"UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": value}}
    for operation, request in (
        ("PutItem", {"TableName": "plain", "Item": {"pk": s("k"), "v": value}}),
        ("PutItem", {"TableName": "plain", "Item": {"pk": s("k"), "v": {"M": {"in": {"L": [n(1), value]}}}}}),
        ("PutItem", ITEM | condition),
        ("PutItem", ITEM | {"Expected": {"v": {"Value": value}}}),
        ("UpdateItem", KEY | update),
        ("UpdateItem", KEY | {"AttributeUpdates": {"v": {"Action": "PUT", "Value": value}}}),
        ("UpdateItem", {"TableName": "plain", "Key": {"pk": value}}),
        ("DeleteItem", KEY | condition),
        ("DeleteItem", {"TableName": "plain", "Key": {"pk": value}}),
    ):
        assert message(tables, operation, request) == ENVELOPE + current, (operation, request)


@OF_VALUE
def test_reads_by_key_refuse_a_value_in_the_same_words_and_bare(
    tables: Engine, value: dict[str, Any], older: str, current: str
) -> None:
    query = {"TableName": "plain", "KeyConditionExpression": "pk = :p"}
    values = {":p": s("p"), ":v": value}
    for operation, request in (
        ("GetItem", {"TableName": "plain", "Key": {"pk": value}}),
        ("BatchGetItem", {"RequestItems": {"plain": {"Keys": [{"pk": value}]}}}),
        ("Query", query | {"ExpressionAttributeValues": {":p": value}}),
        ("Query", query | {"FilterExpression": "v = :v", "ExpressionAttributeValues": values}),
    ):
        assert message(tables, operation, request) == current, (operation, request)


@OF_VALUE
def test_batches_of_writes_and_transactions_refuse_a_value_in_the_older_words(
    tables: Engine, value: dict[str, Any], older: str, current: str
) -> None:
    item = {"pk": s("k"), "v": value}
    for operation, request in (
        ("BatchWriteItem", {"RequestItems": {"plain": [{"PutRequest": {"Item": item}}]}}),
        ("BatchWriteItem", {"RequestItems": {"plain": [{"DeleteRequest": {"Key": {"pk": value}}}]}}),
        ("TransactWriteItems", action("Put", Item=item)),
        ("TransactWriteItems", action("Delete", Key={"pk": value})),
        ("TransactGetItems", {"TransactItems": [{"Get": {"TableName": "plain", "Key": {"pk": value}}}]}),
    ):
        assert message(tables, operation, request) == older, (operation, request)


@OF_VALUE
def test_the_older_layer_names_the_placeholder(tables: Engine, value: dict[str, Any], older: str, current: str) -> None:
    values = {"ExpressionAttributeValues": {":v": value}}
    wrapped = f"ExpressionAttributeValues contains invalid value: {older} for key :v"
    scan = {"TableName": "plain", "FilterExpression": "v = :v", **values}
    update = action("Update", Key={"pk": s("k")}, UpdateExpression="SET v = :v", **values)
    assert message(tables, "Scan", scan) == wrapped
    assert message(tables, "TransactWriteItems", update) == wrapped


# ── the envelope ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("operation", "request_"), WRITES)
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            {"ExpressionAttributeValues": {":v": s("x")}},
            "ExpressionAttributeValues can only be specified when using expressions",
        ),
        (
            {"ExpressionAttributeNames": {"#v": "x"}},
            "ExpressionAttributeNames can only be specified when using expressions",
        ),
        ({"ConditionExpression": ""}, "Invalid ConditionExpression: The expression can not be empty;"),
        (
            {"ConditionExpression": "a = :gone", "ExpressionAttributeValues": {":v": s("x")}},
            "Invalid ConditionExpression: An expression attribute value used in expression is not defined; "
            "attribute value: :gone",
        ),
        ({"ConditionExpression": "size(a)"}, None),
        (
            {"ConditionExpression": "attribute_exists(a)", "ExpressionAttributeNames": {}},
            "ExpressionAttributeNames must not be empty",
        ),
        (
            {"Expected": {"a": {"Exists": True}}},
            f"{INVALID}Value must be provided when Exists is true for Attribute: a",
        ),
        ({"Expected": {"": {"Exists": False}}}, "Empty attribute name"),
        ({"ConditionalOperator": "AND"}, "ConditionalOperator cannot be used without Filter or Expected"),
        ({"ReturnValues": "SOME"}, RETURN_VALUES),
        ({"Expected": {"a": {"Exists": False}, "b": {"Exists": False}}, "ConditionalOperator": "XOR"}, OPERATOR),
    ],
)
def test_what_a_single_item_write_shows_to_be_wrong_is_in_the_envelope(
    tables: Engine, operation: str, request_: Request, parameters: Request, expected: str | None
) -> None:
    received = message(tables, operation, request_ | parameters)
    assert received.startswith(ENVELOPE)
    assert expected is None or received == ENVELOPE + expected


@pytest.mark.parametrize("operation", ["PutItem", "DeleteItem"])
def test_a_word_of_return_values_that_only_updates_know_is_in_the_envelope(tables: Engine, operation: str) -> None:
    request = dict(WRITES)[operation] | {"ReturnValues": "UPDATED_NEW"}
    assert message(tables, operation, request) == ENVELOPE + "ReturnValues can only be ALL_OLD or NONE"


@pytest.mark.parametrize(
    ("operation", "request_", "expected"),
    [
        ("PutItem", ITEM | {"Item": {"pk": s("k"), "v": {"SS": []}}}, f"{INVALID}An string set  may not be empty"),
        (
            "PutItem",
            ITEM | {"Item": {"pk": s("k"), "v": {"NULL": False}}},
            f"{INVALID}Null attribute value types must have the value of true",
        ),
        ("UpdateItem", KEY | {"UpdateExpression": ""}, "Invalid UpdateExpression: The expression can not be empty;"),
        (
            "DeleteItem",
            KEY | {"ConditionExpression": "attribute_exists(a)", "ExpressionAttributeNames": {"#u": "u"}},
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#u}",
        ),
        (
            "PutItem",
            ITEM | {"ConditionExpression": "attribute_exists(a)", "Expected": {"a": {"Exists": False}}},
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}",
        ),
    ],
)
def test_texts_about_which_regions_differ_stay_bare(
    tables: Engine, operation: str, request_: Request, expected: str
) -> None:
    assert message(tables, operation, request_) == expected


@pytest.mark.parametrize(
    ("operation", "request_", "expected"),
    [
        ("PutItem", {"TableName": "plain", "Item": {"a": s("x")}}, f"{INVALID}Missing the key pk in the item"),
        ("DeleteItem", {"TableName": "plain", "Key": {}}, "The provided key element does not match the schema"),
        (
            "UpdateItem",
            KEY | {"UpdateExpression": "REMOVE pk"},
            f"{INVALID}Cannot update attribute pk. This attribute is part of the key",
        ),
    ],
)
def test_what_only_the_table_can_show_is_never_in_an_envelope(
    tables: Engine, operation: str, request_: Request, expected: str
) -> None:
    assert message(tables, operation, request_) == expected


# ── which layer reads a request ──────────────────────────────────────────────────────────────────


def older_return_values(value: str) -> str:
    return (
        f"Value '{value}' at 'returnValues' failed to satisfy constraint: "
        "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"
    )


def test_beside_a_missing_key_every_fault_is_listed_with_its_value(tables: Engine) -> None:
    assert message(tables, "UpdateItem", {"TableName": "", "ReturnValues": "SOME", "ConditionalOperator": "XOR"}) == (
        "4 validation errors detected: "
        "Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1; "
        f"{older_return_values('SOME')}; "
        "Value 'XOR' at 'conditionalOperator' failed to satisfy constraint: Member must satisfy enum value set: "
        "[OR, AND]; "
        "Value null at 'key' failed to satisfy constraint: Member must not be null"
    )


@pytest.mark.parametrize(("levels", "expected"), [(62, RETURN_VALUES), (63, older_return_values("SOME"))])
def test_past_62_levels_a_single_item_request_is_read_by_the_older_layer(
    tables: Engine, levels: int, expected: str
) -> None:
    request = KEY | {"Expected": {"d": {"Value": deep(levels)}}, "ReturnValues": "SOME"}
    assert message(tables, "DeleteItem", request) == ENVELOPE + expected


def test_past_62_levels_there_is_no_envelope_and_return_values_come_first(tables: Engine) -> None:
    request = KEY | {"Expected": {"d": {"Value": deep(100)}}, "ReturnValues": "ALL_NEW"}
    assert message(tables, "DeleteItem", request) == "ReturnValues can only be ALL_OLD or NONE"


def test_a_query_looks_at_its_conditional_operator_before_select(tables: Engine) -> None:
    nothing = {"ComparisonOperator": "NULL"}
    request = {
        "TableName": "plain",
        "KeyConditions": {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [s("a")]}},
        "QueryFilter": {"x": nothing, "y": nothing},
        "ConditionalOperator": "XOR",
        "Select": "SOME",
    }
    assert message(tables, "Query", request) == OPERATOR


def test_a_batch_tells_wrong_words_before_wrong_table_names(tables: Engine) -> None:
    request = {"RequestItems": {"no!": [{"PutRequest": {"Item": {"pk": s("k")}}}]}}
    assert "Map keys must satisfy constraint" in message(tables, "BatchWriteItem", request)
    assert message(tables, "BatchWriteItem", request | {"ReturnConsumedCapacity": "SOME"}) == (
        "1 validation error detected: Value 'SOME' at 'returnConsumedCapacity' failed to satisfy constraint: "
        "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
    )


def test_a_batch_is_written_with_expressions_or_without(tables: Engine) -> None:
    request = {
        "plain": {"Keys": [{"pk": s("a")}], "ProjectionExpression": "pk"},
        "full": {"Keys": [{"pk": s("p"), "sk": n(1)}], "AttributesToGet": ["pk"]},
    }
    assert message(tables, "BatchGetItem", {"RequestItems": request}).startswith("Can not use both expression and")


# ── the order of checks ──────────────────────────────────────────────────────────────────────────

WRONG = {"ConditionExpression": "a = = b"}
SYNTAX = 'Invalid ConditionExpression: Syntax error; token: "=", near: "= = b"'


def test_a_transaction_is_checked_action_by_action(tables: Engine) -> None:
    nested = {"Delete": {"TableName": "absent", "Key": {"pk": deep(40)}}}
    wrong = {"Put": {"TableName": "absent", "Item": {"pk": s("k")}, **WRONG}}
    nameless = {"Put": {"TableName": "absent", "Item": {"pk": s("k"), "": s("x")}}}
    for first, second, expected in (
        (nested, wrong, TOO_DEEP),
        (wrong, nested, SYNTAX),
        (nameless, nested, "Empty attribute name"),
        (nested, nameless, TOO_DEEP),
    ):
        assert message(tables, "TransactWriteItems", {"TransactItems": [first, second]}) == expected


@pytest.mark.parametrize("kind", ["Delete", "ConditionCheck", "Update"])
def test_within_an_action_the_text_of_an_expression_comes_before_the_key(tables: Engine, kind: str) -> None:
    update = {"UpdateExpression": "REMOVE x"} if kind == "Update" else {}
    assert message(tables, "TransactWriteItems", action(kind, Key={"pk": deep(40)}, **WRONG, **update)) == SYNTAX


def test_more_key_conditions_than_the_key_has_attributes_are_counted(tables: Engine) -> None:
    values = {":p": s("p"), ":n": n(1)}
    request = {"TableName": "full", "ExpressionAttributeValues": values}
    assert message(tables, "Query", request | {"KeyConditionExpression": "pk = :p AND sk > :n AND x = :n"}) == (
        "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)"
    )
    assert message(tables, "Query", request | {"KeyConditionExpression": "pk = :p AND sk > :n AND sk < :n"}) == (
        "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"
    )


def test_a_scan_looks_at_its_starting_position_before_what_select_asks_of_an_index(tables: Engine) -> None:
    request = {"TableName": "full", "IndexName": "by_ab", "Select": "ALL_ATTRIBUTES"}
    assert "projection type is not ALL" in message(tables, "Scan", request)
    start = {"ExclusiveStartKey": {"a": s("A")}}
    assert message(tables, "Scan", request | start) == "The provided starting key is invalid"


# ── updates of index keys ────────────────────────────────────────────────────────────────────────


def update_full(engine: Engine, expression: str, **values: Any) -> str:
    request: Request = {"TableName": "full", "Key": {"pk": s("p"), "sk": n(1)}, "UpdateExpression": expression}
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    return message(engine, "UpdateItem", request)


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("SET a = :n", "N"), ("SET c = :n, x.y = :n", "N"), ("ADD a :n", "N"), ("SET a = b + :n", "N")],
)
def test_a_type_that_the_text_shows_is_told_with_the_index(tables: Engine, expression: str, kind: str) -> None:
    received = update_full(tables, expression, n=n(1))
    assert received.startswith(f"{INVALID}Type mismatch for Index Key ")
    assert f"Expected: S Actual: {kind} IndexName: " in received


def test_a_type_that_only_the_item_shows_is_not(tables: Engine) -> None:
    assert update_full(tables, "SET a = b") == (
        "The update expression attempted to update the secondary index key to unsupported type"
    )


@pytest.mark.parametrize("expression", ["SET x = a.part", "SET x = list_append(y, a[0])", "REMOVE a.part"])
def test_no_index_key_is_looked_into_to_read_or_to_write(tables: Engine, expression: str) -> None:
    assert update_full(tables, expression).endswith("are not allowed: IndexKey: a")
