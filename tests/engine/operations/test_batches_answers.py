"""BatchGetItem and BatchWriteItem: what DynamoDB answers, and in which words it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from golden import INVALID, make_tables, n, put, refusal, s
from sample_tables import every_item

from penstock.engine import Engine

KB = 1024
DUPLICATES = "Provided list of item keys contains duplicates"


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


def write(*asked: dict[str, Any], name: str = "plain") -> dict[str, Any]:
    return {"RequestItems": {name: list(asked)}}


def put_request(key: str, **attributes: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"pk": s(key), **attributes}}}


def delete_request(key: str) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": {"pk": s(key)}}}


def get(*keys: dict[str, Any], name: str = "plain", **members: Any) -> dict[str, Any]:
    return {"RequestItems": {name: {"Keys": list(keys), **members}}}


def test_puts_and_deletes_of_two_tables_in_one_call(tables: Engine) -> None:
    key = {"pk": s("p"), "sk": n("1.0")}
    asked = {
        "RequestItems": {
            "plain": [put_request("new", v=n(1)), delete_request("a"), delete_request("never was")],
            "full": [
                {"DeleteRequest": {"Key": key}},
                {"PutRequest": {"Item": {"pk": s("p"), "sk": n(9), "a": s("A")}}},
            ],
        }
    }
    assert tables.execute("BatchWriteItem", asked) == {"UnprocessedItems": {}}
    assert every_item(tables, "Scan", {"TableName": "plain"}) == [{"pk": s("new"), "v": n(1)}]
    by_a = every_item(tables, "Scan", {"TableName": "full", "IndexName": "by_a"})
    assert sorted(item["sk"]["N"] for item in by_a) == ["0", "2", "3", "9"]


def test_a_get_leaves_out_what_is_not_there(tables: Engine) -> None:
    asked = get({"pk": s("a")}, {"pk": s("missing")}, ProjectionExpression="pk, words")
    answer = tables.execute("BatchGetItem", asked)
    assert answer == {"Responses": {"plain": [{"pk": s("a"), "words": s("hello")}]}, "UnprocessedKeys": {}}


def test_a_get_of_two_tables(tables: Engine) -> None:
    asked = {
        "RequestItems": {
            "plain": {"Keys": [{"pk": s("missing")}]},
            "full": {"Keys": [{"pk": s("p"), "sk": n(number)} for number in range(5)], "AttributesToGet": ["sk"]},
        }
    }
    answer = tables.execute("BatchGetItem", asked)["Responses"]
    assert answer["plain"] == []
    assert sorted(item["sk"]["N"] for item in answer["full"]) == ["0", "1", "2", "3"]


def test_a_get_of_more_than_16_mb_leaves_keys_for_the_next_call(tables: Engine) -> None:
    for number in range(45):
        put(tables, "plain", {"pk": s(f"large {number}"), "text": s("x" * 390 * KB)})
    asked = get(*[{"pk": s(f"large {number}")} for number in range(45)], ConsistentRead=True)
    first = tables.execute("BatchGetItem", asked)
    count = len(first["Responses"]["plain"])
    assert count < 45
    left = first["UnprocessedKeys"]["plain"]
    assert left["ConsistentRead"] is True
    second = tables.execute("BatchGetItem", {"RequestItems": {"plain": left}})
    keys = [item["pk"]["S"] for one in (first, second) for item in one["Responses"]["plain"]]
    assert sorted(keys) == sorted(f"large {number}" for number in range(45))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (write(put_request("x"), put_request("x")), DUPLICATES),
        (write(put_request("x"), delete_request("x")), DUPLICATES),
        (
            write(
                {"PutRequest": {"Item": {"pk": s("p"), "sk": n("1")}}},
                {"DeleteRequest": {"Key": {"pk": s("p"), "sk": n("1.0")}}},
                name="full",
            ),
            DUPLICATES,
        ),
        (write(put_request("ok"), put_request("")), "cannot contain an empty string value. Key: pk"),
        (write(put_request("ok"), {"PutRequest": {"Item": {}}}), "The provided key element does not match the schema"),
        (write({"DeleteRequest": {"Key": {"pk": n(1)}}}), "The provided key element does not match the schema"),
        (
            write(put_request("ok"), put_request("x", v=n("x"))),
            "The parameter cannot be converted to a numeric value: x",
        ),
        (write(put_request("x", v=s("x" * 400 * KB))), "Item size has exceeded the maximum allowed size"),
        (
            write({"PutRequest": {"Item": {"pk": s("x"), "sk": n(1), "a": n(1)}}}, name="full"),
            f"{INVALID}Type mismatch for Index Key a Expected: S Actual: N IndexName: ",
        ),
        (
            write({}),
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported "
            "datatypes",
        ),
    ],
    ids=lambda value: str(value)[:70],
)
def test_a_batch_that_cannot_be_is_refused_as_a_whole(tables: Engine, asked: dict[str, Any], message: str) -> None:
    code, text = refusal(tables, "BatchWriteItem", asked)
    assert code == "ValidationException"
    assert message in text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (get({"pk": s("a")}, {"pk": s("a")}), DUPLICATES),
        (get({"pk": s("a")}, {"pk": n(1)}), "The provided key element does not match the schema"),
        (get({"pk": s("a")}, {}), "The provided key element does not match the schema"),
        (get({"pk": s("a")}, ProjectionExpression=""), "The expression can not be empty;"),
        (get({"pk": s("a")}, AttributesToGet=["a", "a"]), f"{INVALID}Duplicate value in attribute name: a"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_a_get_that_cannot_be_is_refused(tables: Engine, asked: dict[str, Any], message: str) -> None:
    code, text = refusal(tables, "BatchGetItem", asked)
    assert code == "ValidationException"
    assert message in text


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("BatchWriteItem", {"plain": [put_request("kept out")], "missing": [put_request("x")]}),
        ("BatchGetItem", {"plain": {"Keys": [{"pk": s("a")}]}, "missing": {"Keys": [{"pk": s("a")}]}}),
    ],
)
def test_one_missing_table_refuses_the_batch(tables: Engine, operation: str, asked: dict[str, Any]) -> None:
    expected = ("ResourceNotFoundException", "Requested resource not found")
    assert refusal(tables, operation, {"RequestItems": asked}) == expected


def test_a_batch_of_nothing_is_refused(tables: Engine) -> None:
    for operation in ("BatchGetItem", "BatchWriteItem"):
        assert refusal(tables, operation, {"RequestItems": {}})[0] == "ValidationException"


def test_a_get_whose_json_is_far_longer_than_its_items_leaves_keys_too(
    tables: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.operations.items.ANSWER_BYTES", 5_000)
    for number in range(6):
        put(tables, "plain", {"pk": s(f"{number}"), "l": {"L": [s("")] * 200}})
    asked = get(*[{"pk": s(f"{number}")} for number in range(6)])
    found: list[str] = []
    for _ in range(6):
        answer = tables.execute("BatchGetItem", asked)
        assert 1 <= len(answer["Responses"]["plain"]) <= 3
        found += [item["pk"]["S"] for item in answer["Responses"]["plain"]]
        if not answer["UnprocessedKeys"]:
            break
        asked = {"RequestItems": answer["UnprocessedKeys"]}
    assert sorted(found) == [f"{number}" for number in range(6)]
