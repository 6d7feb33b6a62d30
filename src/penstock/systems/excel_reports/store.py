"""Report jobs in their table: everything that may be done to one, safely under any number of writers.

1. A change is a pure function of the job as it was read (transitions.py). It is written in one transaction with the
   numbered record that tells of it, on the condition that nothing it was decided on has changed; whoever was slower
   reads again and decides again.
2. Numbers come from the counter in the main record, which the same transaction raises: there are no two records of
   one number, and no gaps. A record is put only where there is none.
3. With a worker's token, what an older worker still writes is refused (LeaseLost).
4. A job's records have one moment of expiry. It moves for all of them while the job has not ended.
5. Making a job and changing its status raise. Progress that cannot be stored is counted and logged, and stops nobody.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.failures import ConditionFailed, TransactionFailed
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.leases import LeaseLost
from penstock.optimistic import Conflict, Contention
from penstock.retry import message_of
from penstock.stored_text import cut
from penstock.systems.excel_reports import transitions
from penstock.systems.excel_reports.records import (
    DEFAULT_TTL_HOURS,
    MAIN,
    BadReport,
    Category,
    JobExists,
    JobWithLogs,
    Log,
    ReportJob,
    checked_hours,
    job_of,
    log_item,
    main_item,
    main_record_id,
    new_job_id,
    not_found,
    state_of,
    with_logs,
)
from penstock.systems.excel_reports.tables import JOBS, tables, variant_of
from penstock.systems.excel_reports.transitions import MESSAGE_CHARACTERS, Change, Changed, category_of, duration_text
from penstock.systems.schema_variants import SchemaVariant
from penstock.tables.apply.apply import ensure_tables

_LOG = logging.getLogger("penstock.excel_reports")
_PROJECT_CHARACTERS: Final = 200
_CONTENDED: Final = frozenset({"ConditionalCheckFailed", "TransactionConflict"})


def detect_layout(db: Database, table: str, wanted: SchemaVariant | None = None) -> SchemaVariant:
    """The layout of the table that is there; the wanted one, or safe, where there is none yet.

    Raises BadReport for a table of another layout than the wanted one, or of none: nothing is written into it then.
    """
    try:
        described = db.execute("DescribeTable", {"TableName": table})["Table"]
    except ResourceNotFoundException:
        return wanted or "safe"
    ranked = sorted(described["KeySchema"], key=lambda one: str(one["KeyType"]))  # HASH before RANGE
    keys = [one["AttributeName"] for one in ranked]
    found = variant_of(keys)
    if found is None:
        raise BadReport(
            [f"{table} is no table of report jobs: its key is {', '.join(keys)}. Name another one (--table)."]
        )
    if wanted is not None and found != wanted:
        raise BadReport([f"{table} has the layout {found}, not {wanted}. Leave --layout out: it is detected."])
    return found


class ReportJobs:
    """The jobs of one table, in either layout. Safe to share between threads."""

    def __init__(
        self,
        db: Database,
        *,
        layout: SchemaVariant = "safe",
        table: str = JOBS,
        ttl_hours: float = DEFAULT_TTL_HOURS,
        clock: Clock | None = None,
    ) -> None:
        (self.definition,) = tables(layout, jobs=table)
        self.db = db
        self.layout = layout
        self.clock = clock or SystemClock()
        self.ttl_seconds = checked_hours(ttl_hours) * 3600
        self.lost_reports = 0
        """Progress that could not be stored (5)."""
        self._table = db.table(table, key=tuple(str(one) for one in self.definition.key.attributes))

    @property
    def table(self) -> str:
        return self.definition.name

    def create_table(self, *, ttl: bool = True) -> None:
        """Makes the table, or brings it up to date; ends when it is ACTIVE. Without `ttl` nothing is ever deleted."""
        wanted = tables(self.layout, jobs=self.table, ttl=ttl)
        ensure_tables(self.db, wanted)

    # ── making and changing: these raise ─────────────────────────────────────────────────────────

    def create_job(
        self, id_project: str, options: Mapping[str, Any] | None = None, *, job_id: str | None = None
    ) -> ReportJob:
        """A new job. Raises BadReport for a project without a name, JobExists for an id that is taken."""
        if not isinstance(id_project, str) or not 1 <= len(id_project) <= _PROJECT_CHARACTERS:
            raise BadReport([f"idProject is text of 1 to {_PROJECT_CHARACTERS} characters, not {id_project!r:.100}"])
        now = self.clock.now()
        job = self._first(job_id or new_job_id(now), id_project, dict(options or {}), now)
        item = main_item(job)
        try:
            self._table.put(item, if_=F("recordId").missing())
        except ConditionFailed as taken:
            if not (taken.maybe_ours and taken.item is not None and job_of(taken.item) == job):
                raise JobExists([f"{job.job_id}: there is such a job already"]) from None
        return job

    def _first(self, job_id: str, id_project: str, options: dict[str, Any], now: float) -> ReportJob:
        record_id = main_record_id(job_id)
        if record_id is None:
            raise BadReport([f"A job's id is like job_mbzlks74_rfi5i0, not {job_id!r:.100}"])
        return ReportJob(record_id, job_id, id_project, "pending", now, now, self._expiry(now), options=options)

    def update_job_status(self, job_id: str, status: str, *, token: int | None = None) -> ReportJob:
        """Raises BadTransition where the job may not have it, JobNotFound, LeaseLost."""
        wanted = state_of(status)

        def change(job: ReportJob, now: float) -> Changed:
            same = job.state is wanted and (token is None or job.fence == token)
            return Changed(job) if same and not job.is_terminal else transitions.moved(job, status, now)

        return self._change(job_id, change, token)

    def complete_job(
        self,
        job_id: str,
        *,
        file_name: str,
        file_key: str,
        download_url: str,
        statistics: Mapping[str, Any] | None = None,
        token: int | None = None,
    ) -> ReportJob:
        """The report is there. Its facts, with the time that it took, are the job's and its completion record's."""

        def change(job: ReportJob, now: float) -> Changed:
            facts = {
                "fileName": file_name,
                "fileKey": file_key,
                "downloadUrl": download_url,
                "processingTime": duration_text(now - job.created_at),
                "statistics": dict(statistics or {}),
            }
            return transitions.completed(job, now, facts)

        return self._change(job_id, change, token)

    def fail_job(
        self,
        job_id: str,
        error: BaseException | str,
        *,
        category: Category | None = None,
        token: int | None = None,
    ) -> ReportJob:
        """The report cannot be made; the category is told by the error's class where none is given."""
        if isinstance(error, BaseException):
            message = message_of(error, MESSAGE_CHARACTERS) or type(error).__name__
            cause = category or category_of(error)
        else:
            message, cause = cut(error, MESSAGE_CHARACTERS), category or "unknown"
        return self._change(job_id, lambda job, now: transitions.failed(job, now, cause, message), token)

    # ── progress: this never raises (5) ──────────────────────────────────────────────────────────

    def update_job_progress(
        self, job_id: str, progress: float, step_name: str, *, token: int | None = None, **fields: Any
    ) -> ReportJob | None:
        """The job is at this step now: in its main record, and as a numbered one. None where it could not be kept."""
        return self._report(job_id, progress, step_name, fields, token, on_main=True)

    def append_progress_log(
        self, job_id: str, progress: float, step_name: str, *, token: int | None = None, **fields: Any
    ) -> ReportJob | None:
        """A numbered record alone: any number may write at once. None where it could not be kept."""
        return self._report(job_id, progress, step_name, fields, token, on_main=False)

    def _report(
        self, job_id: str, progress: float, step: str, fields: dict[str, Any], token: int | None, *, on_main: bool
    ) -> ReportJob | None:
        def change(job: ReportJob, now: float) -> Changed:
            return transitions.progressed(job, now, progress, step, fields, on_main=on_main)

        try:
            return self._change(job_id, change, token)
        except (PenstockError, OSError) as error:
            self.lost_reports += 1
            _LOG.warning("%s: progress was not stored (%s lost so far): %s", job_id, self.lost_reports, error)
            return None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get_job(self, job_id: str) -> ReportJob:
        """The main record: by its key, else (others have spelt it) by looking for it. Raises JobNotFound."""
        record_id = main_record_id(job_id)
        item = self._table.get(self._key(job_id, record_id), consistent=True) if record_id else None
        if item is None:
            item = next(iter(self._records(job_id, F("recordType") == MAIN)), None)
        if item is None or not self._is_kept(item):
            raise not_found(job_id)
        return job_of(item)

    def get_progress_logs(self, job_id: str) -> tuple[Log, ...]:
        """By number. Raises JobNotFound."""
        return self.get_job_with_logs(job_id).progress

    def get_completion(self, job_id: str) -> Log | None:
        """The record of its completion; None as long as there is none."""
        return self.get_job_with_logs(job_id).completion

    def get_job_with_logs(self, job_id: str) -> JobWithLogs:
        """All of a job: one Query in the safe layout; in compat, all pages of a Scan. Raises JobNotFound."""
        found = with_logs([item for item in self._records(job_id) if self._is_kept(item)])
        if found is None:
            raise not_found(job_id)
        return found

    def get_all_records(self, job_id: str) -> list[dict[str, Any]]:
        """The items themselves, by number."""
        items = [item for item in self._records(job_id) if self._is_kept(item)]
        return sorted(items, key=lambda item: (item.get("sequenceNumber", 0), item.get("timestamp", "")))

    def list_jobs(self, *, status: str | None = None, limit: int = 50) -> list[ReportJob]:
        """The newest jobs. The table has no index: all of it is read, a page at a time."""
        wanted = F("recordType") == MAIN
        if status is not None:
            state_of(status)
            wanted = wanted & (F("status") == status)
        found = (job_of(item) for item in self._table.scan(filter=wanted) if self._is_kept(item))
        return heapq.nlargest(limit, found, key=lambda job: (job.created_at, job.job_id))

    def _records(self, job_id: str, more: Condition | None = None) -> Iterator[dict[str, Any]]:
        if not 1 <= len(job_id) <= _PROJECT_CHARACTERS:
            return iter(())
        if self.layout == "safe":
            return iter(self._table.query(jobId=job_id, filter=more, consistent=True))
        of_job = F("jobId") == job_id
        return iter(self._table.scan(filter=of_job if more is None else of_job & more, consistent=True))

    def _key(self, job_id: str, record_id: str) -> dict[str, str]:
        return {"jobId": job_id, "recordId": record_id} if self.layout == "safe" else {"recordId": record_id}

    def _is_kept(self, item: Mapping[str, Any]) -> bool:
        return "ttl" not in item or item["ttl"] > self.clock.now()

    def is_expired(self, job_id: str) -> bool:
        """Whether one of our own jobs is gone, or will be in a moment: one read by its key, in either layout."""
        record_id = main_record_id(job_id)
        item = self._table.get(self._key(job_id, record_id), consistent=True) if record_id else None
        return item is None or not self._is_kept(item)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _change(self, job_id: str, change: Change, token: int | None) -> ReportJob:
        contention = Contention(job_id)
        while True:
            job = self._current(job_id, token)
            now = self.clock.now()
            changed = change(job, now)
            after = changed.job if token is None else replace(changed.job, fence=token)
            if after == job:
                return job
            after = self._kept_longer(job, after, now)
            try:
                self._write(job, replace(changed, job=after))
                return after
            except Conflict:
                contention.wait()

    def _current(self, job_id: str, token: int | None) -> ReportJob:
        job = self.get_job(job_id)
        if token is not None and job.fence > token:
            raise LeaseLost(job_id, None, f"a worker with the token {job.fence} has written it since")
        if job.last_number is None:
            # Others made it, and counted in their memory: the counter begins after the highest number that there is.
            logs = self.get_job_with_logs(job_id).logs
            return replace(job, last_number=None if not logs else logs[-1].number)
        return job

    def _write(self, before: ReportJob, changed: Changed) -> None:
        """Raises Conflict where the job is not `before` any more."""
        after = changed.job
        sets: dict[str, Any] = {
            "status": after.status,
            "progress": after.progress,
            "updatedAt": utc_text(after.updated_at),
            "metadata": after.metadata,
            "ttl": after.expires_at,
            "lastSequence": after.last_number or 0,
        }
        if after.fence:
            sets["fence"] = after.fence
        gone = _optional(sets, after)
        try:
            with self.db.transaction() as tx:
                key = self._key(before.job_id, before.record_id)
                tx.update(self._table, key, set=sets, remove=gone, if_=_unchanged(before))
                if changed.log is not None:
                    tx.put(self._table, log_item(changed.log, after.expires_at), if_=F("recordId").missing())
        except TransactionFailed as refused:
            if not _CONTENDED.issuperset(reason.code for reason in refused.reasons):
                raise
            raise Conflict(before.job_id, None) from refused

    # ── expiry (4) ───────────────────────────────────────────────────────────────────────────────

    def _expiry(self, now: float) -> int:
        return int(now + self.ttl_seconds)

    def _kept_longer(self, before: ReportJob, after: ReportJob, now: float) -> ReportJob:
        """A job that has less than half of its time left, and goes on, has all of it again."""
        if before.is_terminal or before.expires_at - now > self.ttl_seconds / 2:
            return after
        until = self._expiry(now)
        for item in self._records(before.job_id):
            if item["recordId"] != before.record_id:
                with suppress(ConditionFailed):  # it is gone
                    key = self._key(before.job_id, item["recordId"])
                    self._table.update(key, set={"ttl": until}, if_=F("ttl") < until)
        return transitions.kept_longer(after, until)


def _optional(sets: dict[str, Any], after: ReportJob) -> list[str]:
    """Adds what the job has beside; the names of what it has not."""
    ended = None if after.completed_at is None else utc_text(after.completed_at)
    beside = {"completedAt": ended, "result": after.result, "error": after.error}
    sets.update({name: value for name, value in beside.items() if value is not None})
    return [name for name, value in beside.items() if value is None]


def _unchanged(job: ReportJob) -> Condition:
    """Nothing that a change was decided on is otherwise now (1)."""
    counter = F("lastSequence")
    counted = counter == job.last_number if job.last_number is not None else counter.missing()
    if job.last_number is not None:
        counted = counted | counter.missing()  # of others' records
    fenced = F("fence") == job.fence if job.fence else F("fence").missing()
    return (F("status") == job.status) & counted & fenced
