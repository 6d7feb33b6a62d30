"""What a poll of an empty queue costs on the embedded engine: beside many writes of others, a worker does many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.database import Database, connect
from penstock.jobs.model.job import NewJob
from penstock.jobs.store.store import JobStore


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return connect(tmp_path / "x.db")


def test_a_poll_reads_its_pools_in_one_snapshot(db: Database) -> None:
    store = JobStore(db)
    store.ensure_tables()
    store.claimable("default", 96, evenly=True)  # it is prepared, and finds out which tables there are
    statements: list[str] = []
    connection = db.engine.store.connection()
    connection.set_trace_callback(statements.append)
    store.claimable("default", 96, evenly=True)
    connection.set_trace_callback(None)
    assert [one for one in statements if one in ("BEGIN", "COMMIT")] == ["BEGIN", "COMMIT"]
    assert sum(one.startswith("SELECT r.key") for one in statements) == 2 * store.layout.shards
    assert len(statements) <= 2 * store.layout.shards + 3  # and the catalog's version
    db.close()


@pytest.mark.parametrize("limit", [1, 3, 96])
def test_pools_read_together_are_those_read_one_by_one(
    db: Database, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    store = JobStore(db)
    store.ensure_tables()
    jobs = [NewJob("task", {}, priority=number % 3, delay_seconds=number % 2 * 3_600.0) for number in range(40)]
    store.create_all(jobs)
    together = store.claimable("default", limit, evenly=limit > 1, tasks=["task"])
    apart = replace(store.db.capabilities, shares_commits=False)
    monkeypatch.setattr(store.db, "capabilities", apart)
    assert store.claimable("default", limit, evenly=limit > 1, tasks=["task"]) == together
    assert together.jobs
    assert together.next_at is not None
    db.close()
