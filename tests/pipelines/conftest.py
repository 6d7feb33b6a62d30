"""A store for pipelines: embedded; for some tests also moto's DynamoDB and S3, and what is at PENSTOCK_TABLES_URL."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.database import Database, connect
from penstock.client.transports.credentials import new_session
from penstock.clock import ManualClock
from penstock.files import Files, open_files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.store.store import JobStore

START = 1_900_000_000.0
ELSEWHERE = os.environ.get("PENSTOCK_TABLES_URL", "")
"""Another server on this machine, such as DynamoDB Local."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def store(clock: ManualClock, tmp_path: Path) -> Iterator[JobStore]:
    with connect(":memory:") as db:
        yield made_store(db, clock, open_files(tmp_path / "files"))


@pytest.fixture(params=["embedded", "moto", *(["elsewhere"] if ELSEWHERE else [])])
def any_store(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobStore]:
    """In a table of its own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    url = str(tmp_path / "jobs.db") if request.param == "embedded" else ELSEWHERE
    home = open_files(tmp_path / "files")
    if request.param == "moto":
        url = request.getfixturevalue("moto_url")
        home = request.getfixturevalue("bucket")
    with connect(url) as db:
        store = made_store(db, clock, home)
        yield store
        db.execute("DeleteTable", {"TableName": store.layout.table})


@pytest.fixture(scope="session")
def s3(moto_url: str) -> Any:
    """One client for all tests: making one takes a third of a second."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return new_session(None).create_client("s3", endpoint_url=moto_url, region_name="us-east-1", **keys)


@pytest.fixture
def bucket(s3: Any) -> Files:
    name = f"bucket-{secrets.token_hex(6)}"
    s3.create_bucket(Bucket=name)
    return open_files(f"s3://{name}/runs", client=s3)


def made_store(db: Database, clock: ManualClock, home: Files) -> JobStore:
    layout = CollectionLayout(f"jobs-{secrets.token_hex(4)}", shards=2)
    store = JobStore(db, layout, files=home, clock=clock)
    store.create_tables()
    return store
