"""The databases that tests of records run on: a file, our own server, moto's, and any other of this machine.

PENSTOCK_TABLES_URL=http://127.0.0.1:8000 is where DynamoDB Local, or another server, runs: all its tables are deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.tables.apply.apply import delete

ELSEWHERE = os.environ.get("PENSTOCK_TABLES_URL", "")
"""Another server of this machine."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """A file."""
    with connect(tmp_path / "records.db") as db:
        yield db


@pytest.fixture(params=["embedded", "http", "moto", *(["elsewhere"] if ELSEWHERE else [])])
def any_db(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "embedded":
        yield from opened(str(tmp_path / "records.db"))
    elif request.param == "http":
        with Engine() as engine, running_server(engine) as server:
            yield from opened(server.url)
    elif request.param == "moto":
        yield from opened(request.getfixturevalue("empty_moto_url"))
    else:
        assert ELSEWHERE.startswith(("http://127.0.0.1:", "http://localhost:")), (
            "PENSTOCK_TABLES_URL is of this machine"
        )
        yield from opened(ELSEWHERE)


def opened(url: str) -> Iterator[Database]:
    """Without any tables."""
    with connect(url) as db:
        for table in db.tables():
            delete(db, table)
        yield db
