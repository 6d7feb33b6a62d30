"""How much work a call is, counted in SQL statements and decoded items: what makes it fast, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sample_tables import index, make, table
from sql_statements import statements

from penstock.engine import Engine, Pending
from penstock.errors import ConditionalCheckFailedException, ValidationException

INDEXED = table("indexed", "pk:S / sk:N", globals_=(index("by_a", "a:S"),), locals_=(index("by_n", "pk:S / n:N"),))


@pytest.fixture
def plain(engine: Engine) -> Engine:
    make(engine, table("plain", "pk:S / sk:N"))
    for number in range(120):
        engine.execute("PutItem", {"TableName": "plain", "Item": item(number)})
    return engine


def item(number: int, **attributes: Any) -> dict[str, Any]:
    return {"pk": {"S": "a"}, "sk": {"N": str(number)}, "x": {"S": "text"}, **attributes}


def key(number: int) -> dict[str, Any]:
    return {"pk": {"S": "a"}, "sk": {"N": str(number)}}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What orjson.loads was given from now on."""
    found: list[Any] = []
    loads: Callable[[Any], Any] = orjson.loads

    def counting(data: Any) -> Any:
        found.append(data)
        return loads(data)

    monkeypatch.setattr(orjson, "loads", counting)
    return found


def test_a_plain_get_is_one_statement_and_decodes_nothing(plain: Engine, decoded: list[Any]) -> None:
    with statements(plain) as found:
        answer = plain.answer("GetItem", {"TableName": "plain", "Key": key(7)})
    assert answer.startswith(b'{"Item":{')
    assert len(found) == 1 and found[0].startswith("SELECT item")
    assert decoded == []


def test_gets_that_arrive_together_are_one_statement_each_in_one_snapshot(plain: Engine, decoded: list[Any]) -> None:
    calls = [Pending("GetItem", {"TableName": "plain", "Key": key(number)}) for number in range(3)]
    with statements(plain) as found:
        answers = plain.answer_many(calls)
    assert all(isinstance(answer, bytes) and answer.startswith(b'{"Item":{') for answer in answers)
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", "SELECT", "SELECT", "COMMIT"]
    assert all("SELECT item" in one for one in found[1:-1])
    assert decoded == []


def test_gets_that_arrive_together_see_a_table_that_another_process_made_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "shared.db")
    with Engine(path) as engine, Engine(path) as other:
        make(engine, table("moved", "pk:S / sk:N"))
        engine.execute("PutItem", {"TableName": "moved", "Item": item(1)})
        get = Pending("GetItem", {"TableName": "moved", "Key": {"id": {"S": "new"}}})
        other.execute("DeleteTable", {"TableName": "moved"})
        make(other, table("moved", "id:S"))
        other.execute("PutItem", {"TableName": "moved", "Item": {"id": {"S": "new"}}})
        assert engine.answer_many([get, get]) == [b'{"Item":{"id":{"S":"new"}}}'] * 2


def test_a_plain_put_is_one_upsert_in_one_transaction(plain: Engine, decoded: list[Any]) -> None:
    puts: list[list[str]] = []
    for number in (7, 8, 9):  # in memory all threads share a connection, and one in the background may use it meanwhile
        with statements(plain) as found:
            plain.answer("PutItem", {"TableName": "plain", "Item": item(number)})
        puts.append([one.split()[0] if not one.endswith("'catalog'") else "CATALOG" for one in found])
    assert min(puts, key=len) == ["BEGIN", "CATALOG", "INSERT", "COMMIT"]
    assert decoded == []


def test_a_query_of_a_hundred_items_is_one_statement(plain: Engine, decoded: list[Any]) -> None:
    request = {
        "TableName": "plain",
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "a"}},
        "Limit": 100,
    }
    with statements(plain) as found:
        answer = plain.answer("Query", request)
    assert len(found) == 1
    assert len(decoded) <= 1, "the last item's key is all that a page needs to know"
    assert orjson.loads(answer)["Count"] == 100


def test_a_scan_to_the_end_decodes_nothing(plain: Engine, decoded: list[Any]) -> None:
    with statements(plain) as found:
        plain.answer("Scan", {"TableName": "plain"})
    assert len(found) == 1
    assert decoded == []


def test_an_update_that_moves_no_index_key_writes_no_index_row(engine: Engine) -> None:
    make(engine, INDEXED)
    engine.execute("PutItem", {"TableName": "indexed", "Item": item(1, a={"S": "x"}, n={"N": "1"})})
    update = {
        "TableName": "indexed",
        "Key": key(1),
        "UpdateExpression": "SET y = :y",
        "ExpressionAttributeValues": {":y": {"S": "new"}},
    }
    with statements(engine) as found:
        engine.execute("UpdateItem", update)
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", "SELECT", "INSERT", "COMMIT"]


