"""Item 18 of the five systems: records that other programs write, with nothing but the seed's attributes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from accounts_world import LAYOUTS, model, stored
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.records.record_state import BOOKKEEPING
from penstock.server.server import running_server
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.models.record import Record, RecordModel, with_state
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.account_records.services.record_processor import RecordProcessor
from penstock.systems.account_records.tables import PENDING_SHARD

ACCOUNTS = ("Müller & Söhne", "株式会社", "ACC-3")


Put = Callable[[RecordModel, int], None]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Engine() as engine, running_server(engine) as server:
        yield server.url


@pytest.fixture(scope="module")
def put_by_boto3(url: str) -> Put:
    """What another program does: it knows the table and its attributes, and no shard."""
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
    client = boto3.client("dynamodb", endpoint_url=url, **keys)  # type: ignore[call-overload]

    def put(records: RecordModel, number: int) -> None:
        for one in range(number):
            item = {
                "AccountId": {"S": ACCOUNTS[one % len(ACCOUNTS)]},
                "RunTime": {"S": f"2026-03-01T08:{one:02d}:00Z"},
                "Processed": {"N": "0"},
                "Betrag": {"N": str(one)},
            }
            client.put_item(TableName=records.table.name, Item=item)

    return put


@pytest.fixture(params=LAYOUTS)
def records(request: pytest.FixtureRequest, url: str) -> Iterator[RecordModel]:
    name = f"Records-{request.param}-{request.node.name.partition('[')[0][-60:]}"
    with connect(url) as db:
        create_tables(db, Config(record_table=name), request.param)
        yield RecordModel(db, table=name)


def test_records_that_boto3_puts_are_found_in_order_and_processed(put_by_boto3: Put, records: RecordModel) -> None:
    put_by_boto3(records, 12)
    found = list(records.query_unprocessed())
    assert len(found) == 12
    assert all(set(one) == {"AccountId", "RunTime", "Processed", "Betrag"} for one in found), "as it was put"
    if records.layout == "safe":
        assert [one["Betrag"] for one in found] == list(range(12))
    report = RecordProcessor(records).process_all(lambda one: {"Gelesen": one["Betrag"] * 2})
    assert (report.processed, len(report)) == (12, 0)
    assert sorted(one["Gelesen"] for one in records.query_processed()) == [2 * n for n in range(12)]
    assert list(records.query_unprocessed()) == []


def test_processing_alone_finds_them_and_so_does_counting(put_by_boto3: Put, records: RecordModel) -> None:
    put_by_boto3(records, 7)
    processor = RecordProcessor(records)
    assert processor.count() == 7
    assert processor.process_all(lambda one: None).processed == 7
    assert processor.count() == 0


def test_a_record_that_another_program_sets_back_or_marks_is_in_its_new_state(
    put_by_boto3: Put, records: RecordModel
) -> None:
    """UpdateItem of `Processed` alone, in both directions."""
    put_by_boto3(records, 2)
    RecordProcessor(records).process_all(lambda one: None)
    back, done = ({"AccountId": ACCOUNTS[n], "RunTime": f"2026-03-01T08:0{n}:00Z"} for n in (0, 1))
    records.table.update(back, set={"Processed": 0})
    assert [one["AccountId"] for one in records.query_unprocessed()] == [ACCOUNTS[0]]
    records.put_item({**done, "Betrag": 5})
    records.table.update(done, set={"Processed": 1})
    ran: list[Record] = []
    RecordProcessor(records).process_all(ran.append)
    assert [one["AccountId"] for one in ran] == [ACCOUNTS[0]], "the other is marked already"
    assert len(list(records.query_processed())) == 2
    hidden = {PENDING_SHARD, BOOKKEEPING}
    assert not any(hidden & set(item) for item in records.table.scan())


def test_two_processors_adopt_and_run_each_record_once(put_by_boto3: Put, records: RecordModel) -> None:
    put_by_boto3(records, 30)
    runs: list[int] = []

    def work() -> None:
        RecordProcessor(RecordModel(records.db, table=records.table.name)).process_all(
            lambda one: runs.append(one["Betrag"])
        )

    threads = [threading.Thread(target=work) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(runs) == list(range(30))


def test_a_model_that_alone_writes_records_need_not_read_the_table(url: str) -> None:
    with connect(url) as db:
        create_tables(db, Config(record_table="Own"))
        db.table("Own").put({"AccountId": "a", "RunTime": "1", "Processed": 0})
        own = RecordModel(db, table="Own", adopt=False)
        assert list(own.query_unprocessed()) == []
        assert RecordModel(db, table="Own").adopt() == 1
        assert len(list(own.query_unprocessed())) == 1


def test_a_table_that_somebody_else_made_is_found_by_its_index_s_key() -> None:
    """Whatever the index of the number is called; without one, the error says what adds it."""
    with connect(":memory:") as db:
        table = {
            "TableName": "Records",
            "KeySchema": [
                {"AttributeName": "AccountId", "KeyType": "HASH"},
                {"AttributeName": "RunTime", "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in ("AccountId", "RunTime")],
            "BillingMode": "PAY_PER_REQUEST",
        }
        db.execute("CreateTable", table)
        with pytest.raises(PenstockError, match="no index by the number Processed"):
            list(model(db).query_unprocessed())
        db.execute(
            "UpdateTable",
            {
                "TableName": "Records",
                "AttributeDefinitions": [{"AttributeName": "Processed", "AttributeType": "N"}],
                "GlobalSecondaryIndexUpdates": [
                    {
                        "Create": {
                            "IndexName": "processed-index",
                            "KeySchema": [{"AttributeName": "Processed", "KeyType": "HASH"}],
                            "Projection": {"ProjectionType": "ALL"},
                        }
                    }
                ],
            },
        )
        db.table("Records").put({"AccountId": "a", "RunTime": "1", "Processed": 0})
        assert RecordProcessor(model(db)).process_all(lambda one: None).processed == 1


def test_the_report_is_the_list_that_the_document_shows(put_by_boto3: Put, records: RecordModel) -> None:
    put_by_boto3(records, 9)

    async def process_record(record: Record) -> None:
        await asyncio.sleep(0)
        if record["AccountId"] == ACCOUNTS[1]:
            raise ValueError(f"{record['RunTime']}: no such customer")

    errors = RecordProcessor(records, max_retries=1, backoff_base_ms=0).process_all(process_record)
    assert len(errors) == 3
    assert {error.AccountId for error in errors} == {ACCOUNTS[1]}
    assert sorted(error.RunTime for error in errors) == [f"2026-03-01T08:0{n}:00Z" for n in (1, 4, 7)]
    assert (errors[0].kind, errors[0].attempts, len(errors[1:])) == ("ValueError", 2, 2)
    assert (errors.processed, errors.failed, errors.attempts) == (6, 3, 12)
    assert errors.form()["failures_by_kind"] == {"ValueError": 3}
    assert not RecordProcessor(records).process_all(process_record), "nothing failed: an empty list"


def test_failed_records_are_shown_as_failed(put_by_boto3: Put, records: RecordModel) -> None:
    put_by_boto3(records, 3)

    def process_record(record: Record) -> None:
        if record["Betrag"] == 1:
            raise LookupError("no such customer")

    RecordProcessor(records, max_retries=0).process_all(process_record)
    (failed,) = records.query_failed(show=with_state)
    assert failed["_state"] == {
        "state": "failed",
        "attempts": 1,
        "kind": "LookupError",
        "message": "no such customer",
    }
    assert list(records.query_unprocessed(show=with_state)) == [failed]
    assert [set(one) & {"_state"} for one in records.query_failed()] == [set()]
    records.mark_as_processed(failed["AccountId"], failed["RunTime"])
    assert list(records.query_failed()) == []


WORK = """
import asyncio

