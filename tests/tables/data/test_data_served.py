"""The commands that move data, on servers: other code paths than in process, with several requests in flight."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleets import SERVERS
from moving_samples import ORDERS, everything, order
from rekey_world import NEW_KEY, OLD, Writer, check_new_table, comment

from penstock.client.database import Database
from penstock.tables.apply.apply import make
from penstock.tables.data import dump as dumping
from penstock.tables.data.compare import compare
from penstock.tables.data.dump import load
from penstock.tables.data.transfers import ItemTable
from penstock.tables.plan.survey import inspect, require_table
from penstock.tables.rekey.phases import Options, Rekey, plan_rekey
from penstock.tables.rekey.state import RekeyStore

COUNT = 120

pytestmark = pytest.mark.parametrize("url", SERVERS, indirect=True)


def test_a_dump_is_loaded_and_the_two_tables_are_the_same(db: Database, tmp_path: Path) -> None:
    make(db, ORDERS, "orders")
    orders = ItemTable.of(db, "orders")
    orders.write(order(number) for number in range(COUNT))
    assert dumping.dump(db, "orders", tmp_path / "out", part_bytes=20_000).items == COUNT
    assert load(db, tmp_path / "out", "copy", create=True).items == COUNT
    assert compare(orders, ItemTable.of(db, "copy"), page_items=10).same


def test_a_key_is_changed_beside_a_writer(db: Database) -> None:
    make(db, OLD, "old")
    ItemTable.of(db, "old").write(comment(number) for number in range(COUNT))
    writer = Writer(db, COUNT)
    writer.start()
    run = Rekey(db, RekeyStore(db), Options(page_items=20))
    run.start(plan_rekey(db, "old", "new", NEW_KEY))
    writer.finish()
    assert run.confirm("old", quiet_seconds=0.0).phase == "confirmed"
    check_new_table(db, writer.known)
    assert len(everything(db, "new")) == len(writer.known)


def test_a_rekey_is_rolled_back(db: Database) -> None:
    make(db, OLD, "old")
    ItemTable.of(db, "old").write(comment(number) for number in range(50))
    run = Rekey(db, RekeyStore(db), Options(page_items=20))
    run.start(plan_rekey(db, "old", "new", NEW_KEY))
    run.rollback("old")
    assert inspect(db, "new") is None
    assert require_table(db, "old").table.stream is None
    assert len(everything(db, "old")) == 50