def test_an_update_that_moves_one_index_key_writes_that_index_alone(engine: Engine) -> None:
    make(engine, INDEXED)
    engine.execute("PutItem", {"TableName": "indexed", "Item": item(1, a={"S": "x"}, n={"N": "1"})})
    update = {
        "TableName": "indexed",
        "Key": key(1),
        "UpdateExpression": "SET n = :n",
        "ExpressionAttributeValues": {":n": {"N": "2"}},
    }
    with statements(engine) as found:
        engine.execute("UpdateItem", update)
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", "SELECT", "INSERT", "UPDATE", "COMMIT"]


def test_a_group_of_sixteen_puts_is_one_transaction(plain: Engine) -> None:
    calls = [Pending("PutItem", {"TableName": "plain", "Item": item(1000 + number)}) for number in range(16)]
    with statements(plain) as found:
        answers = plain.answer_many(calls)
    assert answers == [b"{}"] * 16
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", *["INSERT"] * 16, "COMMIT"]


LARGE = {"pk": {"S": "a"}, "sk": {"N": "1"}, "l": {"S": "x" * 500_000}}
REFUSED: dict[str, dict[str, Any]] = {
    "PutItem": {"TableName": "plain", "Item": LARGE},
    "UpdateItem": {"TableName": "plain", "Key": key(1), "UpdateExpression": "SET"},
    "DeleteItem": {"TableName": "plain", "Key": {"pk": {"N": "x"}}},
    "BatchWriteItem": {"RequestItems": {"plain": [{"PutRequest": {"Item": LARGE}}]}},
    "TransactWriteItems": {"TransactItems": [{"Put": {"TableName": "plain", "Item": LARGE}}]},
}


@pytest.mark.parametrize("operation", REFUSED)
def test_what_a_request_alone_shows_to_be_wrong_begins_no_transaction(plain: Engine, operation: str) -> None:
    with statements(plain) as found, pytest.raises(ValidationException):
        plain.execute(operation, REFUSED[operation])
    assert found == []


def test_a_group_with_a_refused_write_keeps_the_other_writes(plain: Engine) -> None:
    good = Pending("PutItem", {"TableName": "plain", "Item": item(2000)})
    refused = Pending(
        "PutItem", {"TableName": "plain", "Item": item(2001), "ConditionExpression": "attribute_exists(q)"}
    )
    last = Pending("DeleteItem", {"TableName": "plain", "Key": key(3)})
    answers = plain.answer_many([good, refused, last])
    assert answers[0] == b"{}" and answers[2] == b"{}"
    assert getattr(answers[1], "code", "") == "ConditionalCheckFailedException"
    assert "Item" in plain.execute("GetItem", {"TableName": "plain", "Key": key(2000)})
    assert "Item" not in plain.execute("GetItem", {"TableName": "plain", "Key": key(2001)})
    assert "Item" not in plain.execute("GetItem", {"TableName": "plain", "Key": key(3)})


def test_a_page_reads_little_more_than_its_limit(plain: Engine) -> None:
    request = {"TableName": "plain", "Limit": 3}
    with statements(plain) as found:
        plain.execute("Scan", request)
    assert len(found) == 1 and found[0].endswith("LIMIT 3")


def test_a_refused_request_reads_no_table(plain: Engine) -> None:
    with statements(plain) as found, pytest.raises(ValidationException, match="does not match the schema"):
        plain.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "a"}}})
    assert len(found) == 1 and found[0].endswith("'catalog'"), "was the error due to a stale catalog?"


def test_a_refused_write_leaves_the_catalog_cached(plain: Engine) -> None:
    put = {"TableName": "plain", "Item": item(1), "ConditionExpression": "attribute_not_exists(pk)"}
    for _ in range(2):
        with statements(plain) as found, pytest.raises(ConditionalCheckFailedException):
            plain.execute("PutItem", put)
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", "INSERT", "SELECT", "ROLLBACK"]


def test_a_put_that_wants_no_item_takes_no_look_at_it(plain: Engine, decoded: list[Any]) -> None:
    put = {"TableName": "plain", "Item": item(4000), "ConditionExpression": "attribute_not_exists(pk)"}
    with statements(plain) as found:
        assert plain.answer("PutItem", put) == b"{}"
    assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", "INSERT", "COMMIT"]
    assert found[1].endswith("'catalog'")
    assert decoded == []


def test_counting_a_large_table_keeps_few_of_its_pages(plain: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.operations.table_description.COUNTED_EXACTLY", 100)
    (usual,) = plain.store.connection().execute("PRAGMA cache_size").fetchone()
    with statements(plain) as found:
        assert plain.execute("DescribeTable", {"TableName": "plain"})["Table"]["ItemCount"] == 120
    first, *_, last = [one for one in found if one.startswith("PRAGMA cache_size =")]
    assert first == "PRAGMA cache_size = -1024"
    assert last == f"PRAGMA cache_size = {usual}"
