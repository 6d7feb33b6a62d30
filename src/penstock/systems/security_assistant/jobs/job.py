"""A job of the security assistant as a value, and as the item that tables and `jobs.json` hold alike.

The item has every attribute of the schema; beside them, what makes the job safe:

    client_key, project_key   the normalised names that keys and paths are made of
    version, write_id         every write is conditional on the version it was made from
    lease, lease_token        who works on it, until when; what a former holder writes is refused
    stage_versions            how often each stage was begun: the number in its files' names
    saved                     size and hash of each of its files
    ttl                       only once it has ended: a job that has not does not expire

Names of companies, clients and projects become parts of keys and paths by one rule:

1. A name that has `#`, `/`, `\\` or `..` is refused, never cleaned: it would lead out of a key or of a folder.
2. What is left is normalised (`St. Mary's Hospital` → `st_marys_hospital`), the same for keys, paths and questions.
3. So a key has exactly three parts and a path exactly one folder for each name, whatever they were.

Events are the audit trail of jobs, kept for 7 days in a table of their own (S2.9).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, get_args

from penstock.clock import utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.files.content import SavedFile
from penstock.files.errors import BadKey
from penstock.files.keys import join_key, normalize_name
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.sources import NEVER_EXPIRES
from penstock.leases import Lease
from penstock.systems.security_assistant.tables import EVENT_SORT_KEY, JOB_KEY

NAME_BYTES: Final = 200
_REFUSED: Final = ("#", "/", "\\", "..")
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class BadName(PenstockError, ValueError):
    """A name that may be no part of a key: the message says which, why, and what to do."""


def part_of(name: str, what: str) -> str:
    """The name as a part of keys and paths (1, 2)."""
    if not isinstance(name, str):
        raise BadName(f"{what} is a text, not {type(name).__name__}.")
    for refused in _REFUSED:
        if refused in name:
            raise BadName(f"{what} {name!r} has {refused!r}, which may be in no name. Write it without.")
    try:
        part = normalize_name(name)
    except BadKey:
        raise BadName(f"{what} {name!r} has no letter and no digit. Give it a name.") from None
    if len(part.encode()) > NAME_BYTES:
        raise BadName(f"{what} {name[:20]!r}… has more than {NAME_BYTES} bytes. Shorten it.")
    return part


def is_job_id(job_id: object) -> bool:
    """Whether a job could have this id."""
    return isinstance(job_id, str) and _JOB_ID.fullmatch(job_id) is not None


def checked_job_id(job_id: str) -> str:
    if not is_job_id(job_id):
        raise BadName(
            f"job_id {job_id!r} is not letters, digits, _ and -, 100 at most. Use an id such as job_1734567890."
        )
    return job_id


def checked_month(month: str) -> str:
    """`2024-01`, as `date_bucket` has it."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise BadName(f"{month!r} is no month. Write it as 2024-01.")
    return month


@dataclass(frozen=True, slots=True)
class JobName:
    """Whose job it is and what it is called; all parts are normalised."""

    company: str
    client: str
    project: str
    job_id: str

    @property
    def key(self) -> str:
        """`company#client#job`, the table's partition key."""
        return f"{self.company}#{self.client}#{self.job_id}"

    @property
    def folder(self) -> str:
        return join_key(self.company, self.client, self.project, self.job_id)

    def path(self, file: str) -> str:
        """Where a file of this job lies."""
        if not _FILE_NAME.fullmatch(file) or ".." in file:
            raise BadName(f"{file!r} is no name of a file of a job.")
        return join_key(self.company, self.client, self.project, self.job_id, file)


def job_name(company: str, client: str, project: str, job_id: str) -> JobName:
    return JobName(
        part_of(company, "company_id"),
        part_of(client, "client_name"),
        part_of(project, "project_name"),
        checked_job_id(job_id),
    )


def parts_of_key(key: str) -> tuple[str, str, str]:
    """Company, client and job of `company#client#job`. Raises BadName for a key that has other parts."""
    parts = key.split("#")
    if len(parts) != 3:
        raise BadName(f"{key!r} is no key of a job: it is company#client#job.")
    company, client, job_id = parts
    for part, what in ((company, "company"), (client, "client")):
        if part_of(part, what) != part:
            raise BadName(f"{key!r}: its {what} is not normalised. It would be {part_of(part, what)!r}.")
    return company, client, checked_job_id(job_id)


Item = dict[str, Any]

TASK: Final = "drawing"
STATUSES: Final = ("queued", "processing", "completed", "failed")
KEEP_SECONDS: Final = 30 * 24 * 3600
"""A job lives this long after it has ended."""


