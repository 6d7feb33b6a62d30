"""TransactWriteItems and TransactGetItems: all or nothing, once, and with a reason for each action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from golden import INVALID, make_tables, n, put, refusal, s
from sample_tables import every_item, rows

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.errors import IdempotentParameterMismatchException, TransactionCanceledException

CANCELLED = "Transaction cancelled, please refer cancellation reasons for specific reasons"
FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
FINE = {"Code": "None"}


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


def put_action(key: str, **members: Any) -> dict[str, Any]:
    return {"Put": {"TableName": "plain", "Item": {"pk": s(key)}, **members}}


def update_action(key: str, expression: str = "ADD n :v", value: Any = None, **members: Any) -> dict[str, Any]:
    values = {"ExpressionAttributeValues": {":v": value or n(1)}}
    return {
        "Update": {"TableName": "plain", "Key": {"pk": s(key)}, "UpdateExpression": expression, **values, **members}
    }


def delete_action(key: str, **members: Any) -> dict[str, Any]:
    return {"Delete": {"TableName": "plain", "Key": {"pk": s(key)}, **members}}


def check_action(key: str, condition: str, **members: Any) -> dict[str, Any]:
    return {
        "ConditionCheck": {"TableName": "plain", "Key": {"pk": s(key)}, "ConditionExpression": condition, **members}
    }


def get_action(key: str, **members: Any) -> dict[str, Any]:
    return {"Get": {"TableName": "plain", "Key": {"pk": s(key)}, **members}}


def transact(tables: Engine, *actions: dict[str, Any], **members: Any) -> dict[str, Any]:
    return tables.execute("TransactWriteItems", {"TransactItems": list(actions), **members})


def cancellation(tables: Engine, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    """The reasons of a cancelled transaction; it must have changed nothing."""
    before = [rows(tables, name) for name in ("plain", "full")]
    with pytest.raises(TransactionCanceledException) as caught:
        transact(tables, *actions)
    assert [rows(tables, name) for name in ("plain", "full")] == before
    reasons: list[dict[str, Any]] = caught.value.fields["CancellationReasons"]
    codes = ", ".join(reason["Code"] for reason in reasons)
    assert caught.value.message == f"{CANCELLED} [{codes}]"
    return reasons


def test_every_kind_of_action_in_one_transaction(tables: Engine) -> None:
    put(tables, "plain", {"pk": s("old")})
    answer = transact(
        tables,
        put_action("new"),
        update_action("a", "SET v = :v"),
        delete_action("old"),
        check_action("missing", "attribute_not_exists(pk)"),
        {"Put": {"TableName": "full", "Item": {"pk": s("t"), "sk": n(1), "a": s("T")}}},
    )
    assert answer == {}
    keys = [item["pk"]["S"] for item in every_item(tables, "Scan", {"TableName": "plain"})]
    assert sorted(keys) == ["a", "new"]
    assert len(every_item(tables, "Scan", {"TableName": "full", "IndexName": "by_a"})) == 5


def test_one_failed_condition_cancels_all(tables: Engine) -> None:
    exists = {"ConditionExpression": "attribute_exists(pk)"}
    reasons = cancellation(tables, put_action("new"), delete_action("missing", **exists), update_action("a"))
    assert reasons == [FINE, FAILED, FINE]
    failing = cancellation(tables, delete_action("missing", **exists), check_action("a", "attribute_not_exists(pk)"))
    assert failing == [FAILED, FAILED]


def test_a_failed_condition_shows_its_item_where_it_is_asked_to(tables: Engine) -> None:
    shown = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    old = tables.execute("GetItem", {"TableName": "plain", "Key": {"pk": s("a")}})["Item"]
    reasons = cancellation(
        tables,
        put_action("a", ConditionExpression="attribute_not_exists(pk)", **shown),
        check_action("missing", "attribute_exists(pk)", **shown),
    )
    assert reasons == [{**FAILED, "Item": old}, FAILED]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            update_action("a", "SET v = words + :v"),
            "An operand in the update expression has an incorrect data type",
        ),
        (
            update_action("a", "SET v.w = :v"),
            "The document path provided in the update expression is invalid for update",
        ),
        (update_action("a", "ADD words :v"), "An operand in the update expression has an incorrect data type"),
        (
            {"Put": {"TableName": "plain", "Item": {"pk": n(1)}}},
            f"{INVALID}Type mismatch for key pk expected: S actual: N",
        ),
        (
            {"Delete": {"TableName": "plain", "Key": {"no": s("a")}}},
            "The provided key element does not match the schema",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_only_the_item_can_show_is_a_reason(tables: Engine, action: dict[str, Any], message: str) -> None:
    fine, reason = cancellation(tables, put_action("new"), action)
    assert fine == FINE
    assert reason == {"Code": "ValidationError", "Message": message}


def test_only_the_first_key_that_does_not_fit_is_told(tables: Engine) -> None:
    wrong = [{"Put": {"TableName": "plain", "Item": {"pk": n(number)}}} for number in (1, 2)]
    unmet = put_action("new", ConditionExpression="attribute_exists(pk)")
    reasons = cancellation(tables, *wrong, unmet)
    assert [reason["Code"] for reason in reasons] == ["ValidationError", "None", "None"]
    gets = [{"Get": {"TableName": "plain", "Key": {"pk": n(number)}}} for number in (1, 2)]
    _, text = refusal(tables, "TransactGetItems", {"TransactItems": gets})
    assert text == f"{CANCELLED} [ValidationError, None]"


def test_a_transaction_of_more_than_4_mb_is_refused(tables: Engine) -> None:
    large = [{"Put": {"TableName": "plain", "Item": {"pk": s(f"{n}"), "x": s("x" * 300_000)}}} for n in range(15)]
    code, text = refusal(tables, "TransactWriteItems", {"TransactItems": large})
    assert (code, text) == ("ValidationException", "Transaction payload size cannot exceed 4194304 bytes")
    large = [update_action(f"{n}", "SET v = :v", s("x" * 300_000)) for n in range(15)]
    code, text = refusal(tables, "TransactWriteItems", {"TransactItems": large})
    assert (code, text) == ("ValidationException", "Transaction payload size cannot exceed 4194304 bytes")


def test_large_items_may_be_deleted_in_one_transaction(tables: Engine) -> None:
    for number in range(15):
        put(tables, "plain", {"pk": s(f"{number}"), "x": s("x" * 300_000)})
    tables.execute("TransactWriteItems", {"TransactItems": [delete_action(f"{number}") for number in range(15)]})
    assert "Item" not in tables.execute("GetItem", {"TableName": "plain", "Key": {"pk": s("0")}})


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (
            [put_action("x"), delete_action("x")],
            "Transaction request cannot include multiple operations on one item",
        ),
        (
            [check_action("x", "attribute_exists(pk)"), update_action("x")],
            "Transaction request cannot include multiple operations on one item",
        ),
        (
            [put_action("x", ConditionExpression="a = :v")],
            "Invalid ConditionExpression: An expression attribute value used in expression is not defined; "
            "attribute value: :v",
        ),
        ([put_action("")], "cannot contain an empty string value. Key: pk"),
        ([{}], "TransactItems can only contain one of Check, Put, Update or Delete"),
        ([{**put_action("x"), **delete_action("y")}], "TransactItems can only contain one of Check, Put, Update or"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_the_request_shows_refuses_it(tables: Engine, actions: list[dict[str, Any]], message: str) -> None:
    code, text = refusal(tables, "TransactWriteItems", {"TransactItems": actions})
    assert code == "ValidationException"
    assert message in text


@pytest.mark.parametrize(
    "loose", [{"ExpressionAttributeNames": {"#n": "a"}}, {"ExpressionAttributeValues": {":v": {"S": "a"}}}]
)
def test_a_transaction_takes_names_and_values_where_there_is_no_expression(tables: Engine, loose: Any) -> None:
    """At AWS a single-item write with the same members is refused; DynamoDB Local refuses both."""
    actions = [put_action("new", **loose), {"Delete": {"TableName": "plain", "Key": {"pk": s("gone")}, **loose}}]
    assert tables.execute("TransactWriteItems", {"TransactItems": actions}) == {}
    if "ExpressionAttributeNames" in loose:
        get = {"Get": {"TableName": "plain", "Key": {"pk": s("new")}, **loose}}
        assert tables.execute("TransactGetItems", {"TransactItems": [get]})["Responses"][0]["Item"]["pk"] == s("new")


@pytest.mark.parametrize("kind", ["Update", "ConditionCheck"])
def test_beside_an_expression_each_name_must_be_used(tables: Engine, kind: str) -> None:
    text = {"UpdateExpression": "REMOVE x"} if kind == "Update" else {"ConditionExpression": "attribute_exists(pk)"}
    action = {kind: {"TableName": "plain", "Key": {"pk": s("a")}, "ExpressionAttributeNames": {"#n": "a"}, **text}}
    _, message = refusal(tables, "TransactWriteItems", {"TransactItems": [action]})
    assert message == "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}"


def test_a_missing_table_refuses_the_transaction(tables: Engine) -> None:
    wrong = {"Put": {"TableName": "missing", "Item": {"pk": s("x")}}}
    expected = ("ResourceNotFoundException", "Requested resource not found")
    assert refusal(tables, "TransactWriteItems", {"TransactItems": [put_action("new"), wrong]}) == expected


def test_100_actions_are_allowed(tables: Engine) -> None:
    transact(tables, *[put_action(f"item {number}") for number in range(100)])
    assert len(every_item(tables, "Scan", {"TableName": "plain"})) == 101


def test_more_than_4_mb_are_refused(tables: Engine) -> None:
    large = [
        {"Put": {"TableName": "plain", "Item": {"pk": s(f"item {number}"), "v": s("x" * 390_000)}}}
        for number in range(11)
    ]
    assert refusal(tables, "TransactWriteItems", {"TransactItems": large})[0] == "ValidationException"


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["memory", "file"])
def clocked(request: pytest.FixtureRequest, path: str) -> Iterator[tuple[Engine, ManualClock]]:
    clock = ManualClock()
    with Engine(":memory:" if request.param == "memory" else path, clock=clock) as engine:
        make_tables(engine)
        yield engine, clock


def counter(engine: Engine) -> str:
    found: str = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": s("c")}})["Item"]["n"]["N"]
    return found


def test_a_transaction_with_a_token_is_done_once_in_ten_minutes(clocked: tuple[Engine, ManualClock]) -> None:
    engine, clock = clocked
    for _ in range(3):
        assert transact(engine, update_action("c"), ClientRequestToken="once") == {}
        clock.advance(190)
    assert counter(engine) == "1"
    clock.advance(40)
    transact(engine, update_action("c"), ClientRequestToken="once")
    assert counter(engine) == "2"


def test_a_token_belongs_to_its_request(clocked: tuple[Engine, ManualClock]) -> None:
    engine, _ = clocked
    transact(engine, update_action("c"), ClientRequestToken="mine")
    with pytest.raises(IdempotentParameterMismatchException):
        transact(engine, update_action("d"), ClientRequestToken="mine")
    assert counter(engine) == "1"


def test_a_cancelled_transaction_leaves_its_token_free(clocked: tuple[Engine, ManualClock]) -> None:
    engine, _ = clocked
    action = put_action("c", ConditionExpression="attribute_exists(pk)")
    with pytest.raises(TransactionCanceledException):
        transact(engine, action, ClientRequestToken="again")
    put(engine, "plain", {"pk": s("c"), "n": n(7)})
    assert transact(engine, action, ClientRequestToken="again") == {}


def test_a_token_is_remembered_by_the_file(path: str) -> None:
    for _ in range(2):
        with Engine(path, clock=ManualClock()) as engine:
            if "plain" not in engine.execute("ListTables", {})["TableNames"]:
                make_tables(engine)
            transact(engine, update_action("c"), ClientRequestToken="kept")
            assert counter(engine) == "1"


# ── gets ─────────────────────────────────────────────────────────────────────────────────────────


def test_gets_answer_in_their_order_with_nothing_for_nothing(tables: Engine) -> None:
    actions = [get_action("missing"), get_action("a", ProjectionExpression="words"), get_action("b")]
    put(tables, "plain", {"pk": s("b")})
    answer = tables.execute("TransactGetItems", {"TransactItems": actions})
    assert answer == {"Responses": [{}, {"Item": {"words": s("hello")}}, {"Item": {"pk": s("b")}}]}


def test_two_gets_of_one_item_are_refused(tables: Engine) -> None:
    request = {"TransactItems": [get_action("a"), get_action("a")]}
    expected = ("ValidationException", "Transaction request cannot include multiple operations on one item")
    assert refusal(tables, "TransactGetItems", request) == expected


def test_a_get_whose_key_does_not_fit_cancels_the_others(tables: Engine) -> None:
    wrong = {"Get": {"TableName": "plain", "Key": {"pk": n(1)}}}
    code, text = refusal(tables, "TransactGetItems", {"TransactItems": [get_action("a"), wrong]})
    assert (code, text) == ("TransactionCanceledException", f"{CANCELLED} [None, ValidationError]")
