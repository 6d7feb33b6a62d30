"""The system's own document (seed 004), line by line: its usage, its four examples, and where its parts are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from accounts_world import LAYOUTS, new_database

from penstock.client.database import Database
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.systems.account_records.config import DEFAULTS, Config
from penstock.systems.account_records.examples import (
    processor_complete_example,
    processor_example,
    record_example,
    user_example,
)
from penstock.systems.account_records.models.record import RecordModel
from penstock.systems.account_records.models.user import UserModel
from penstock.systems.account_records.services.dynamodb import create_tables, default_database
from penstock.systems.schema_variants import SchemaVariant


@pytest.fixture(params=LAYOUTS)
def configured(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SchemaVariant]:
    """cp .env.example .env, with the port of this test's server; then create-tables."""
    monkeypatch.chdir(tmp_path)
    for name in (*DEFAULTS, "PENSTOCK_DB"):
        monkeypatch.delenv(name, raising=False)
    with Engine() as engine, running_server(engine) as server:
        (tmp_path / ".env").write_text(f"DYNAMODB_ENDPOINT={server.url}\n")
        create_tables(default_database(), Config.load(), request.param)
        yield request.param
        default_database().close()


def test_S4_18_the_usage_of_the_record_model(configured: SchemaVariant) -> None:
    # import { RecordModel } from "./models/Record.js";
    from penstock.systems.account_records.models.record import RecordModel

    # const recordModel = new RecordModel();
    record_model = RecordModel()

    # Insert unprocessed record
    # await recordModel.putItem({ AccountId: "ACC12345", RunTime: "2026-02-17T12:00:00Z", Processed: 0, … });
    record_model.put_item(
        {
            "AccountId": "ACC12345",
            "RunTime": "2026-02-17T12:00:00Z",
            "Processed": 0,
            "DocumentId": "DOC67890",
        }
    )

    # Query unprocessed records via GSI
    # const unprocessed = await recordModel.queryUnprocessed();
    unprocessed = list(record_model.query_unprocessed())
    assert [one["DocumentId"] for one in unprocessed] == ["DOC67890"]

    # Mark as processed
    # await recordModel.markAsProcessed("ACC12345", "2026-02-17T12:00:00Z");
    record_model.mark_as_processed("ACC12345", "2026-02-17T12:00:00Z")

    # Query processed records via GSI
    # const processed = await recordModel.queryProcessed();
    processed = list(record_model.query_processed())
    assert [one["Processed"] for one in processed] == [1]
    assert list(record_model.query_unprocessed()) == []

    # Query by account
    # const accountRecords = await recordModel.queryByAccount("ACC12345");
    account_records = list(record_model.query_by_account("ACC12345"))
    assert account_records == processed


def test_S4_18_the_usage_of_the_record_processor(configured: SchemaVariant, capsys: pytest.CaptureFixture[str]) -> None:
    # import { RecordProcessor } from "./services/RecordProcessor.js";
    # import type { Record } from "./models/Record.js";
    from penstock.systems.account_records.models.record import Record
    from penstock.systems.account_records.services.record_processor import RecordProcessor

    RecordModel().put_item({"AccountId": "ACC12345", "RunTime": "2026-02-17T12:00:00Z", "Processed": 0})
    RecordModel().put_item({"AccountId": "ACC99999", "RunTime": "2026-02-17T12:00:00Z", "Processed": 0})

    # const processor = new RecordProcessor({ maxWorkers: 5, maxRetries: 3, backoffBaseMs: 100, backoffMultiplier: 2 });
    processor = RecordProcessor(
        max_workers=5,
        max_retries=3,
        backoff_base_ms=1,  # 100 in the document
        backoff_multiplier=2,
    )

    # async function processRecord(record: Record): Promise<void> {
    def process_record(record: Record) -> None:
        # console.log(`Processing: ${record.AccountId} - ${record.RunTime}`);
        print(f"Processing: {record['AccountId']} - {record['RunTime']}")
        if record["AccountId"] == "ACC99999":
            raise RuntimeError("so that there is an error to show")

    # const errors = await processor.processAll(processRecord);
    errors = processor.process_all(process_record).errors

    # console.log(`Processing complete. Errors: ${errors.length}`);
    print(f"Processing complete. Errors: {len(errors)}")
    # errors.forEach((error) => { console.log(`Failed: ${error.AccountId} - ${error.RunTime}`); });
    for error in errors:
        print(f"Failed: {error.key['AccountId']} - {error.key['RunTime']}")

    printed = capsys.readouterr().out.splitlines()
    assert printed.count("Processing: ACC12345 - 2026-02-17T12:00:00Z") == 1
    assert printed.count("Processing: ACC99999 - 2026-02-17T12:00:00Z") == 4, "and three retries"
    assert printed[-2:] == ["Processing complete. Errors: 1", "Failed: ACC99999 - 2026-02-17T12:00:00Z"]