async def handle(record):
    await asyncio.sleep(0)
    if record.get("Art") == "Storno":
        raise ValueError("Storno ohne Rechnung")
    return {"Ergebnis": "gebucht"}
"""
CSV = "\ufeffAccountId,RunTime,Art,Processed\nKunde 1,2026-03-01,Rechnung,0\nKunde 2,2026-03-02,Storno,\n"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_analyst_adds_a_csv_file_and_sees_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"buchung_{layout}"
    (tmp_path / f"{module}.py").write_text(WORK)
    (tmp_path / "export.csv").write_text(CSV)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["accounts", *words, "--db", "a.db"])

    assert run("create-tables", "--layout", layout).exit_code == 0
    assert run("add", "export.csv").stdout == "Added 2 records.\n"
    with connect("a.db") as db:  # and a third, put by somebody else
        db.table("Records").put({"AccountId": "Kunde 3", "RunTime": "2026-03-03", "Processed": 0})
    assert "3 records" in run("process", f"{module}:handle", "--dry-run").stdout
    done = run("process", f"{module}:handle", "--retries", "0")
    assert (done.exit_code, done.stdout.startswith("2 done, 1 failed (1 ValueError)")) == (3, True), done.output
    listed = run("list")
    assert listed.stdout == (
        'Kunde 2  2026-03-02  failed  {"Art":"Storno"}  ValueError: Storno ohne Rechnung (attempts: 1)\n'
    )
    assert "1 record, 1 failed" in listed.stderr
    assert run("list", "--failed").stdout == listed.stdout
    assert '"state":"failed"' in run("list", "--failed", "--json").stdout
    assert "failed" in run("show", "Kunde 2", "2026-03-02").stdout
    assert run("list", "--processed", "--no-adopt").stderr == "2 records\n"


@pytest.mark.parametrize(
    "data",
    [
        "AccountId;RunTime;Art\r\nMüller;2026-03-01;Gutschrift, Skonto\r\n".encode("cp1252"),
        "sep=;\r\nAccountId;RunTime;Art\r\nMüller;2026-03-01;Gutschrift, Skonto\r\n".encode("utf-8-sig"),
        "AccountId\tRunTime\tArt\nMüller\t2026-03-01\tGutschrift, Skonto\n".encode("utf-16"),
    ],
)
def test_a_csv_file_that_a_german_spreadsheet_saved_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_bytes(data)
    with connect("a.db") as db:
        create_tables(db, Config())
    result = CliRunner().invoke(cli, ["accounts", "add", "x.csv", "--db", "a.db"])
    assert result.stdout == "Added 1 record.\n", result.output
    with connect("a.db") as db:
        (record,) = RecordModel(db).query_unprocessed()
    assert record == {"AccountId": "Müller", "RunTime": "2026-03-01", "Art": "Gutschrift, Skonto", "Processed": 0}


def test_a_record_of_a_file_that_is_refused_is_named_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("a.db") as db:
        create_tables(db, Config())
    (tmp_path / "x.json").write_text('[{"AccountId": "a", "RunTime": "t"}, {"AccountId": 1, "RunTime": "t"}]')
    result = CliRunner().invoke(cli, ["accounts", "add", "x.json", "--db", "a.db"])
    assert result.exit_code == 1
    assert "record 2: AccountId" in result.stderr and "Added before it: 1 record." in result.stderr


def test_a_csv_file_without_its_columns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with connect("a.db") as db:
        create_tables(db, Config())
    for text, told in (("Kunde;Zeit\n1;2\n", "no column AccountId"), ("AccountId,RunTime\na,b,c\n", "more cells")):
        (tmp_path / "x.csv").write_text(text)
        result = CliRunner().invoke(cli, ["accounts", "add", "x.csv", "--db", "a.db"])
        assert result.exit_code == 1
        assert told in result.stderr
    with connect("a.db") as db:
        assert stored(db) == []


def test_adoption_waits_for_an_index_that_follows_its_table_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """DynamoDB's indexes do: the record would be missing in the query right after."""
    with connect(":memory:") as db:
        create_tables(db, Config())
        db.table("Records").put({"AccountId": "a", "RunTime": "1", "Processed": 0})
        late = _LateIndex(db)
        waits: list[float] = []
        records = RecordModel(late.database, table="Records", wait=lambda seconds: waits.append(seconds))
        assert records.adopt() == 1
        assert len(waits) == 2


