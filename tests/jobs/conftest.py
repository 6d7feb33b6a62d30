"""A store on every database: the engine on a file (or in memory), our server, moto, PENSTOCK_JOBS_URL."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from job_worlds import START, new_store

import penstock
from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.jobs.store.store import JobStore
from penstock.server.server import running_server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


ELSEWHERE = os.environ.get("PENSTOCK_JOBS_URL", "")
"""Another server on this machine, such as DynamoDB Local."""


@pytest.fixture(params=["file", "http", "moto", *(["elsewhere"] if ELSEWHERE else [])])
def db(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The engine's own clock is the machine's: what the store takes for expired is not deleted yet."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "http":
        with Engine() as engine, running_server(engine) as server, connect(server.url) as db:
            yield db
        return
    moto = request.param == "moto"
    with connect(request.getfixturevalue("moto_url") if moto else _url(request.param, tmp_path)) as db:
        yield db


def _url(kind: str, folder: Path) -> str:
    if kind != "elsewhere":
        return ":memory:" if kind == "memory" else str(folder / "jobs.db")
    assert ELSEWHERE.startswith(("http://127.0.0.1:", "http://localhost:"))
    return ELSEWHERE


@pytest.fixture
def transactions_are_isolated(db: Database) -> None:
    """Not so in moto: a transaction that is refused puts the table back as it was when it began, whoever wrote it."""
    if db.name.startswith("http") and is_moto(db.name):
        pytest.skip("moto's transactions undo what others write meanwhile")


def is_moto(url: str) -> bool:
    try:
        with urlopen(f"{url}/moto-api/config", timeout=60):
            return True
    except HTTPError:  # another server does not know it
        return False


@pytest.fixture
def store(db: Database, clock: ManualClock) -> Iterator[JobStore]:
    """In a table of its own."""
    table = f"jobs-{secrets.token_hex(4)}"
    yield new_store(db, clock, table)
    db.execute("DeleteTable", {"TableName": table})


@pytest.fixture(params=["memory", "file", *(["elsewhere"] if ELSEWHERE else [])])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.App]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    url = {"memory": ":memory:", "file": str(tmp_path / "jobs.db"), "elsewhere": ELSEWHERE}[request.param]
    table = f"jobs-{secrets.token_hex(4)}"
    with penstock.App(url, table=table, files=tmp_path / "files") as app:
        yield app
        app.store.db.execute("DeleteTable", {"TableName": table})