@pytest.fixture(params=LAYOUTS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with new_database(request.param) as made:
        yield made


def test_S4_18_the_user_example(db: Database) -> None:
    """index.ts"""
    lines: list[str] = []
    user_example.run(UserModel(db, table="Users"), lines.append)
    assert lines == [
        "Created: {'id': '123', 'name': 'Ada', 'email': 'ada@example.org'}",
        "Updated: {'id': '123', 'name': 'Ada Lovelace', 'email': 'ada@example.org'}",
        "Deleted: None",
    ]


def test_S4_18_the_record_example(db: Database) -> None:
    """pnpm record-example"""
    lines: list[str] = []
    record_example.run(RecordModel(db, table="Records"), lines.append)
    assert lines[:2] == ["Unprocessed: ['DOC67890']", "Processed: ['DOC67890']"]
    assert "'Processed': 1" in lines[2]


def test_S4_18_the_processor_example(db: Database) -> None:
    """pnpm processor-example"""
    records = RecordModel(db, table="Records")
    for number in range(3):
        records.put_item({"AccountId": f"ACC{number}", "RunTime": "2026"})
    lines: list[str] = []
    processor_example.run(records, lines.append)
    assert sorted(lines) == [
        "Processing complete. Errors: 0",
        *(f"Processing: ACC{number} - 2026" for number in range(3)),
    ]


def test_S4_18_the_complete_example(db: Database) -> None:
    """pnpm processor-complete-example"""
    lines: list[str] = []
    processor_complete_example.run(RecordModel(db, table="Records"), lines.append)
    assert lines == [
        "Test data: 20 records",
        "Processed: 19 in 22 attempts, 95% of the records",
        "Failed: ACC-EXAMPLE - 2026-02-17T12:00:13Z: DocumentUnreadable: a page is missing",
        "Failed until they are redriven: 1",
    ]


def test_S4_19_the_types_of_code_that_uses_it_are_checked(tmp_path: Path) -> None:
    """pnpm check: the document's usage passes mypy --strict, and wrong lines after it do not."""
    pytest.importorskip("mypy")
    usage = (
        "from penstock.systems.account_records.models.record import Record, RecordModel\n"
        "from penstock.systems.account_records.services.record_processor import RecordProcessor\n"
        "def process_record(record: Record) -> None: ...\n"
        "first: str = next(RecordModel().query_by_account('ACC12345'))['DocumentId']\n"
        "kinds: list[str] = [error.kind for error in RecordProcessor().process_all(process_record).errors]\n"
    )
    wrong = tmp_path / "accounts_wrong.py"
    wrong.write_text(usage + "RecordModel().mark_as_processed(12345, None)\nRecordModel(layout='wild')\n")
    root = Path(__file__).parents[3]
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(root / ".mypy_cache"), str(wrong)]
    checked = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=240)
    found = [int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line]
    assert found == [6, 6, 7], checked.stdout


def test_S4_19_the_build_takes_every_folder_of_the_system() -> None:
    """pnpm build: a wheel has what stands below src/penstock, and Python finds what has an __init__.py."""
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/penstock"]
    system = root / "src" / "penstock" / "systems" / "account_records"
    folders = {file.parent for file in system.rglob("*.py")}
    assert len(folders) == 4
    assert all((folder / "__init__.py").is_file() for folder in folders)


@pytest.mark.parametrize(
    ("theirs", "module", "name"),
    [
        ("services/dynamodb.ts", "services.dynamodb", "open_database"),
        ("services/RecordProcessor.ts", "services.record_processor", "RecordProcessor"),
        ("models/User.ts", "models.user", "UserModel"),
        ("models/Record.ts", "models.record", "RecordModel"),
        ("utils/config.ts", "config", "Config"),
        ("index.ts", "examples.user_example", "run"),
        ("record-example.ts", "examples.record_example", "run"),
        ("processor-example.ts", "examples.processor_example", "run"),
        ("processor-complete-example.ts", "examples.processor_complete_example", "run"),
        ("scripts/create-tables", "services.dynamodb", "create_tables"),
    ],
)
def test_S4_20_the_parts_are_where_the_documents_layout_leads(theirs: str, module: str, name: str) -> None:
    assert hasattr(import_module(f"penstock.systems.account_records.{module}"), name), theirs


def test_S4_20_retries_and_settings_of_the_processor_are_in_records() -> None:
    """utils/retry.ts and utils/processor-config.ts: every system uses the same."""
    assert hasattr(import_module("penstock.retry"), "Backoff")
    assert hasattr(import_module("penstock.records.processor"), "RecordProcessor")