class BadItem(PenstockError, ValueError):
    """An item that is no job: the message says which attribute, and why."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a stage has left: `data_key` names the file, the hash what must be in it."""

    timestamp: str
    data_key: str
    version: int
    sha256: str = ""
    size: int = 0
    summary: Mapping[str, Any] | None = None

    def item(self) -> Item:
        item: Item = {"timestamp": self.timestamp, "data_key": self.data_key, "version": self.version}
        if self.sha256:
            item |= {"sha256": self.sha256, "size": self.size}
        if self.summary is not None:
            item["summary"] = dict(self.summary)
        return item

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Checkpoint:
        return cls(
            timestamp=item["timestamp"],
            data_key=item["data_key"],
            version=int(item["version"]),
            sha256=item.get("sha256", ""),
            size=int(item.get("size", 0)),
            summary=item.get("summary"),
        )


@dataclass(frozen=True, slots=True)
class DrawingJob:
    """A job as it was when it was read."""

    name: JobName
    client_name: str
    project_name: str
    lifecycle: Job
    """Its state, times, counts and lease, as every job has them. `run_at` is when it was made, or its next attempt."""
    input_files: Mapping[str, str]
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    output_files: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    stage_versions: Mapping[str, int] = field(default_factory=dict)
    saved: Mapping[str, SavedFile] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Attributes that we do not know: they are kept as they are."""

    @property
    def id(self) -> str:
        return self.name.job_id

    @property
    def company(self) -> str:
        return self.name.company

    @property
    def key(self) -> str:
        return self.name.key

    @property
    def client(self) -> str:
        """What its client is asked for by. Ours is the key's; another program may have shortened it in the key."""
        try:
            return part_of(self.client_name, "client_name")
        except BadName:
            return self.name.client

    @property
    def month(self) -> str:
        """Its `date_bucket`."""
        return utc_text(self.created_at)[:7]

    @property
    def state(self) -> State:
        return self.lifecycle.state

    @property
    def created_at(self) -> float:
        return self.lifecycle.created_at

    @property
    def version(self) -> int:
        return self.lifecycle.version

    @property
    def attempt(self) -> int:
        return self.lifecycle.attempt

    @property
    def lease(self) -> Lease | None:
        return self.lifecycle.lease

    @property
    def retry_at(self) -> float | None:
        """When its next attempt begins, if it waits for one."""
        return None if self.lifecycle.run_at == self.created_at else self.lifecycle.run_at

    @property
    def expires_at(self) -> int | None:
        return None if self.lifecycle.expires_at == NEVER_EXPIRES else self.lifecycle.expires_at

    @property
    def is_terminal(self) -> bool:
        return self.lifecycle.is_terminal

    def is_claimable(self, now: float) -> bool:
        """Whether a worker may begin it, or continue it because its worker is gone."""
        if self.state is State.QUEUED:
            return self.retry_at is None or self.retry_at <= now
        return self.state is State.PROCESSING and (self.lease is None or self.lease.takeable_at <= now)

    def item(self) -> Item:
        """All of it as an item, but for the attributes that a layout's indexes want."""
        lifecycle = self.lifecycle
        item: Item = {
            **self.others,
            JOB_KEY: self.key,
            "company_id": self.company,
            "client_name": self.client_name,
            "client_key": self.name.client,
            "project_name": self.project_name,
            "project_key": self.name.project,
            "job_id": self.id,
            "status": self.state.value,
            "created_at": utc_text(self.created_at),
            "updated_at": utc_text(lifecycle.updated_at),
            "date_bucket": self.month,
            "input_files": dict(self.input_files),
            "checkpoints": {name: point.item() for name, point in self.checkpoints.items()},
            "output_files": dict(self.output_files),
            "metadata": dict(self.metadata),
            "error": None if self.error is None else dict(self.error),
            "version": self.version,
            "stage_versions": dict(self.stage_versions),
            "saved": {key: file.form() for key, file in self.saved.items()},
            "attempt": self.attempt,
            "failures": lifecycle.failures,
            "crashes": lifecycle.crashes,
            "lease_token": lifecycle.token,
        }
        if self.expires_at is not None:
            item["ttl"] = self.expires_at
        if self.lease is not None:
            until = utc_text(self.lease.until)
            item["lease"] = {"owner": self.lease.owner, "until": until, "seconds": self.lease.seconds}
        times = (self.retry_at, lifecycle.started_at, lifecycle.ended_at)
        item |= {name: utc_text(at) for name, at in zip(_TIMES, times, strict=True) if at is not None}
        return item


_TIMES: Final = ("retry_at", "started_at", "ended_at")
_KNOWN: Final = frozenset(
    {
        *(JOB_KEY, "company_id", "client_name", "client_key", "project_name", "project_key", "job_id", "status"),
        *("created_at", "updated_at", "date_bucket", "input_files", "checkpoints", "output_files", "metadata", "error"),
        *("version", "stage_versions", "saved", "attempt", "failures", "crashes", "lease_token", "ttl", "lease"),
        *("status#shard", "date_bucket#shard", "company#client", "write_id", *_TIMES),
    }
)


