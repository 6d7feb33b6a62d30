"""The databases that tests of tables run on: a file, our own server, moto's server, and any other of this machine.

PENSTOCK_TABLES_URL=http://127.0.0.1:8000 is where DynamoDB Local, or another server, runs: all its tables are deleted.
PENSTOCK_MOTO_URL=http://127.0.0.1:5000 is where a moto server runs, where moto is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from fleets import PLAIN

from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.server.run import running_server
from penstock.tables.apply import apply
from penstock.tables.survey import survey_to_delete


@pytest.fixture(params=["embedded", "http", "moto", "elsewhere"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "embedded":
        yield str(tmp_path / "tables.db")
    elif request.param == "http":
        with Engine() as engine, running_server(engine) as server:
            yield server.url
    elif request.param == "moto":
        yield from moto_server()
    else:
        yield emptied_server()


def emptied_server() -> str:
    """DynamoDB Local, or another server of this machine, at PENSTOCK_TABLES_URL; all its tables are deleted."""
    url = os.environ.get("PENSTOCK_TABLES_URL", "")
    if not url.startswith(("http://127.0.0.1:", "http://localhost:")):
        pytest.skip("PENSTOCK_TABLES_URL names no server of this machine, such as DynamoDB Local")
    with connect(url) as db:
        apply(db, survey_to_delete(db, db.tables(), PLAIN))
    return url


def moto_server() -> Iterator[str]:
    """The one that runs at PENSTOCK_MOTO_URL; else one of our own, where moto is installed. Emptied, either way."""
    running_at = os.environ.get("PENSTOCK_MOTO_URL")
    if running_at:
        yield emptied_moto(running_at)
        return
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield emptied_moto(f"http://{host}:{port}")
    finally:
        running.stop()


def emptied_moto(url: str) -> str:
    """Its tables are the process's: those of an earlier server are there still."""
    urlopen(Request(f"{url}/moto-api/reset", method="POST"), timeout=60).close()
    return url


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    with connect(url) as db:
        yield db
