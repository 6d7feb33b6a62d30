"""One item through `up`, and the conditional write. Numbers are the invariants of transform.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.database import Database, connect
from penstock.client.items.expressions import F
from penstock.client.items.keys import TableKey
from penstock.client.items.values import decode_item, encode_item
from penstock.errors import ConditionalCheckFailedException
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table
from penstock.tables.migrations import DELETE
from penstock.tables.migrations.migration import Migration
from penstock.tables.migrations.transform import (
    MOST_COMPARED,
    BadResult,
    Changed,
    Failed,
    Transform,
    Unchanged,
    write_call,
)

KEY = TableKey.parse("id:S")


def transform(up: Callable[[Any], Any], **members: Any) -> Transform:
    return Transform(Migration(Path("0003_x.py"), 3, "users", up, "sum", **members), KEY)


def change(up: Callable[[Any], Any], item: dict[str, Any], **members: Any) -> Changed:
    found = transform(up, **members)(encode_item(item))
    assert isinstance(found, Changed), found
    return found


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as db:
        make(db, Table("users", key="id:S"), "users")
        yield db


def rename(item: dict[str, Any]) -> dict[str, Any]:
    item["full"] = item.pop("name")
    return item


def write(db: Database, change: Changed, guard: str | None = None) -> None:
    db.execute(*write_call("users", KEY, change, guard))


def test_only_what_changed_is_written_and_what_others_add_stays(db: Database) -> None:
    """(1)"""
    users = db.table("users")
    users.put({"id": "1", "name": "Ada", "tags": {"a", "b"}, "age": 36})
    made = change(rename, users.get({"id": "1"}) or {})
    users.update({"id": "1"}, set={"seen": True})
    write(db, made)
    assert users.get({"id": "1"}) == {"id": "1", "full": "Ada", "tags": {"a", "b"}, "age": 36, "seen": True}


@pytest.mark.parametrize("by_others", [{"age": 37}, {"name": "Eve"}, {"full": "Eve"}, {"looked_for": 1}])
def test_a_write_of_others_to_anything_that_up_saw_refuses_it(db: Database, by_others: dict[str, Any]) -> None:
    """(2)"""

    def up(item: dict[str, Any]) -> dict[str, Any]:
        assert "looked_for" not in item
        return rename(item)

    users = db.table("users")
    users.put({"id": "1", "name": "Ada", "age": 36})
    made = change(up, users.get({"id": "1"}) or {})
    users.update({"id": "1"}, set=by_others)
    with pytest.raises(ConditionalCheckFailedException) as refused:
        write(db, made)
    assert decode_item(refused.value.item or {}) == {"id": "1", "name": "Ada", "age": 36, **by_others}


def test_a_deleted_item_does_not_come_back(db: Database) -> None:
    made = change(lambda item: {**item, "new": 1}, {"id": "1"})
    with pytest.raises(ConditionalCheckFailedException):
        write(db, made)
    assert db.table("users").get({"id": "1"}) is None


@pytest.mark.parametrize("attributes", [MOST_COMPARED - 3, MOST_COMPARED, 700])
def test_items_of_hundreds_of_attributes_are_compared_in_what_up_read(db: Database, attributes: int) -> None:
    """(3)"""
    users = db.table("users")
    users.put({"id": "1", "name": "Ada", **{f"attribute-{n}": n for n in range(attributes)}})
    made = change(rename, users.get({"id": "1"}) or {})
    users.update({"id": "1"}, set={"name": "Eve"})
    with pytest.raises(ConditionalCheckFailedException):
        write(db, made)
    made = change(rename, users.get({"id": "1"}) or {})
    write(db, made)
    assert (users.get({"id": "1"}) or {})["full"] == "Eve"


def test_an_item_that_was_read_whole_and_is_too_wide_needs_a_guard(db: Database) -> None:
    """(3)"""

    def up(item: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in item.items() if name != "name"}

    users = db.table("users")
    users.put({"id": "1", "name": "Ada", "rev": 1, **{f"a{n}": n for n in range(300)}})
    made = change(up, users.get({"id": "1"}) or {})
    with pytest.raises(BadResult, match='guard = "revision"'):
        write(db, made)
    users.update({"id": "1"}, set={"a7": 0, "rev": 2})
    with pytest.raises(ConditionalCheckFailedException):
        write(db, made, "rev")
    write(db, change(up, users.get({"id": "1"}) or {}), "rev")
    assert "name" not in (users.get({"id": "1"}) or {})


def test_a_change_of_too_many_attributes_is_refused_before_it_is_sent() -> None:
    made = change(lambda item: {"id": item["id"], **{f"b{n}": n for n in range(400)}}, {"id": "1"}, guard="rev")
    with pytest.raises(BadResult, match="would have to be compared"):
        write_call("users", KEY, made, "rev")


@pytest.mark.parametrize(
    ("up", "told"),
    [
        (lambda item: None, "returned None: end it with `return item`"),
        (lambda item: "x", "returned str, not an item"),
        (lambda item: {**item, "id": "2"}, "changes id, .* rekey"),
        (lambda item: {"name": "x"}, "changes id"),
        (lambda item: {**item, "x": object()}, "x: "),
        (lambda item: item["missing"], "missing"),
    ],
)
def test_what_cannot_be_written_fails_that_item(up: Callable[[Any], Any], told: str) -> None:
    """(4, 5)"""
    found = transform(up)(encode_item({"id": "1"}))
    assert isinstance(found, Failed)
    assert re.search(told, found.message)


def test_delete_deletes_the_item_as_it_was_read(db: Database) -> None:
    """(5)"""
    users = db.table("users")
    users.put({"id": "1", "old": True})
    made = change(lambda item: DELETE if item.get("old") else item, {"id": "1", "old": True})
    users.update({"id": "1"}, set={"old": False})
    with pytest.raises(ConditionalCheckFailedException):
        write(db, made)
    users.update({"id": "1"}, set={"old": True})
    write(db, made)
    assert users.get({"id": "1"}) is None


def test_a_version_says_what_is_done_and_is_written(db: Database) -> None:
    """(6)"""

    def up(item: dict[str, Any]) -> dict[str, Any]:
        item["price"] *= 100
        return item

    found = transform(up, version="schema")
    made = found(encode_item({"id": "1", "price": 2}))
    assert isinstance(made, Changed)
    assert decode_item(made.after or {}) == {"id": "1", "price": 200, "schema": 3}
    assert found.is_stable(made.after or {})
    assert not transform(up).is_stable(made.after or {})
    assert isinstance(found(encode_item({"id": "1", "schema": "x"})), Failed)


@pytest.mark.parametrize("where", [F("kind") == "a", lambda item: item.get("kind") == "a"])
def test_items_that_where_does_not_select_stay(where: Any) -> None:
    found = transform(lambda item: {**item, "new": 1}, where=where)
    assert isinstance(found(encode_item({"id": "1", "kind": "b"})), Unchanged)
    assert isinstance(found(encode_item({"id": "1", "kind": "a"})), Changed)


def test_sets_in_another_order_and_numbers_written_otherwise_are_no_change() -> None:
    item = {"id": {"S": "1"}, "tags": {"SS": ["b", "a"]}, "n": {"N": "100"}}
    assert isinstance(transform(lambda item: dict(item))(item), Unchanged)
