"""The commands that move data, on a server: other code paths than in process, with several requests in flight.

PENSTOCK_TABLES_URL=http://… runs the same test against any other DynamoDB endpoint.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moving_samples import ORDERS, everything, order
from rekey_world import NEW_KEY, OLD, Writer, check_new_table, comment

from penstock.client.database import Database, connect
from penstock.tables import dumping, loading_data
from penstock.tables.comparing import compare
from penstock.tables.inspection import inspect
from penstock.tables.rekey import Options, Rekey
from penstock.tables.rekey_plan import plan
from penstock.tables.rekey_state import JobStore
from penstock.tables.single import make
from penstock.tables.transfers import ItemTable

COUNT = 400


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    if given := os.environ.get("PENSTOCK_TABLES_URL"):
        yield given
        return
    command = [Path(sys.executable).with_name("penstock"), "serve", "--memory", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def db(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTABLES")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with connect(url) as found:
        yield found
        for name in ("orders", "copy", "old", "new", "penstock-rekey"):
            if inspect(found, name) is not None:
                found.execute("DeleteTable", {"TableName": name})


def test_a_dump_is_loaded_and_the_two_tables_are_the_same(db: Database, tmp_path: Path) -> None:
    make(db, ORDERS, "orders")
    orders = ItemTable.of(db, "orders")
    orders.write(order(number) for number in range(COUNT))
    assert dumping.dump(db, "orders", tmp_path / "out", part_bytes=20_000).items == COUNT
    assert loading_data.load(db, tmp_path / "out", "copy", create=True).items == COUNT
    assert compare(orders, ItemTable.of(db, "copy"), page_items=30).same


def test_a_key_is_changed_beside_a_writer(db: Database) -> None:
    make(db, OLD, "old")
    ItemTable.of(db, "old").write(comment(number) for number in range(COUNT))
    writer = Writer(db, COUNT)
    writer.start()
    run = Rekey(db, JobStore(db), Options(page_items=50))
    run.start(plan(db, "old", "new", NEW_KEY))
    writer.finish()
    assert run.confirm("old", quiet_seconds=0.0).phase == "confirmed"
    check_new_table(db, writer.known)
    assert len(everything(db, "new")) == len(writer.known)
