"""The databases that tests of tables run on: a file, our own server, moto's server, and any other of this machine.

PENSTOCK_TABLES_URL=http://127.0.0.1:8000 is where DynamoDB Local, or another server, runs: all its tables are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import ELSEWHERE, PLAIN, SERVERS

from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.tables.apply.apply import apply
from penstock.tables.plan.survey import survey_to_delete


@pytest.fixture(params=["embedded", *SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "embedded":
        yield str(tmp_path / "tables.db")
    elif request.param == "http":
        with Engine() as engine, running_server(engine) as server:
            yield server.url
    elif request.param == "moto":
        yield request.getfixturevalue("empty_moto_url")
    else:
        yield emptied_server()


def emptied_server() -> str:
    """DynamoDB Local, or another server of this machine; all its tables are deleted."""
    assert ELSEWHERE.startswith(("http://127.0.0.1:", "http://localhost:")), "PENSTOCK_TABLES_URL is of this machine"
    with connect(ELSEWHERE) as db:
        apply(db, survey_to_delete(db, db.tables(), PLAIN))
    return ELSEWHERE


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    with connect(url) as db:
        yield db