def job_of(raw: Mapping[str, Any]) -> DrawingJob:
    """The job of an item, also of one that another program made, as long as the schema's attributes are there.

    Raises BadItem.
    """
    item = plain(raw)
    try:
        return _job_of(item)
    except KeyError as error:
        raise BadItem(f"{item.get(JOB_KEY, 'an item')!r} has no attribute {error.args[0]!r}: it is no job.") from None
    except (BadName, TypeError, ValueError, AttributeError) as error:
        raise BadItem(f"{item.get(JOB_KEY, 'an item')!r} is no job: {error}") from None


def _job_of(item: Item) -> DrawingJob:
    company, client, job_id = parts_of_key(item[JOB_KEY])
    if item.get("job_id", job_id) != job_id or item.get("company_id", company) != company:
        raise BadName("job_id and company_id are not those of its key.")
    if item["status"] not in STATUSES:
        raise BadName(f"its status is {item['status']!r}, not one of {', '.join(STATUSES)}.")
    project = item.get("project_key") or part_of(item["project_name"], "project_name")
    get = item.get
    return DrawingJob(
        name=JobName(company, client, project, job_id),
        client_name=item["client_name"],
        project_name=item["project_name"],
        lifecycle=_lifecycle_of(item, company, job_id),
        input_files=get("input_files") or {},
        checkpoints={name: Checkpoint.of(point) for name, point in (get("checkpoints") or {}).items()},
        output_files=get("output_files") or {},
        metadata=get("metadata") or {},
        error=get("error"),
        stage_versions={name: int(number) for name, number in (get("stage_versions") or {}).items()},
        saved={key: SavedFile.parse(form) for key, form in (get("saved") or {}).items()},
        others={name: value for name, value in item.items() if name not in _KNOWN},
    )


def _lifecycle_of(item: Item, company: str, job_id: str) -> Job:
    get = item.get
    created_at = utc_seconds(item["created_at"])
    retry_at, started_at, ended_at = (None if get(name) is None else utc_seconds(item[name]) for name in _TIMES)
    token, lease = int(get("lease_token", 0)), get("lease")
    return Job(
        id=job_id,
        task=TASK,
        state=State(item["status"]),
        created_at=created_at,
        updated_at=utc_seconds(get("updated_at") or item["created_at"]),
        run_at=created_at if retry_at is None else retry_at,
        expires_at=int(get("ttl", NEVER_EXPIRES)),
        tenant=company,
        version=int(get("version", 0)),
        attempt=int(get("attempt", 0)),
        failures=int(get("failures", 0)),
        crashes=int(get("crashes", 0)),
        token=token,
        lease=lease and Lease(lease["owner"], token, utc_seconds(lease["until"]), float(lease["seconds"])),
        started_at=started_at,
        ended_at=ended_at,
    )


def plain(value: Any) -> Any:
    """Values of a table as JSON has them: numbers with a fraction become floats."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(member) for member in value)
    return value


def count_text(number: int, word: str) -> str:
    """`1 page`, `4 pages`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


EventType = Literal["job_created", "agent_started", "agent_completed", "error_occurred"]
EVENT_TYPES: Final = get_args(EventType)
KEEP_EVENTS_SECONDS: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Event:
    """`id` makes two events of one millisecond two items."""

    job_id: str
    company: str
    at: float
    id: str
    type: EventType
    agent: str = ""
    duration_ms: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sort_key(self) -> str:
        return f"{utc_text(self.at)}#{self.id}"

    @property
    def expires_at(self) -> int:
        return int(self.at) + KEEP_EVENTS_SECONDS

    def item(self) -> Item:
        item: Item = {
            "job_id": self.job_id,
            EVENT_SORT_KEY: self.sort_key,
            "event_type": self.type,
            "company_id": self.company,
            "details": dict(self.details),
            "ttl": self.expires_at,
        }
        if self.agent:
            item["agent_name"] = self.agent
        if self.duration_ms is not None:
            item["duration_ms"] = self.duration_ms
        return item


def new_event(
    job: DrawingJob,
    kind: EventType,
    now: float,
    message: str,
    *,
    agent: str = "",
    duration_ms: int | None = None,
    **details: Any,
) -> Event:
    stored = {"message": message, **details}
    return Event(job.id, job.company, now, f"evt_{secrets.token_hex(6)}", kind, agent, duration_ms, stored)


def event_of(raw: Mapping[str, Any]) -> Event:
    item = plain(raw)
    moment, _, event_id = item[EVENT_SORT_KEY].partition("#")
    return Event(
        job_id=item["job_id"],
        company=item.get("company_id", ""),
        at=utc_seconds(moment),
        id=event_id,
        type=item["event_type"],
        agent=item.get("agent_name", ""),
        duration_ms=item.get("duration_ms"),
        details=item.get("details") or {},
    )
