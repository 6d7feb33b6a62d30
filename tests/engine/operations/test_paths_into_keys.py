"""A path into a key attribute: keys are scalars, and DynamoDB refuses to look into one, in whatever expression."""

from __future__ import annotations

from typing import Any

import pytest
from golden import make_tables, n, refusal, s

from penstock.engine import Engine
from penstock.errors import TransactionCanceledException

SCALARS = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
PLAIN_KEY = {"pk": s("a")}
FULL_KEY = {"pk": s("p"), "sk": n(1)}


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


def expression(member: str, text: str, **more: Any) -> dict[str, Any]:
    """An expression with the names and the value that its text needs."""
    asked: dict[str, Any] = {member: text, **more}
    if "#k" in text:
        asked["ExpressionAttributeNames"] = {"#k": "pk"}
    if ":v" in text:
        asked["ExpressionAttributeValues"] = {":v": n(1)}
    return asked


CONDITIONS = [
    ("attribute_not_exists(pk.a)", "Key: pk"),
    ("attribute_exists(sk[0])", "Key: sk"),
    ("#k.a = :v", "Key: pk"),
    ("size(#k[1].b) > :v", "Key: pk"),
    ("y = :v OR NOT contains(pk.a, :v)", "Key: pk"),
    ("x = b.c", "IndexKey: b"),
]


@pytest.mark.parametrize(("text", "named"), CONDITIONS)
def test_a_condition_does_not_look_into_a_key(tables: Engine, text: str, named: str) -> None:
    condition = expression("ConditionExpression", text, TableName="full")
    for operation, rest in (
        ("PutItem", {"Item": FULL_KEY}),
        ("DeleteItem", {"Key": FULL_KEY}),
        ("UpdateItem", {"Key": FULL_KEY, "UpdateExpression": "REMOVE y"}),
        ("UpdateItem", {"Key": FULL_KEY}),
    ):
        assert refusal(tables, operation, condition | rest) == ("ValidationException", SCALARS + named)


@pytest.mark.parametrize("kind", ["Put", "Delete", "Update", "ConditionCheck"])
def test_an_action_whose_condition_looks_into_a_key_cancels_its_transaction(tables: Engine, kind: str) -> None:
    action = expression("ConditionExpression", "attribute_not_exists(#k.a)", TableName="plain")
    action |= {"Item": PLAIN_KEY} if kind == "Put" else {"Key": PLAIN_KEY}
    action |= {"UpdateExpression": "REMOVE y"} if kind == "Update" else {}
    with pytest.raises(TransactionCanceledException) as caught:
        tables.execute("TransactWriteItems", {"TransactItems": [{kind: action}]})
    assert caught.value.fields["CancellationReasons"] == [
        {"Code": "ValidationError", "Message": f"{SCALARS}Key: pk"},
    ]


@pytest.mark.parametrize(
    "text", ["SET q = pk.a", "SET q = if_not_exists(#k[0], :v)", "SET q = q + pk.a", "SET q = list_append(q, pk.a)"]
)
def test_an_update_does_not_read_a_part_of_a_key_of_a_table_without_indexes(tables: Engine, text: str) -> None:
    asked = expression("UpdateExpression", text, TableName="plain", Key=PLAIN_KEY)
    assert refusal(tables, "UpdateItem", asked) == ("ValidationException", f"{SCALARS}Key: pk")


@pytest.mark.parametrize(("text", "named"), [("#k.a", "Key: pk"), ("x, sk[0]", "Key: sk"), ("a.b", "IndexKey: a")])
def test_a_projection_does_not_look_into_a_key(tables: Engine, text: str, named: str) -> None:
    shown = expression("ProjectionExpression", text)
    one = {"TableName": "full", "Key": FULL_KEY} | shown
    for operation, asked in (
        ("GetItem", one),
        ("BatchGetItem", {"RequestItems": {"full": {"Keys": [FULL_KEY]} | shown}}),
        ("Scan", {"TableName": "full"} | shown),
    ):
        assert refusal(tables, operation, asked) == ("ValidationException", SCALARS + named)
    with pytest.raises(TransactionCanceledException) as caught:
        tables.execute("TransactGetItems", {"TransactItems": [{"Get": one}]})
    assert caught.value.fields["CancellationReasons"] == [{"Code": "ValidationError", "Message": SCALARS + named}]


def test_a_part_of_another_attribute_may_have_the_name_of_a_key(tables: Engine) -> None:
    asked = expression("ConditionExpression", "attribute_not_exists(y.pk) AND attribute_exists(pk)", TableName="full")
    assert tables.execute("PutItem", asked | {"Item": FULL_KEY}) == {}
