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
from penstock.server.run import running_server
from penstock.tables.single import delete


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """A file."""
    with connect(tmp_path / "records.db") as db:
        yield db


@pytest.fixture(params=["embedded", "http", "moto", "elsewhere"])
def any_db(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "embedded":
        yield from opened(str(tmp_path / "records.db"))
    elif request.param == "http":
        with Engine() as engine, running_server(engine) as server:
            yield from opened(server.url)
    elif request.param == "moto":
        yield from on_moto()
    else:
        url = os.environ.get("PENSTOCK_TABLES_URL", "")
        if not url.startswith(("http://127.0.0.1:", "http://localhost:")):
            pytest.skip("PENSTOCK_TABLES_URL names no server of this machine, such as DynamoDB Local")
        yield from opened(url)


def opened(url: str) -> Iterator[Database]:
    """Without any tables."""
    with connect(url) as db:
        for table in db.tables():
            delete(db, table)
        yield db


def on_moto() -> Iterator[Database]:
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield from opened(f"http://{host}:{port}")
    finally:
        running.stop()
