"""GetItem, PutItem, UpdateItem and DeleteItem: what DynamoDB answers, and in which words it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from golden import INVALID, make_tables, n, refusal, s

from penstock.engine import Engine

KEY = {"pk": s("a")}
MISSING = {"pk": s("missing")}


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


def update(tables: Engine, expression: str, key: dict[str, Any] = KEY, returns: str = "NONE", **values: Any) -> Any:
    """The Attributes of an UpdateItem's answer."""
    request: dict[str, Any] = {"TableName": "plain", "Key": key, "UpdateExpression": expression}
    request |= {"ReturnValues": returns, "ExpressionAttributeNames": {"#n": "number", "#l": "list", "#m": "map"}}
    request["ExpressionAttributeNames"] = {
        name: meant for name, meant in request["ExpressionAttributeNames"].items() if name in expression
    }
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    if not request["ExpressionAttributeNames"]:
        del request["ExpressionAttributeNames"]
    return tables.execute("UpdateItem", request).get("Attributes")


def get(tables: Engine, key: dict[str, Any] = KEY, **members: Any) -> Any:
    return tables.execute("GetItem", {"TableName": "plain", "Key": key, **members}).get("Item")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_item_is_an_empty_answer(tables: Engine) -> None:
    assert tables.execute("GetItem", {"TableName": "plain", "Key": MISSING}) == {}


@pytest.mark.parametrize(
    ("projection", "expected"),
    [
        ("pk", {"pk": s("a")}),
        ("nothing", {}),
        ("#l[1]", {"list": {"L": [s("two")]}}),
        ("#l[2], #l[0]", {"list": {"L": [n(1), n(3)]}}),
        ("#l[9]", {}),
        ("#m.side", {"map": {"M": {"side": s("s")}}}),
        ("#m.#in.deep", {"map": {"M": {"in": {"M": {"deep": n(1)}}}}}),
        ("#m.absent", {}),
        ("pk.inside", {}),
    ],
)
def test_a_projection_keeps_the_shape_of_what_it_picks(tables: Engine, projection: str, expected: Any) -> None:
    names = {"#l": "list", "#m": "map", "#in": "in"}
    used = {name: meant for name, meant in names.items() if name in projection}
    members: dict[str, Any] = {"ProjectionExpression": projection}
    if used:
        members["ExpressionAttributeNames"] = used
    if projection == "pk.inside":
        assert refusal(tables, "GetItem", {"TableName": "plain", "Key": KEY, **members})[0] == "ValidationException"
    else:
        assert get(tables, **members) == expected


def test_a_number_key_is_the_same_however_it_is_written(tables: Engine) -> None:
    tables.execute("PutItem", {"TableName": "full", "Item": {"pk": s("n"), "sk": n("1.50")}})
    for text in ("1.5", "+1.5", "01.500", "15e-1", "0.15E1"):
        found = tables.execute("GetItem", {"TableName": "full", "Key": {"pk": s("n"), "sk": n(text)}})
        assert found["Item"]["sk"] == n("1.5")


# ── putting and deleting ─────────────────────────────────────────────────────────────────────────


def test_a_put_replaces_the_whole_item_and_can_show_the_old_one(tables: Engine) -> None:
    old = get(tables)
    request = {"TableName": "plain", "Item": {**KEY, "new": n(1)}, "ReturnValues": "ALL_OLD"}
    assert tables.execute("PutItem", request) == {"Attributes": old}
    assert get(tables) == {**KEY, "new": n(1)}


def test_a_delete_can_show_what_it_deleted(tables: Engine) -> None:
    old = get(tables)
    request = {"TableName": "plain", "Key": KEY, "ReturnValues": "ALL_OLD"}
    assert tables.execute("DeleteItem", request) == {"Attributes": old}
    assert tables.execute("DeleteItem", request) == {}


