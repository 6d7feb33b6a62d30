"""Two tables compared: counts, what is missing, what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from moving_samples import ORDERS, filled, order

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.errors import PenstockError
from penstock.tables.apply.apply import make
from penstock.tables.data.compare import Difference, compare
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Table


def other_orders(db: Database, numbers: range) -> tuple[ItemTable, ItemTable]:
    make(db, ORDERS, "copy")
    copy = ItemTable.of(db, "copy")
    copy.write(order(number) for number in numbers)
    return ItemTable.of(db, "orders"), copy


def test_two_tables_with_the_same_items_are_the_same() -> None:
    with filled() as db:
        found = compare(*other_orders(db, range(300)), page_items=20)
        assert found.same
        assert (found.first_items, found.second_items) == (300, 300)


def test_what_is_missing_on_either_side_and_what_differs_is_counted_and_named() -> None:
    with filled() as db:
        first, second = other_orders(db, range(10, 310))
        second.write([order(50, day={"S": "never"}, more={"BOOL": False})])
        found = compare(first, second, shown=1_000, page_items=20)
        assert (found.only_in_first, found.only_in_second, found.different) == (10, 10, 1)
        key = {"customer": {"S": "c1"}, "number": {"N": "50"}}
        assert Difference("different", key, ("day", "more")) in found.differences
        assert len(found.differences) == 21


def test_only_so_many_are_kept_but_all_are_counted() -> None:
    with filled() as db:
        found = compare(*other_orders(db, range(0)), shown=3)
        assert (found.only_in_first, len(found.differences)) == (300, 3)


def test_sets_have_no_order_and_ignored_attributes_do_not_count() -> None:
    with filled(count=1) as db:
        first, second = other_orders(db, range(0))
        second.write([order(0, tags={"SS": ["ü", "a"]}, day={"S": "other"})])
        assert compare(first, second, ignored=frozenset({"day"})).same


def test_tables_with_different_keys_are_refused() -> None:
    with filled(count=1) as db:
        make(db, Table("other", key="id:S"), "other")
        with pytest.raises(PenstockError, match="different keys"):
            compare(ItemTable.of(db, "orders"), ItemTable.of(db, "other"))


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_the_counts_are_those_of_sets(first: set[int], second: set[int], changed: set[int]) -> None:
    with connect() as db:
        for name, numbers in (("orders", first), ("copy", second)):
            make(db, ORDERS, name)
            items = [order(one, v={"N": "1"}) if name == "copy" and one in changed else order(one) for one in numbers]
            ItemTable.of(db, name).write(items)
        found = compare(ItemTable.of(db, "orders"), ItemTable.of(db, "copy"), page_items=3, segments=3)
    told = (found.only_in_first, found.only_in_second, found.different)
    assert told == (len(first - second), len(second - first), len(first & second & changed))


def test_the_command_compares_two_databases_and_exits_with_7_where_they_differ(tmp_path: Path) -> None:
    one, two = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    with filled(one, count=30), filled(two, count=29):
        pass
    words = ["tables", "diff-data", "orders", "orders", "--db", one, "--other-db", two]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 7
    assert told.output == (
        f"orders in {one}: 30 items, orders in {two}: 29 items\n"
        f"1 only in orders in {one}, 0 only in orders in {two}, 0 different\n"
        f"  - customer=c1, number=29  only in orders in {one}\n"
    )
    assert json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)["only_in_first"] == 1
    same = CliRunner().invoke(cli, ["tables", "diff-data", "orders", "orders", "--db", one])
    assert (same.exit_code, same.output.splitlines()[-1]) == (0, "The same.")
    missing = CliRunner().invoke(cli, ["tables", "diff-data", "orders", "nothing", "--db", one])
    assert missing.exit_code == 1
    assert "There is no table nothing" in missing.output
