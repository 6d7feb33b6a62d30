"""One storage for jobs and files, local or on AWS (S2.14–15).

1. What a company's storage gives is that company's: every id, every query, every path, every page token. What is
   another's is not there, and nothing tells that it is.
2. Jobs that have expired and are not deleted yet are not there either.
3. A change is decided on the job as it is, and written on the version that it was decided on; whoever was faster is
   read again, and the change decided anew.

Which storage is meant is said by environment variables (S2.14):

    STORAGE_MODE      local (the default) or aws
    LOCAL_OUTPUT_DIR  local: the folder (local_output)
    S3_BUCKET         aws: the bucket of the files, or an s3:// URL with a prefix
    DYNAMODB_TABLE    aws: the jobs' table (security-assistant-jobs)
    AWS_REGION        aws: the region (us-east-1)
    PENSTOCK_DB       aws: another database than AWS's: a file, or an endpoint
    PENSTOCK_FILES    aws: another home of files than S3_BUCKET

PENSTOCK_DB alone, without STORAGE_MODE and LOCAL_OUTPUT_DIR, means that database; the files of a database file are
then beside it.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from penstock.client.database import Database, connect
from penstock.clock import Clock, SystemClock, utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.files import Data, Files, SavedFile, Swept, open_files
from penstock.files import errors as file_errors
from penstock.files.file_store import SWEEP_SECONDS, URL_SECONDS
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.optimistic import Conflict, Contention
from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs.job import (
    STATUSES,
    BadName,
    DrawingJob,
    Event,
    checked_month,
    is_job_id,
    part_of,
)
from penstock.systems.security_assistant.jobs.json_store import JsonJobStore
from penstock.systems.security_assistant.jobs.store import (
    ByClient,
    ByMonth,
    ByStatus,
    DrawingJobStore,
    Everyone,
    JobPage,
    NothingThere,
    Place,
    Wanted,
    from_token,
    place_of,
    to_token,
)
from penstock.systems.security_assistant.jobs.table_store import TableJobStore
from penstock.systems.security_assistant.jobs.transitions import Change, check_held

DEFAULT_PAGE: Final = 50
LONGEST_PAGE: Final = 1_000
_MOST_MONTHS: Final = 12 * 100


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """What a clean-up removed, or with `dry_run` would have."""

    jobs: int
    files: Swept


class Storage:
    """Jobs on a store and files in a home. Safe to share between threads."""

    def __init__(
        self, store: DrawingJobStore, files: Files, *, clock: Clock | None = None, company: str | None = None
    ) -> None:
        self.store = store
        self.files = files
        self.clock = clock or SystemClock()
        self.company = None if company is None else part_of(company, "company_id")

    def for_company(self, company: str) -> Storage:
        """The same with nothing in it but this company's (1)."""
        if self.company is not None and part_of(company, "company_id") != self.company:
            raise PenstockError(f"This storage is {self.company}'s: another company's cannot be had from it.")
        return Storage(self.store, self.files, clock=self.clock, company=company)

    def prepare(self, make: bool = True) -> None:
        """Makes the tables, or the folder, if they are not there; with `make=False`, raises NothingThere."""
        self.store.prepare(make)

    def now(self) -> float:
        """The clock's time as it is stored: in milliseconds. So a job that was written is the job that is read."""
        return round(self.clock.now(), 3)

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def save(self, key: str, data: Data, *, content_type: str | None = None) -> SavedFile:
        return self.files.save(self._check_own(key), data, content_type=content_type)

    def get(self, key: str, *, expect: SavedFile | None = None) -> bytes:
        return self.files.read(self._check_own(key), expect=expect, limit=_READ_BYTES)

    def open(self, key: str, *, expect: SavedFile | None = None) -> io.BufferedReader:
        return self.files.open(self._check_own(key), expect=expect)

    def exists(self, key: str) -> bool:
        return self.files.exists(self._check_own(key))

    def delete(self, key: str) -> None:
        self.files.delete(self._check_own(key))

    def presigned_url(self, key: str, *, seconds: int = URL_SECONDS) -> str:
        return self.files.url(self._check_own(key), seconds=seconds)

    def _check_own(self, key: str) -> str:
        """The key, if it is in this company's folder (1); a key with `..` is refused by the files themselves."""
        if self.company is not None and not key.startswith(f"{self.company}/"):
            raise file_errors.missing(f"{self.company}'s files: {key}")
        return key

    # ── one job ──────────────────────────────────────────────────────────────────────────────────

    def job(self, job_id: str) -> DrawingJob:
        """The job with this id. Raises JobNotFound, also for another company's job."""
        if not is_job_id(job_id):
            raise JobNotFound(job_id)
        keys = [key for key in self.store.keys_of(job_id, self.company) if self._is_own(key)]
        if len(keys) > 1:
            raise PenstockError(f"{len(keys)} companies or clients have a job {job_id}. Say whose you mean.")
        job = self.store.get(keys[0]) if keys else None
        if job is None or self._is_expired(job):
            raise JobNotFound(job_id)
        return job

    def job_of_key(self, key: str) -> DrawingJob:
        """The job with this composite key. Raises JobNotFound."""
        job = self.store.get(key) if self._is_own(key) else None
        if job is None or self._is_expired(job):
            raise JobNotFound(key)
        return job

    def add(self, job: DrawingJob, events: Sequence[Event] = ()) -> DrawingJob:
        """A new job. Raises Conflict if there is one with its key."""
        if self.company is not None and job.company != self.company:
            raise BadName(f"This is {self.company}'s storage, and the job is {job.company}'s.")
        self.store.insert(job, events)
        return job

    def change(self, job: DrawingJob, change: Change, *events: Event) -> DrawingJob:
        """What the change makes of the job as it is now (3), written together with the events."""
        contention = Contention(job.id)
        while True:
            changed = change(job)
            try:
                self.store.replace(changed, events)
                return changed
            except Conflict as conflict:
                if conflict.current is None:
                    raise JobNotFound(job.id) from None
                job = conflict.current
                contention.wait()

    def change_held(self, held: DrawingJob, change: Change, *events: Event) -> DrawingJob:
        """The same for the one who holds the job's lease. Raises LeaseLost where that is over."""

        def change_if_held(current: DrawingJob) -> DrawingJob:
            check_held(held, current)
            return change(current)

        return self.change(held, change_if_held, *events)

    def events(self, job_id: str) -> list[Event]:
        """In order; those of 7 days. Raises JobNotFound."""
        job, now = self.job(job_id), self.now()
        return [one for one in self.store.events(job_id) if one.company == job.company and one.expires_at > now]

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def query_by_status(
        self, status: str, *, limit: int = DEFAULT_PAGE, token: str | None = None, newest_first: bool = True
    ) -> JobPage:
        if status not in STATUSES:
            raise BadName(f"{status!r} is no status: there are {', '.join(STATUSES)}.")
        return self._page([ByStatus(State(status), self.company)], limit, token, newest_first)

    def query_by_client(
        self, client: str, *, company: str | None = None, limit: int = DEFAULT_PAGE, token: str | None = None
    ) -> JobPage:
        """Jobs of a client, newest first: of this company, or of all companies that have a client of that name.

        Without a company, the safe layout has no index to ask: it reads the jobs of all states.
        """
        owner = part_of(company, "company_id") if company is not None else self.company
        if self.company not in (None, owner):
            return JobPage((), None)
        return self._page([ByClient(part_of(client, "client_name"), client, owner)], limit, token)

    def query_all(self, *, limit: int = DEFAULT_PAGE, token: str | None = None) -> JobPage:
        """All jobs, newest first."""
        return self._page([Everyone(self.company)], limit, token)

    def query_by_month(self, month: str, *, limit: int = DEFAULT_PAGE, token: str | None = None) -> JobPage:
        """Jobs of a month (`2024-01`), newest first."""
        return self._page([ByMonth(checked_month(month), company=self.company)], limit, token)

    def query_by_dates(
        self, since: float, until: float, *, limit: int = DEFAULT_PAGE, token: str | None = None
    ) -> JobPage:
        """Jobs made from `since` to `until`, newest first, however many months that is."""
        first, last = utc_text(since), utc_text(until)
        wanted = [ByMonth(month, first, last, self.company) for month in _months(since, until)]
        return self._page(wanted, limit, token)

    def waiting(self) -> Iterator[DrawingJob]:
        """Jobs that may be begun now, the oldest first."""
        return self._claimable(State.QUEUED)

    def interrupted_jobs(self) -> Iterator[DrawingJob]:
        """Jobs whose worker is gone: they are being processed, and their lease has run out."""
        return self._claimable(State.PROCESSING)

    def _claimable(self, state: State) -> Iterator[DrawingJob]:
        now = self.now()
        jobs = self.store.find(ByStatus(state, self.company), None, False)
        return (job for job in jobs if job.is_claimable(now) and not self._is_expired(job))

    def _page(self, wanted: Sequence[Wanted], limit: int, token: str | None, newest_first: bool = True) -> JobPage:
        if not 1 <= limit <= LONGEST_PAGE:
            raise BadName(f"limit is 1 to {LONGEST_PAGE}, not {limit}.")
        before: Place | None = None if token is None else from_token(token)
        found = itertools.chain.from_iterable(self.store.find(one, before, newest_first) for one in wanted)
        jobs = list(itertools.islice((job for job in found if not self._is_expired(job)), limit + 1))
        more = len(jobs) > limit
        return JobPage(tuple(jobs[:limit]), to_token(place_of(jobs[limit - 1])) if more else None)

    def _is_own(self, key: str) -> bool:
        return self.company is None or key.startswith(f"{self.company}#")

    def _is_expired(self, job: DrawingJob) -> bool:
        return job.expires_at is not None and job.expires_at <= self.now()

    # ── clean-up ─────────────────────────────────────────────────────────────────────────────────

    def clean_up(
        self,
        *,
        older_than_seconds: float = SWEEP_SECONDS,
        dry_run: bool = False,
        tell: Callable[[str], None] = lambda name: None,
    ) -> CleanedUp:
        """Removes jobs that have expired, and files that belong to no job and are older than that.

        Everybody's: a company's storage refuses. What does not lie where files of jobs do is left alone. `tell` hears
        the key of each job and of each file.
        """
        if self.company is not None:
            raise PenstockError("A clean-up is of the whole storage, not of one company's.")
        gone, folders = 0, set()
        for job in self.store.everything():
            if not self._is_expired(job):
                folders.add(job.name.folder)
                folders |= {key.rpartition("/")[0] for key in _named_files(job)}
            elif dry_run or self.store.delete(job):
                gone += 1
                tell(job.key)
        swept = self.files.sweep(
            lambda key: not _is_of_a_job(key) or key.rpartition("/")[0] in folders,
            older_than_seconds=older_than_seconds,
            dry_run=dry_run,
            tell=lambda file: tell(file.key),
        )
        return CleanedUp(gone, swept)