@pytest.mark.parametrize(
    "value",
    [
        {"S": ""},
        {"B": ""},
        {"M": {}},
        {"L": []},
        {"NULL": True},
        {"BOOL": False},
        {"N": "-9.9999999999999999999999999999999999999E+125"},
        {"BS": ["AA==", "AQ=="]},
        {"L": [{"L": [{"M": {"a": {"S": "deep"}}}]}]},
    ],
    ids=str,
)
def test_every_type_comes_back_as_it_went(tables: Engine, value: dict[str, Any]) -> None:
    tables.execute("PutItem", {"TableName": "plain", "Item": {**KEY, "v": value}})
    found = get(tables)["v"]
    if value.get("N", "").startswith("-9.9"):
        assert found == {"N": "-99999999999999999999999999999999999999" + "0" * 88}
    else:
        assert found == value


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, f"{INVALID}Missing the key pk in the item"),
        ({"pk": n(1)}, f"{INVALID}Type mismatch for key pk expected: S actual: N"),
        (
            {"pk": s("")},
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an "
            "empty string value. Key: pk",
        ),
        ({"pk": s("x"), "v": {"SS": []}}, f"{INVALID}An string set  may not be empty"),
        ({"pk": s("x"), "v": {"NS": []}}, f"{INVALID}An number set  may not be empty"),
        ({"pk": s("x"), "v": {"BS": []}}, f"{INVALID}Binary sets should not be empty"),
        ({"pk": s("x"), "v": {"SS": ["a", "a"]}}, f'{INVALID}Input collection ["a", "a"] contains duplicates.'),
        ({"pk": s("x"), "v": {"NS": ["1", "1.0"]}}, f"{INVALID}Input collection contains duplicates."),
        ({"pk": s("x"), "v": {"NULL": False}}, f"{INVALID}Null attribute value types must have the value of true"),
        ({"pk": s("x"), "v": n("abc")}, "The parameter cannot be converted to a numeric value: abc"),
        ({"pk": s("x"), "v": n("")}, "The parameter cannot be converted to a numeric value: "),
        ({"pk": s("x"), "v": n("1" * 39)}, "Attempting to store more than 38 significant digits in a Number"),
        (
            {"pk": s("x"), "v": n("1e126")},
            "Number overflow. Attempting to store a number with magnitude larger than supported range",
        ),
        (
            {"pk": s("x"), "v": n("1e-131")},
            "Number underflow. Attempting to store a number with magnitude smaller than supported range",
        ),
        (
            {"pk": s("x"), "v": {"S": "a", "N": "1"}},
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported "
            "datatypes",
        ),
        (
            {"pk": s("x"), "v": {}},
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
        ),
        (
            {"pk": s("x" * 2049)},
            f"{INVALID}Size of hashkey has exceeded the maximum size limit of2048 bytes",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_item_that_cannot_be_is_refused(tables: Engine, item: dict[str, Any], message: str) -> None:
    assert refusal(tables, "PutItem", {"TableName": "plain", "Item": item}) == ("ValidationException", message)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"a": n(1)}, f"{INVALID}Type mismatch for Index Key a Expected: S Actual: N IndexName: "),
        ({"b": {"BOOL": True}}, f"{INVALID}Type mismatch for Index Key b Expected: N Actual: BOOL IndexName: "),
        ({"a": s("")}, "cannot contain an empty string value. IndexName: "),
    ],
)
def test_an_item_that_an_index_cannot_hold_is_refused(tables: Engine, attributes: Any, message: str) -> None:
    request = {"TableName": "full", "Item": {"pk": s("x"), "sk": n(1), **attributes}}
    code, text = refusal(tables, "PutItem", request)
    assert code == "ValidationException" and message in text


@pytest.mark.parametrize(
    "key", [{}, {"sk": n(1)}, {"pk": n(1)}, {"pk": s("a"), "extra": s("b")}, {"PK": s("a")}], ids=str
)
@pytest.mark.parametrize("operation", ["GetItem", "DeleteItem", "UpdateItem"])
def test_a_key_of_another_shape_is_refused(tables: Engine, operation: str, key: dict[str, Any]) -> None:
    expected = ("ValidationException", "The provided key element does not match the schema")
    assert refusal(tables, operation, {"TableName": "plain", "Key": key}) == expected


