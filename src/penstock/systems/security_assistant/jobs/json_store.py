"""The local twin: jobs in one `jobs.json`, keyed by the composite key, with the schema of the table (S2.13).

    local_output/jobs.json               all jobs
    local_output/_events/{job_id}.json   the events of a job
    local_output/7central/…              the files of jobs, as in the bucket

1. The file is replaced whole: whoever looks sees the old jobs or the new ones.
2. Every change is made under a lock that its holder's death lets go of: two processes lose nothing of each other's.
3. A file that cannot be read is an error, never an empty start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.files import Files, open_files
from penstock.files.folder_tree import lock
from penstock.optimistic import Conflict
from penstock.systems.security_assistant.jobs.job import (
    BadItem,
    DrawingJob,
    Event,
    Item,
    checked_job_id,
    event_of,
    job_of,
)
from penstock.systems.security_assistant.jobs.store import (
    ByClient,
    ByMonth,
    ByStatus,
    Everyone,
    NothingThere,
    Place,
    Wanted,
    in_order,
    place_of,
)

JOBS_FILE: Final = "jobs.json"
LOCK_FILE: Final = "jobs.json.lock"
EVENTS_FOLDER: Final = "_events"
"""No company is called so: a normalised name does not begin with `_`."""


class CorruptJobs(PenstockError):
    """`jobs.json` cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is corrupt: {reason}. Repair it or move it away; nothing was changed.")
        self.path = path


class JsonJobStore:
    """Jobs in a folder."""

    def __init__(self, folder: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self.folder = Path(folder)
        self._clock = clock or SystemClock()
        self._files: Files = open_files(self.folder, clock=self._clock)

    @property
    def where(self) -> str:
        return str(self.folder / JOBS_FILE)

    def prepare(self, make: bool = True) -> None:
        """Sees whether the file can be read, and that the folder is there."""
        if make:
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not self.folder.is_dir():
            raise NothingThere(f"There is no folder {self.folder}: no drawing has been processed into it yet.")
        self._load()

    # ── one job ──────────────────────────────────────────────────────────────────────────────────

    def get(self, key: str) -> DrawingJob | None:
        item = self._load().get(key)
        return None if item is None else job_of(item)

    def keys_of(self, job_id: str, company: str | None = None) -> list[str]:
        begins = "" if company is None else f"{company}#"
        return sorted(key for key in self._load() if key.endswith(f"#{job_id}") and key.startswith(begins))

    def insert(self, job: DrawingJob, events: Sequence[Event] = ()) -> None:
        self._write(job, lambda current: current is None, events)

    def replace(self, job: DrawingJob, events: Sequence[Event] = ()) -> None:
        before = job.version - 1
        self._write(job, lambda current: current is not None and current.version == before, events)

    def _write(self, job: DrawingJob, may: Callable[[DrawingJob | None], bool], events: Sequence[Event]) -> None:
        with self._lock_jobs() as items:
            found = items.get(job.key)
            current = None if found is None else job_of(found)
            if not may(current):
                raise Conflict(job.key, current)
            # Events first: one that tells of a change which a kill prevented does less harm than a change untold.
            for event in events:
                self._append(event)
            self._save(items | {job.key: job.item()})

    def delete(self, job: DrawingJob) -> bool:
        with self._lock_jobs() as items:
            found = items.pop(job.key, None)
            if found is None:
                return True
            if job_of(found).version != job.version:
                return False
            self._save(items)
            self._files.delete(_events_key(job.id))
        return True

    # ── lists ────────────────────────────────────────────────────────────────────────────────────

    def find(self, wanted: Wanted, before: Place | None, newest_first: bool) -> Iterator[DrawingJob]:
        jobs = []
        for item in self._load().values():
            try:
                job = job_of(item)
            except BadItem:
                continue
            if _has(wanted, job):
                jobs.append(job)
        return in_order(sorted(jobs, key=place_of, reverse=newest_first), before, newest_first)

    def everything(self) -> Iterator[DrawingJob]:
        return (job_of(item) for item in self._load().values())

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def add_event(self, event: Event) -> None:
        with self._lock_jobs():
            self._append(event)

    def events(self, job_id: str) -> Iterator[Event]:
        return iter(sorted(self._events(job_id), key=lambda event: event.sort_key))

    def _append(self, event: Event) -> None:
        now = self._clock.now()
        kept = [one.item() for one in self._events(event.job_id) if one.expires_at > now]
        self._files.save(_events_key(event.job_id), _to_json([*kept, event.item()]))

    def _events(self, job_id: str) -> list[Event]:
        path = self.folder / _events_key(job_id)
        return [event_of(item) for item in _read_json(path, [])]

    # ── the file ─────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _lock_jobs(self) -> Iterator[dict[str, Item]]:
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock(handle)
            yield self._load()
        finally:
            os.close(handle)

    def _load(self) -> dict[str, Item]:
        path = self.folder / JOBS_FILE
        items = _read_json(path, {})
        if not isinstance(items, dict):
            raise CorruptJobs(path, "it is no JSON object of jobs by their keys")
        for key, item in items.items():
            if not isinstance(item, dict):
                raise CorruptJobs(path, f"{key!r} is no JSON object")
            item.setdefault("company#client#job", key)
        return items

    def _save(self, items: dict[str, Item]) -> None:
        self._files.save(JOBS_FILE, _to_json(items))


def _read_json(path: Path, absent: Any) -> Any:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return absent
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptJobs(path, f"{error}" if data.strip() else "it is empty") from None


def _to_json(form: Any) -> bytes:
    return orjson.dumps(form, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _events_key(job_id: str) -> str:
    return f"{EVENTS_FOLDER}/{checked_job_id(job_id)}.json"


def _has(wanted: Wanted, job: DrawingJob) -> bool:
    if wanted.company is not None and job.company != wanted.company:
        return False
    match wanted:
        case ByStatus(status):
            return job.state is status
        case ByClient(client):
            return job.client == client
        case ByMonth(month, since, until):
            return job.month == month and since <= utc_text(job.created_at) <= until
        case Everyone():
            return True
