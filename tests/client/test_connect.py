"""connect() and Database."""

from __future__ import annotations

import pytest

import penstock
from penstock.clock import ManualClock
from penstock.errors import ResourceNotFoundException, ValidationException

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def test_execute_takes_and_gives_dynamodbs_json():
    with penstock.connect(":memory:") as db:
        db.execute("CreateTable", TABLE)
        item = {"id": {"S": "1"}, "body": {"B": "aGVsbG8="}, "tries": {"N": "3"}}
        db.execute("PutItem", {"TableName": "jobs", "Item": item})
        assert db.execute("GetItem", {"TableName": "jobs", "Key": {"id": {"S": "1"}}}) == {"Item": item}


def test_a_request_may_be_left_out():
    with penstock.connect() as db:
        assert db.execute("ListTables") == {"TableNames": []}


def test_errors_are_dynamodbs():
    with penstock.connect() as db:
        with pytest.raises(ResourceNotFoundException):
            db.execute("GetItem", {"TableName": "jobs", "Key": {"id": {"S": "1"}}})
        with pytest.raises(ValidationException):
            db.execute("GetItem", {})


def test_each_memory_database_is_its_own():
    with penstock.connect() as one, penstock.connect() as other:
        one.execute("CreateTable", TABLE)
        assert other.execute("ListTables") == {"TableNames": []}


def test_a_file_keeps_what_was_written(tmp_path):
    path = tmp_path / "jobs.db"
    with penstock.connect(path) as db:
        db.execute("CreateTable", TABLE)
    with penstock.connect(str(path)) as db:
        assert db.execute("ListTables") == {"TableNames": ["jobs"]}
        assert repr(db) == f"Database({str(path)!r})"


def test_closing_twice_does_nothing():
    db = penstock.connect()
    db.close()
    db.close()


def test_a_closed_database_says_so(tmp_path):
    for url in (":memory:", tmp_path / "jobs.db"):
        db = penstock.connect(url)
        db.close()
        with pytest.raises(penstock.PenstockError, match="closed"):
            db.execute("ListTables")


def test_an_unknown_scheme_is_refused_by_name():
    with pytest.raises(penstock.PenstockError, match="postgres"):
        penstock.connect("postgres://localhost/jobs")


@pytest.mark.parametrize("url", ["http://localhost:8000", "aws://eu-west-2"])
def test_opening_a_remote_database_sends_nothing_yet(url):
    with penstock.connect(url) as db:
        assert db.name == url
        with pytest.raises(penstock.PenstockError, match="is remote"):
            _ = db.engine


def test_the_engines_options_are_refused_for_a_remote_database():
    with pytest.raises(penstock.PenstockError, match="clock, settings and buckets"):
        penstock.connect("http://localhost:8000", clock=ManualClock())
