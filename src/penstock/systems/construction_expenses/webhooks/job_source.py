"""Webhooks as jobs, for `penstock jobs list` and the dashboard.

A webhook that the receiver took is in two tables: its record, and the job that handles it (receiver.py). The record is
what is listed. Its job is listed only when it has failed, which the record does not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.client.database import Database
from penstock.client.items.values import Item
from penstock.files import Files
from penstock.jobs.model.job import Entry, History, Job
from penstock.jobs.model.state import State
from penstock.jobs.sources import (
    NEVER_EXPIRES,
    JobQuery,
    JobSource,
    ReadOnlySource,
    StoreSource,
    TableDescription,
    error_of,
    job_store_source,
    newest_jobs,
    scan_items,
    time_of,
)
from penstock.systems.construction_expenses.webhooks.webhook_record import MAX_RETRIES

WEBHOOKS_TABLE: Final = "paddle-webhooks"
WORK_SUFFIX: Final = "-work"
"""What the receiver's table of jobs has after the webhooks' own name."""


@dataclass(frozen=True, slots=True)
class WebhookSource(ReadOnlySource):
    """The webhooks of one environment. Their table has no index by time: it is read whole."""

    db: Database
    table: str
    system: str = "construction-expenses"
    commands: str = "penstock construction"

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        return newest_jobs(map(webhook_job, scan_items(self.db, self.table, ("webhookId",), query, notes)), query)

    def history(self, job_id: str) -> History | None:
        item = self.db.table(self.table, key="webhookId:S").get({"webhookId": job_id}, consistent=True)
        if item is None:
            return None
        job = webhook_job(item)
        attempts = item.get("processingHistory") or ()
        return History(job, tuple(_entry(number, one, job) for number, one in enumerate(attempts, start=1)))


def webhook_job(item: Item) -> Job:
    """A record of a webhook, of ours or of another program's, as a job."""
    received = time_of(item.get("receivedAt") or item.get("processedAt"), 0.0)
    state = _state(item)
    ended = item.get("processedAt") if state is State.COMPLETED else item.get("lastFailedAt")
    updated = max(time_of(item.get(name), received) for name in ("processedAt", "lastFailedAt", "receivedAt"))
    history = item.get("processingHistory") or []
    return Job(
        id=str(item["webhookId"]),
        task=str(item.get("alertName", "")),
        state=state,
        created_at=received,
        updated_at=updated,
        run_at=float(item.get("dueAt", received)),
        expires_at=int(item.get("ttl", NEVER_EXPIRES)),
        retries=MAX_RETRIES,
        attempt=int(item.get("attempts", 0)),
        failures=sum(1 for one in history if one.get("outcome") == "failed"),
        progress=100.0 if state is State.COMPLETED else 0.0,
        entries=len(history),
        error=error_of(*_reason(item)) if state is State.FAILED else None,
        ended_at=time_of(ended, updated) if state in (State.COMPLETED, State.FAILED) else None,
    )


def _state(item: Item) -> State:
    try:
        return State(item.get("status", "completed" if "processedAt" in item else "queued"))
    except ValueError:
        return State.FAILED


def _reason(item: Item) -> tuple[str, str]:
    kind, _, message = str(item.get("failureReason", "")).partition(": ")
    return kind, message


def _entry(number: int, one: Item, job: Job) -> Entry:
    message = f"{one['kind']}: {one.get('message', '')}" if "kind" in one else ""
    at = time_of(one.get("at"), job.created_at)
    return Entry(number, at, step=str(one.get("outcome", "")), message=message, attempt=int(one.get("attempt", 0)))


def webhook_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    if table.keys != ("webhookId",) or "ProcessedAtIndex" not in table.indexes:
        return None
    return WebhookSource(db, table.name)


@dataclass(frozen=True, slots=True)
class WebhookWork(StoreSource):
    """The jobs that handle webhooks."""

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        if query.state not in (None, State.FAILED):
            return ()
        # No super(): a dataclass with slots is made anew, and the method's class is the first one.
        return StoreSource.find(self, replace(query, state=State.FAILED), notes)


def webhook_work_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    if not table.name.endswith(WORK_SUFFIX) or WEBHOOKS_TABLE not in table.name:
        return None
    found = job_store_source(db, table, files)
    return WebhookWork(found.store, "construction-expenses") if isinstance(found, StoreSource) else None
