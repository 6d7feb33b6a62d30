"""Runs of the record processor on a table of account records, for `penstock jobs list` and the dashboard."""

from __future__ import annotations

from penstock.client.database import Database
from penstock.files import Files
from penstock.jobs.sources import JobSource, RecordRuns, TableDescription
from penstock.systems.account_records.tables import PROCESSED_INDEX


def run_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    if table.keys != ("AccountId", "RunTime") or PROCESSED_INDEX not in table.indexes:
        return None
    return RecordRuns(db, "account-records", table.name, "penstock accounts")