_READ_BYTES: Final = 1024**3


def _named_files(job: DrawingJob) -> list[str]:
    """A job that another program made may have its files elsewhere than ours would."""
    points = [point.data_key for point in job.checkpoints.values()]
    return [*job.input_files.values(), *points, *job.output_files.values()]


def _is_of_a_job(key: str) -> bool:
    """company/client/project/job/file: neither our bookkeeping, nor what others keep in the same place."""
    return key.count("/") == _FOLDERS


_FOLDERS: Final = 4


def _months(since: float, until: float) -> list[str]:
    """The months from one moment to another, the newest first."""
    if since > until:
        raise BadName("A range of dates ends before it begins. Turn them round.")
    first, last = datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
    low, high = first.year * 12 + first.month - 1, last.year * 12 + last.month - 1
    if high - low > _MOST_MONTHS:
        raise BadName(f"A range of dates has at most {_MOST_MONTHS} months.")
    return [f"{number // 12:04d}-{number % 12 + 1:02d}" for number in range(high, low - 1, -1)]


def moment_of(text: str, *, end: bool = False) -> float:
    """`2024-01-15`, or a whole time. With `end`, a day is meant to its last millisecond."""
    try:
        moment = utc_seconds(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError:
        raise BadName(f"{text!r} is no date. Write it as 2024-01-15, or 2024-01-15T10:00:00Z.") from None
    return moment + _DAY_SECONDS - 0.001 if end and "T" not in text else moment


_DAY_SECONDS: Final = 86_400


# ── which storage is meant ─────────────────────────────────────────────────────────────────────────

DEFAULT_FOLDER: Final = "local_output"
DEFAULT_REGION: Final = "us-east-1"


class BadSettings(PenstockError, ValueError):
    """A variable is missing or wrong: the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where jobs and files are."""

    mode: Literal["local", "aws"] = "local"
    folder: str = DEFAULT_FOLDER
    url: str = ""
    files: str = ""
    table: str = tables.JOBS
    events: str = tables.EVENTS
    layout: SchemaVariant = "safe"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, layout: str = "safe") -> Settings:
        """Raises BadSettings."""
        env = os.environ if environment is None else environment
        target = env.get("PENSTOCK_DB") or ""
        said = env.get("STORAGE_MODE") or env.get("LOCAL_OUTPUT_DIR")
        mode = env.get("STORAGE_MODE") or ("aws" if target and not said else "local")
        check_variant(layout)
        wanted: SchemaVariant = "compat" if layout == "compat" else "safe"
        if mode == "local":
            return cls(folder=env.get("LOCAL_OUTPUT_DIR") or DEFAULT_FOLDER, layout=wanted)
        if mode != "aws":
            raise BadSettings(f"STORAGE_MODE is {mode!r}; it is local or aws.")
        beside = f"{target}.files" if target and not said and "://" not in target else ""
        files = env.get("PENSTOCK_FILES") or env.get("S3_BUCKET") or beside
        if not files:
            raise BadSettings("S3_BUCKET is not set, and STORAGE_MODE is aws. Set it to the bucket of the files.")
        if not env.get("PENSTOCK_FILES") and files != beside and "://" not in files:
            files = f"s3://{files}"
        url = target or f"aws://{env.get('AWS_REGION') or DEFAULT_REGION}"
        table = env.get("DYNAMODB_TABLE") or tables.JOBS
        return cls("aws", url=url, files=files, table=table, layout=wanted)


@contextmanager
def open_storage(settings: Settings, *, clock: Clock | None = None, make: bool = True) -> Iterator[Storage]:
    """The storage; tables and folder are made if they are not there, or with `make=False` refused (NothingThere)."""
    if settings.mode == "local":
        storage = Storage(
            JsonJobStore(settings.folder, clock=clock), open_files(settings.folder, clock=clock), clock=clock
        )
        storage.prepare(make)
        yield storage
        return
    if not make and "://" not in settings.url and settings.url != ":memory:" and not Path(settings.url).exists():
        raise NothingThere(f"There is no database {settings.url}: no drawing has been processed into it yet.")
    with connect(settings.url) as db:
        storage = table_storage(db, settings, clock=clock)
        storage.prepare(make)
        yield storage


def table_storage(db: Database, settings: Settings, *, clock: Clock | None = None) -> Storage:
    """On tables of this database, with the files where the settings say."""
    store = TableJobStore(db, settings.layout, jobs=settings.table, events=settings.events)
    return Storage(store, open_files(settings.files, clock=clock), clock=clock)