class _LateIndex:
    """Answers the first two queries of an index with nothing."""

    def __init__(self, db: Database) -> None:
        self.database = db
        self.left = 2
        execute = db.execute

        def late(operation: str, request: dict[str, Any], *more: Any, **options: Any) -> dict[str, Any]:
            if operation == "Query" and self.left:
                self.left -= 1
                return {"Items": [], "Count": 0, "ScannedCount": 0}
            return execute(operation, request, *more, **options)

        db.execute = late  # type: ignore[method-assign]


def test_a_state_that_was_written_as_text_is_the_number() -> None:
    """Of 300 records of another program, six with "0" were neither found nor told."""
    with connect(":memory:") as db:
        create_tables(db, Config(record_table="Records"), "safe")
        records = RecordModel(db, table="Records")
        for minute, state in enumerate(("0", "1", 0, "x")):
            key = {"AccountId": "A", "RunTime": f"2026-03-01T08:0{minute}:00Z"}
            db.table("Records").put({**key, "Processed": state})
        assert [(one["RunTime"][14:16], one["Processed"]) for one in records.query_unprocessed()] == [
            ("00", 0),
            ("02", 0),
        ]
        assert [one["RunTime"][14:16] for one in records.query_processed()] == ["01"]
        assert RecordProcessor(records).process_all(lambda record: None).processed == 2
