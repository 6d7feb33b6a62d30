"""The usual PutItem in one pass does what the full path does, to the letter and to the row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.engine import Engine, Pending
from penstock.engine.items import usual_puts
from penstock.errors import ConditionalCheckFailedException, DynamoDBError

NAMES = ("pk", "sk", "color", "place", "ttl", "other", "more", "size", "kind")
LONG = "x" * 1100

TABLE: dict[str, Any] = {
    "TableName": "things",
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        *({"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "color", "place")),
        *({"AttributeName": name, "AttributeType": "N"} for name in ("size", "ttl")),
    ],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-color",
            "KeySchema": [
                {"AttributeName": "color", "KeyType": "HASH"},
                {"AttributeName": "place", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        },
        {
            "IndexName": "by-place",
            "KeySchema": [{"AttributeName": "place", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        },
        {
            "IndexName": "by-size",
            "KeySchema": [{"AttributeName": "size", "KeyType": "HASH"}, {"AttributeName": "ttl", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "ALL"},
        },
        {
            "IndexName": "by-all",
            "KeySchema": [
                {"AttributeName": "color", "KeyType": "HASH"},
                {"AttributeName": "size", "KeyType": "HASH"},
                {"AttributeName": "place", "KeyType": "RANGE"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        },
    ],
}


def engine() -> Engine:
    made = Engine(clock=ManualClock())
    made.execute("CreateTable", TABLE)
    made.execute(
        "UpdateTimeToLive",
        {"TableName": "things", "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}},
    )
    bare = {name: value for name, value in TABLE.items() if name != "GlobalSecondaryIndexes"}
    definitions = bare["AttributeDefinitions"][:2]
    made.execute("CreateTable", {**bare, "TableName": "bare", "AttributeDefinitions": definitions})
    return made


texts = st.sampled_from(["a", "b", "é", "", LONG, "a\0b", "\ud800"])
numbers = st.sampled_from(["0", "7", "1700000500", "1700000900", "1e3", "007", "x", "1" * 40])
values = st.one_of(
    st.builds(lambda text: {"S": text}, texts),
    st.builds(lambda number: {"N": number}, numbers),
    st.sampled_from(
        [
            {"L": [{"S": "a"}, {"N": "01"}]},
            {"SS": ["b", "a"]},
            {"SS": ["a", "a"]},
            {"M": {"": {"S": "a"}}},
            {"BOOL": True},
            {"NULL": False},
            {"S": 5},
            {"S": "a", "N": "1"},
            {"X": "a"},
            {},
            None,
            "S",
        ]
    ),
)
usual_values = st.builds(lambda text: {"S": text}, st.sampled_from(["a", "b", "é"]))
items = st.one_of(
    st.fixed_dictionaries(
        {"pk": usual_values, "sk": usual_values},
        optional={
            **dict.fromkeys(NAMES[2:], usual_values),
            "size": st.sampled_from([{"N": "7"}, {"N": "-1e3"}, {"N": "0.50"}, {"S": "a"}]),
            "ttl": st.sampled_from([{"N": "1700000500"}, {"N": "1700000900"}]),
        },
    ),
    st.dictionaries(st.sampled_from([*NAMES, ""]), st.one_of(usual_values, values), max_size=len(NAMES)),
)
conditions = st.sampled_from(
    [
        {},
        {"ConditionExpression": "attribute_not_exists(#k)", "ExpressionAttributeNames": {"#k": "pk"}},
        {
            "ConditionExpression": "#c = :c",
            "ExpressionAttributeNames": {"#c": "color"},
            "ExpressionAttributeValues": {":c": {"S": "a"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
        {
            "ConditionExpression": "#c = :c OR attribute_not_exists(#c)",
            "ExpressionAttributeNames": {"#c": "color"},
            "ExpressionAttributeValues": {":c": {"S": "b"}},
            "ReturnValuesOnConditionCheckFailure": "NONE",
        },
        {
            "ConditionExpression": "#c = :c",
            "ExpressionAttributeNames": {"#c": "color", "#d": "unused"},
            "ExpressionAttributeValues": {":c": {"S": "a"}},
        },
        {
            "ConditionExpression": "#c = :c",
            "ExpressionAttributeNames": {"#c": "color"},
            "ExpressionAttributeValues": {":c": {"N": "x"}},
        },
        {"ConditionExpression": "#c.deep = #c", "ExpressionAttributeNames": {"#c": "pk"}},
        {"ConditionExpression": "color = place"},
        {"ConditionExpression": "", "ExpressionAttributeNames": {"#c": "color"}},
        {"ConditionExpression": "attribute_exists(#c)", "ExpressionAttributeNames": {}},
        {"ConditionExpression": "attribute_exists(#c)", "ExpressionAttributeNames": {"#c": 5}},
        {"ConditionExpression": 5, "ExpressionAttributeNames": {"#c": "color"}},
        {"ExpressionAttributeNames": {"#c": "color"}},
        {
            "ConditionExpression": "attribute_exists(#c)",
            "ExpressionAttributeNames": {"#c": "color"},
            "ExpressionAttributeValues": None,
        },
        {
            "ConditionExpression": "attribute_exists(#c)",
            "ExpressionAttributeNames": {"#c": "color"},
            "ReturnValuesOnConditionCheckFailure": "SOME",
        },
        {"ReturnValues": "ALL_OLD"},
        {"ReturnConsumedCapacity": "TOTAL"},
        {"Expected": {"color": {"Exists": False}}},
        {"Unknown": 1},
    ]
)
requests = st.builds(
    lambda table, item, condition: {"TableName": table, "Item": item, **condition},
    st.sampled_from(["things", "things", "things", "bare", "nothing", "", 5, None]),
    st.one_of(items, items, items, st.sampled_from([None, 5, []])),
    conditions,
)


def outcome(engine: Engine, request: Any) -> Any:
    try:
        return engine.execute("PutItem", request)
    except DynamoDBError as error:
        return type(error), error.message, error.fields
    except (AttributeError, TypeError, UnicodeError) as error:
        return type(error)


def rows(engine: Engine) -> dict[str, list[Any]]:
    db = engine.store.connection()
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 't%'")]
    assert len(names) > 4
    return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names if name != "tables"}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Engine, Engine]]:
    with engine() as usual, engine() as full:
        yield usual, full


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(requests, min_size=1, max_size=6))
def test_a_put_does_the_same_in_one_pass_and_on_the_full_path(
    both: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch, some: list[Any]
) -> None:
    usual, full = both
    for request in some:
        with monkeypatch.context() as patched:
            patched.setattr(usual_puts, "prepare", lambda _: None)
            expected = outcome(full, request)
        assert outcome(usual, request) == expected
    assert rows(usual) == rows(full)


def outcomes(engine: Engine, some: list[Any]) -> list[Any]:
    answers = engine.answer_many([Pending("PutItem", request) for request in some])
    return [
        (type(one), one.message, one.fields) if isinstance(one, DynamoDBError) else orjson.loads(one) for one in answers
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(requests, min_size=2, max_size=8))
def test_puts_of_a_group_do_the_same_prepared_early_and_on_the_full_path(
    both: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch, some: list[Any]
) -> None:
    usual, full = both
    with monkeypatch.context() as patched:
        patched.setattr(usual_puts, "prepare", lambda _: None)
        expected = outcomes(full, some)
    assert outcomes(usual, some) == expected
    assert rows(usual) == rows(full)


def test_puts_of_a_group_are_prepared_once_and_before_their_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine() as usual:
        seen: list[bool] = []
        prepare = usual_puts.prepare

        def note(request: Any) -> usual_puts.UsualPut | None:
            seen.append(usual.store.connection().in_transaction)
            return prepare(request)

        monkeypatch.setattr(usual_puts, "prepare", note)
        some = [{"TableName": "things", "Item": {"pk": {"S": one}, "sk": {"S": "s"}}} for one in "abcde"]
        assert outcomes(usual, some) == [{}] * 5
        assert seen == [False] * 5


@pytest.mark.parametrize("old_color", [None, "a", "b"])
@pytest.mark.parametrize("new_color", [None, "a", "b"])
def test_index_rows_follow_a_put_in_one_pass(old_color: str | None, new_color: str | None) -> None:
    with engine() as usual:
        for color in (old_color, new_color):
            item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "place": {"S": "x"}}
            if color is not None:
                item["color"] = {"S": color}
            request = {"TableName": "things", "Item": item}
            assert isinstance(usual_puts.prepare(request), usual_puts.UsualPut)
            usual.execute("PutItem", request)
        for color in ("a", "b"):
            asked = {
                "TableName": "things",
                "IndexName": "by-color",
                "KeyConditionExpression": "color = :c",
                "ExpressionAttributeValues": {":c": {"S": color}},
            }
            assert usual.execute("Query", asked)["Count"] == (color == new_color)


def test_a_put_in_one_pass_that_is_refused_gives_the_item_and_changes_nothing() -> None:
    item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "color": {"S": "a"}}
    with engine() as usual:
        usual.execute("PutItem", {"TableName": "things", "Item": item})
        before = rows(usual)
        request = {
            "TableName": "things",
            "Item": {**item, "color": {"S": "b"}},
            "ConditionExpression": "#c = :c",
            "ExpressionAttributeNames": {"#c": "color"},
            "ExpressionAttributeValues": {":c": {"S": "z"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        with pytest.raises(ConditionalCheckFailedException) as refused:
            usual.execute("PutItem", request)
        assert refused.value.fields["Item"] == item
        assert rows(usual) == before


def test_a_put_with_numbers_in_index_keys_goes_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's or a record's state is often a number."""
    with engine() as usual:
        usual.execute(
            "GetItem", {"TableName": "things", "Key": {"pk": {"S": "p"}, "sk": {"S": "s"}}}
        )  # it is known now
        monkeypatch.setattr("penstock.engine.operations.items.put_any_item", None)
        for size in ("7", "8"):
            item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "size": {"N": size}, "ttl": {"N": "1700000500"}}
            usual.execute("PutItem", {"TableName": "things", "Item": item})
        asked = {
            "TableName": "things",
            "IndexName": "by-size",
            "KeyConditionExpression": "#s = :s",
            "ExpressionAttributeNames": {"#s": "size"},
            "ExpressionAttributeValues": {":s": {"N": "7"}},
        }
        assert usual.execute("Query", asked)["Count"] == 0
        assert usual.execute("Query", {**asked, "ExpressionAttributeValues": {":s": {"N": "8.0"}}})["Count"] == 1