@pytest.mark.parametrize(
    ("operation", "member"), [("GetItem", "Key"), ("PutItem", "Item"), ("UpdateItem", "Key"), ("DeleteItem", "Key")]
)
def test_a_missing_table_is_not_found(tables: Engine, operation: str, member: str) -> None:
    expected = ("ResourceNotFoundException", "Requested resource not found")
    assert refusal(tables, operation, {"TableName": "missing", member: KEY}) == expected


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        ("attribute_exists(pk)", {}, True),
        ("attribute_not_exists(pk)", {}, False),
        ("attribute_exists(pk) AND attribute_not_exists(nothing)", {}, True),
        ("words = :v", {":v": s("hello")}, True),
        ("words = :v", {":v": n(1)}, False),
        ("nothing = :v", {":v": s("hello")}, False),
        ("nothing <> :v", {":v": s("hello")}, True),
        ("#n > :v", {":v": n("4.99")}, True),
        ("#n > :v", {":v": s("4")}, False),
        ("#n BETWEEN :v AND :w", {":v": n(5), ":w": n(5)}, True),
        ("#n IN (:v, :w)", {":v": s("5"), ":w": n("5.0")}, True),
        ("begins_with(words, :v)", {":v": s("hel")}, True),
        ("contains(words, :v)", {":v": s("ell")}, True),
        ("contains(#s, :v)", {":v": s("x")}, True),
        ("contains(#s, :v)", {":v": s("hello")}, False),
        ("contains(numbers, :v)", {":v": n("2.0")}, True),
        ("contains(#l, :v)", {":v": s("two")}, True),
        ("size(words) = :v", {":v": n(5)}, True),
        ("size(#l) = :v AND size(#s) = :w", {":v": n(3), ":w": n(2)}, True),
        ("size(#n) > :v", {":v": n(0)}, False),
        ("attribute_type(#l, :v)", {":v": s("L")}, True),
        ("#s = :v", {":v": {"SS": ["y", "x"]}}, True),
        ("#l[1] = :v", {":v": s("two")}, True),
        ("#m.side = :v", {":v": s("s")}, True),
        ("NOT words = :v OR words = :v", {":v": s("hello")}, True),
        ("NOT (words = :v OR #n = :w) OR attribute_exists(pk)", {":v": s("hello"), ":w": n(1)}, True),
    ],
    ids=str,
)
def test_a_condition_lets_a_write_through_or_not(tables: Engine, condition: str, values: Any, holds: bool) -> None:
    names = {"#n": "number", "#l": "list", "#m": "map", "#s": "set"}
    request: dict[str, Any] = {"TableName": "plain", "Key": KEY, "ConditionExpression": condition}
    if used := {name: meant for name, meant in names.items() if name in condition}:
        request["ExpressionAttributeNames"] = used
    if values:
        request["ExpressionAttributeValues"] = values
    if holds:
        tables.execute("DeleteItem", request)
        assert get(tables) is None
    else:
        expected = ("ConditionalCheckFailedException", "The conditional request failed")
        assert refusal(tables, "DeleteItem", request) == expected


def test_a_failed_condition_shows_the_item_where_it_is_asked_to(tables: Engine) -> None:
    request = {
        "TableName": "plain",
        "Item": {**KEY, "new": n(1)},
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    with pytest.raises(Exception, match="The conditional request failed") as caught:
        tables.execute("PutItem", request)
    assert caught.value.fields == {"Item": get(tables)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"ConditionExpression": ""},
            "Invalid ConditionExpression: The expression can not be empty;",
        ),
        (
            {"ConditionExpression": "a = :v"},
            "Invalid ConditionExpression: An expression attribute value used in expression is not defined; "
            "attribute value: :v",
        ),
        (
            {"ConditionExpression": "#a = :v", "ExpressionAttributeValues": {":v": n(1)}},
            "Invalid ConditionExpression: An expression attribute name used in the document path is not defined; "
            "attribute name: #a",
        ),
        (
            {"ConditionExpression": "attribute_exists(a)", "ExpressionAttributeValues": {":v": n(1)}},
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}",
        ),
        (
            {"ConditionExpression": "attribute_exists(a)", "ExpressionAttributeNames": {"#v": "x"}},
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#v}",
        ),
        (
            {"ConditionExpression": "attribute_exists(name)"},
            "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: name",
        ),
        (
            {"ConditionExpression": "attribute_exists(pk)", "Expected": {"pk": {"Exists": False}}},
            "Can not use both expression and non-expression parameters in the same request: Non-expression "
            "parameters: {Expected} Expression parameters: {ConditionExpression}",
        ),
        (
            {"ExpressionAttributeValues": {":v": n(1)}},
            "ExpressionAttributeValues can only be specified when using expressions",
        ),
        (
            {"ConditionExpression": "a =", "ExpressionAttributeValues": {":v": n(1)}},
            'Invalid ConditionExpression: Syntax error; token: "<EOF>", near: "="',
        ),
        ({"ReturnValues": "ALL_NEW"}, "ReturnValues can only be ALL_OLD or NONE"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_a_wrong_condition_is_refused_in_dynamodbs_words(tables: Engine, members: Any, message: str) -> None:
    request = {"TableName": "plain", "Item": KEY, **members}
    assert refusal(tables, "PutItem", request) == ("ValidationException", message)


# ── updating ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("SET #n = #n + :v", {"v": n("0.5")}, {"number": n("5.5")}),
        ("SET #n = :v - #n", {"v": n(1)}, {"number": n(-4)}),
        ("SET fresh = if_not_exists(fresh, :v)", {"v": n(1)}, {"fresh": n(1)}),
        ("SET #n = if_not_exists(#n, :v)", {"v": n(1)}, {"number": n(5)}),
        ("SET #l = list_append(:v, #l)", {"v": {"L": [n(0)]}}, {"list": {"L": [n(0), n(1), s("two"), n(3)]}}),
        ("SET #l[1] = :v", {"v": n(9)}, {"list": {"L": [n(9)]}}),
        ("SET #l[50] = :v", {"v": n(9)}, None),
        ("SET #m.side = :v", {"v": n(9)}, {"map": {"M": {"side": n(9)}}}),
        ("ADD #n :v", {"v": n(-6)}, {"number": n(-1)}),
        ("ADD fresh :v", {"v": n(7)}, {"fresh": n(7)}),
        ("SET duplicate = words, words = :v", {"v": s("new")}, {"duplicate": s("hello"), "words": s("new")}),
        ("REMOVE words", {}, None),
        ("REMOVE nothing", {}, None),
    ],
)
def test_an_update_shows_what_it_wrote(tables: Engine, expression: str, values: Any, expected: Any) -> None:
    shown = update(tables, expression, returns="UPDATED_NEW", **values)
    if "[50]" in expression:
        assert get(tables)["list"] == {"L": [n(1), s("two"), n(3), n(9)]}
    else:
        assert shown == expected


