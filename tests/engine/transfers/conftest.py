"""A database with a folder of buckets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from transfer_work import BUCKET

from penstock.client.database import Database, connect
from penstock.clock import ManualClock


@pytest.fixture
def buckets(tmp_path: Path) -> Path:
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    return tmp_path / "buckets"


@pytest.fixture
def bucket(buckets: Path) -> Path:
    return buckets / BUCKET


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_795_000_000.0)


@pytest.fixture
def db(buckets: Path, tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    with connect(tmp_path / "shop.db", buckets=buckets, clock=clock) as found:
        yield found