def test_sets_grow_and_shrink(tables: Engine) -> None:
    names = {"ExpressionAttributeNames": {"#s": "set"}}
    request = {"TableName": "plain", "Key": KEY, "ReturnValues": "ALL_NEW", **names}
    add = {"UpdateExpression": "ADD #s :v", "ExpressionAttributeValues": {":v": {"SS": ["x", "z"]}}}
    grown = tables.execute("UpdateItem", request | add)["Attributes"]["set"]
    assert sorted(grown["SS"]) == ["x", "y", "z"]
    delete = {"UpdateExpression": "DELETE #s :v", "ExpressionAttributeValues": {":v": {"SS": ["x", "y", "z", "q"]}}}
    assert "set" not in tables.execute("UpdateItem", request | delete)["Attributes"], "an empty set is no set"


def test_removed_elements_move_the_rest_up_once(tables: Engine) -> None:
    update(tables, "REMOVE #l[0], #l[1]")
    assert get(tables)["list"] == {"L": [n(3)]}


def test_an_update_makes_the_item_that_is_not_there(tables: Engine) -> None:
    assert update(tables, "SET v = :v", MISSING, "ALL_NEW", v=n(1)) == {**MISSING, "v": n(1)}
    assert tables.execute("UpdateItem", {"TableName": "plain", "Key": {"pk": s("bare")}}) == {}
    assert get(tables, {"pk": s("bare")}) == {"pk": s("bare")}


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ("NONE", None),
        ("ALL_OLD", None),
        ("UPDATED_OLD", None),
        ("UPDATED_NEW", {"v": n(1)}),
        ("ALL_NEW", {**MISSING, "v": n(1)}),
    ],
)
def test_what_an_update_of_a_missing_item_returns(tables: Engine, returns: str, expected: Any) -> None:
    assert update(tables, "SET v = :v", MISSING, returns, v=n(1)) == expected


def test_updated_old_shows_what_was_there(tables: Engine) -> None:
    shown = update(tables, "SET #n = :v, #m.side = :v REMOVE words", returns="UPDATED_OLD", v=n(1))
    assert shown == {"number": n(5), "words": s("hello"), "map": {"M": {"side": s("s")}}}


@pytest.mark.parametrize(
    ("expression", "values", "message"),
    [
        ("SET pk = :v", {"v": s("b")}, f"{INVALID}Cannot update attribute pk. This attribute is part of the key"),
        ("SET a = :v, a = :v", {"v": n(1)}, "Two document paths overlap with each other;"),
        ("SET a.b = :v, a = :v", {"v": n(1)}, "Two document paths overlap with each other;"),
        ("SET a.b = :v, a[1] = :v", {"v": n(1)}, "Two document paths conflict with each other;"),
        ("SET a = b", {}, "The provided expression refers to an attribute that does not exist in the item"),
        ("SET a = words + :v", {"v": n(1)}, "An operand in the update expression has an incorrect data type"),
        ("SET a = #n + :v", {"v": s("x")}, "Incorrect operand type for operator or function; operator or function: +"),
        ("SET a = list_append(words, :v)", {"v": {"L": []}}, "An operand in the update expression has an incorrect"),
        ("ADD words :v", {"v": n(1)}, "An operand in the update expression has an incorrect data type"),
        ("ADD a :v", {"v": s("x")}, "Incorrect operand type for operator or function; operator: ADD"),
        ("DELETE #n :v", {"v": {"SS": ["a"]}}, "An operand in the update expression has an incorrect data type"),
        ("SET words.a = :v", {"v": n(1)}, "The document path provided in the update expression is invalid for update"),
        ("SET gone.a = :v", {"v": n(1)}, "The document path provided in the update expression is invalid for update"),
        ("SET #m[1] = :v", {"v": n(1)}, "The document path provided in the update expression is invalid for update"),
        ("SET a = :v SET b = :v", {"v": n(1)}, 'The "SET" section can only be used once in an update expression;'),
        ("", {}, "Invalid UpdateExpression: The expression can not be empty;"),
        ("SETA = 1", {}, 'Invalid UpdateExpression: Syntax error; token: "SETA", near: "SETA ="'),
    ],
    ids=lambda value: str(value)[:50],
)
def test_an_update_that_cannot_be_is_refused(tables: Engine, expression: str, values: Any, message: str) -> None:
    names = {name: meant for name, meant in {"#n": "number", "#m": "map"}.items() if name in expression}
    request: dict[str, Any] = {"TableName": "plain", "Key": KEY, "UpdateExpression": expression}
    if names:
        request["ExpressionAttributeNames"] = names
    if values:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    code, text = refusal(tables, "UpdateItem", request)
    assert code == "ValidationException"
    assert message in text


# ── the parameters that expressions replaced ─────────────────────────────────────────────────────


def test_legacy_parameters_do_the_same(tables: Engine) -> None:
    updates = {
        "number": {"Action": "ADD", "Value": n(1)},
        "set": {"Action": "DELETE", "Value": {"SS": ["x"]}},
        "words": {"Action": "DELETE"},
        "fresh": {"Value": s("put")},
    }
    expected = {"number": {"ComparisonOperator": "GE", "AttributeValueList": [n(5)]}, "gone": {"Exists": False}}
    request = {"TableName": "plain", "Key": KEY, "AttributeUpdates": updates, "Expected": expected}
    shown = tables.execute("UpdateItem", request | {"ReturnValues": "ALL_NEW"})["Attributes"]
    assert (shown["number"], shown["set"], shown["fresh"]) == (n(6), {"SS": ["y"]}, s("put"))
    assert "words" not in shown
    wrong = request | {"Expected": {"number": {"Value": n(5)}}}
    assert refusal(tables, "UpdateItem", wrong)[0] == "ConditionalCheckFailedException"
    assert get(tables, AttributesToGet=["number", "gone"]) == {"number": n(6)}


LONG_NAME = "é" * 32_768


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ("PutItem", {"Item": {"pk": s("a"), LONG_NAME: n(1)}}),
        ("PutItem", {"Item": {"pk": s("a"), "map": {"M": {LONG_NAME: n(1)}}}}),
        ("PutItem", {"Item": {"pk": s("a")}, "Expected": {LONG_NAME: {"Exists": False}}}),
        ("GetItem", {"Key": {"pk": s("a")}, "AttributesToGet": [LONG_NAME]}),
        ("UpdateItem", {"Key": {"pk": s("a")}, "AttributeUpdates": {LONG_NAME: {"Value": n(1)}}}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_name_of_64_kb_is_too_large(tables: Engine, operation: str, members: dict[str, Any]) -> None:
    code, text = refusal(tables, operation, {"TableName": "plain", **members})
    assert code == "ValidationException"
    assert text.endswith("Attribute name is too large, must be less than 65536 bytes")


def test_a_name_of_nearly_64_kb_is_fine(tables: Engine) -> None:
    item = {"pk": s("long"), LONG_NAME[1:] + "a": n(1), "map": {"M": {"x" * 65_535: n(1)}}}
    tables.execute("PutItem", {"TableName": "plain", "Item": item})
    assert tables.execute("GetItem", {"TableName": "plain", "Key": {"pk": s("long")}})["Item"] == item
