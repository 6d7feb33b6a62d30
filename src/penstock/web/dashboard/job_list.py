"""The list of jobs: its search box, its order and its rows.

1. The search box is the URL's query (`?q=status:failed kind:monthly_report tenant:acme bodwassho`). A word without a
   colon is searched for in a job's own text. A filter that there is not is told, and searched for as a word.
2. Lists are newest first by when a job was made; failed jobs by when they failed, once all of them have been read.
3. A page looks at no more than a thousand jobs for what no index has: words, derived states, queues and errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar
from urllib.parse import urlencode

from penstock.jobs.model.derived_state import STATE_NAMES, Conditions, DerivedState, Situation, derive, parse_state
from penstock.jobs.model.job import BadJob, Job
from penstock.jobs.model.state import State
from penstock.jobs.sources import AllJobs, JobQuery, JobSource, place_of
from penstock.jobs.store.conditions import Situations
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.job_survey import Failure, SurveyView

S = TypeVar("S", bound=JobSource)
_LONGEST: Final = 1_000
FILTERS: Final = ("status", "kind", "tenant", "queue", "error", "key", "tag", "table")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs to list. `problems` lists the parts that were not understood."""

    state: State | None = None
    derived: DerivedState | None = None
    """Where the state is one that no index has."""
    task: str | None = None
    tenant: str | None = None
    queue: str | None = None
    error: str | None = None
    key: str | None = None
    """A concurrency key or a rate key."""
    tag: str | None = None
    table: str | None = None
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        criteria = cls()
        for part in _parts(text[:_LONGEST]):
            name, colon, value = part.partition(":")
            match name.lower() if colon else "":
                case "status" | "state":
                    criteria = criteria._with_state_name(value)
                case "kind" | "task":
                    criteria = replace(criteria, task=value or None)
                case "tenant":
                    criteria = replace(criteria, tenant=value)
                case "queue":
                    criteria = replace(criteria, queue=value or None)
                case "error":
                    criteria = replace(criteria, error=value or None)
                case "key":
                    criteria = replace(criteria, key=value or None)
                case "tag":
                    criteria = replace(criteria, tag=value or None)
                case "table":
                    criteria = replace(criteria, table=value or None)
                case "":
                    criteria = replace(criteria, words=(*criteria.words, part))
                case other:
                    known_names = ", ".join(f"{one}:" for one in FILTERS)
                    told = f"There is no filter {other}:, so it was searched for as a word. There are {known_names}."
                    problems = criteria.problems if "/" in value else (*criteria.problems, told)  # an address is none
                    criteria = replace(criteria, words=(*criteria.words, part), problems=problems)
        return criteria

    def _with_state_name(self, value: str) -> Filter:
        try:
            state, derived = parse_state(value.lower())
        except BadJob:
            known = ", ".join(STATE_NAMES)
            return replace(self, problems=(*self.problems, f"There is no status {value!r}; there are {known}."))
        return replace(self, state=state, derived=derived)

    @property
    def state_name(self) -> str:
        """The state that is asked for, as it is called; "" for all."""
        if self.derived is not None:
            return self.derived.value
        return "" if self.state is None else self.state.value

    def __str__(self) -> str:
        """The text that parses to this."""
        named = (
            ("status", self.state_name or None),
            ("kind", self.task),
            ("tenant", self.tenant),
            ("queue", self.queue),
            ("error", self.error),
            ("key", self.key),
            ("tag", self.tag),
            ("table", self.table),
        )
        parts = [_quote(f"{name}:{value}") for name, value in named if value is not None]
        return " ".join([*parts, *(_quote(word) for word in self.words)])

    def with_state(self, state: str | None) -> Filter:
        stored, derived = (None, None) if state is None else parse_state(state)
        return replace(self, state=stored, derived=derived, problems=())

    def with_table(self, table: str | None) -> Filter:
        return replace(self, table=table, problems=())

    def sources_of(self, sources: Sequence[S]) -> list[S]:
        """Those of the table that is asked for; all of them where none is."""
        return [one for one in sources if self.table is None or one.table == self.table]

    @property
    def is_searched(self) -> bool:
        """Whether jobs must be read to know whether they match."""
        return bool(self.words or self.derived or self.queue or self.error or self.key)

    def accepts(self, job: Job, situation: Situation) -> bool:
        """What no index answers."""
        return (
            (self.derived is None or situation.state is self.derived)
            and (self.queue is None or job.queue == self.queue)
            and (self.error is None or (job.error is not None and job.error.kind == self.error))
            and (self.key is None or self.key in (job.concurrency_key, job.rate_key))
            and self.has_words(job)
        )

    def has_words(self, job: Job) -> bool:
        """Whether every word is somewhere in the job's own text, in any case."""
        if not self.words:
            return True
        error = "" if job.error is None else f"{job.error.kind} {job.error.message}"
        owner = "" if job.lease is None else job.lease.owner
        arguments = "" if job.secret else job.args.text or ""  # a search must not tell what a screen does not show
        keys = [key for key in (job.concurrency_key, job.rate_key) if key]
        text = "\n".join(
            (job.id, job.task, job.schedule, job.queue, job.tenant, job.step, error, owner, arguments, *keys)
        ).lower()
        return all(word.lower() in text for word in self.words)


_PART: Final = re.compile(r'(?:"(?:[^"]|"")*"|[^\s"])+')
"""Part = (letter | '"' (letter | '""')* '"')+: within quotes a quote is written twice."""
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')


def _parts(text: str) -> list[str]:
    if text.count('"') % 2:  # a quote that is not closed yet: somebody is typing
        return text.replace('"', " ").split()
    parts = (_QUOTED.sub(lambda quoted: quoted[1].replace('""', '"'), part) for part in _PART.findall(text))
    return [part for part in parts if part]


def _quote(part: str) -> str:
    doubled = part.replace('"', '""')
    return f'"{doubled}"' if any(letter.isspace() or letter == '"' for letter in part) or not part else part


def jobs_address(
    *,
    status: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    queue: str | None = None,
    error: str | None = None,
    key: str | None = None,
    tag: str | None = None,
    table: str | None = None,
) -> str:
    """The address of the list with this search. What is empty is not searched for."""
    criteria = Filter(
        task=kind or None,
        tenant=tenant or None,
        queue=queue or None,
        error=error or None,
        key=key or None,
        tag=tag or None,
        table=table or None,
    )
    return f"/jobs?{urlencode({'q': str(criteria.with_state(status))})}"


# ── finding ──────────────────────────────────────────────────────────────────────────────────────

PAGE_JOBS: Final = 50
_MOST_SEARCHED: Final = 1_000
_MOST_SCANNED: Final = 2_000
"""Items of a table without an index by time, for one page."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job of the list, with what its state's columns show."""

    job: Job
    situation: Situation
    source: JobSource

    @property
    def what(self) -> str:
        """The error, the reason or the step; else the arguments, as far as they are shown. It gets the free width."""
        if self.situation.why:
            return self.situation.why
        job = self.job
        if job.entries and not job.is_terminal:
            return f"{job.progress:.0f} % {job.step}".rstrip()
        return "" if job.secret or job.args.text in (None, "{}") else str(job.args.text)

    @property
    def seconds(self) -> float | None:
        """How long it ran."""
        job = self.job
        return None if job.started_at is None or job.ended_at is None else job.ended_at - job.started_at


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of the list. `looked_at` is how many were read to find them."""

    rows: tuple[Row, ...]
    token: str | None
    looked_at: int
    notes: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(row.job for row in self.rows)


class _Rows:
    """Makes rows, and reads the conditions of each store's queues once."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._stores: dict[str, Situations] = {}

    def row(self, job: Job, source: JobSource) -> Row:
        if source.store is None:
            return Row(job, derive(job, Conditions(self._now)), source)
        known = self._stores.setdefault(source.table, Situations(source.store))
        return Row(job, known.of(job), source)


def find_jobs(jobs: AllJobs, criteria: Filter, token: str | None, now: float, limit: int = PAGE_JOBS) -> JobPage:
    """The jobs that the filter wants, newest first (3)."""
    rows = _Rows(now)
    matches: list[Row] = []
    looked_at = 0
    step = limit if not criteria.is_searched else _MOST_SEARCHED // 4
    query = JobQuery(
        criteria.state, criteria.task, criteria.tenant, limit=step, most_scanned=_MOST_SCANNED, tag=criteria.tag
    )
    while True:
        page = jobs.find(replace(query, before=token))
        for number, job in enumerate(page.jobs):
            row = rows.row(job, page.sources[job.id])
            if not criteria.accepts(job, row.situation):
                continue
            matches.append(row)
            if len(matches) == limit:
                is_last = number + 1 == len(page.jobs) and page.token is None
                next_token = None if is_last else place_of(job)
                return JobPage(tuple(matches), next_token, looked_at + number + 1, page.notes)
        looked_at += len(page.jobs)
        token = page.token
        if token is None or looked_at >= _MOST_SEARCHED:
            return JobPage(tuple(matches), token, looked_at, page.notes)


NOT_BY_FAILURE: Final = "Not all failed jobs have been read yet: these are sorted by when they were made."


def find_failed(
    jobs: AllJobs, store: JobStore, survey: SurveyView, criteria: Filter, token: str | None, limit: int = PAGE_JOBS
) -> JobPage | None:
    """Failed jobs by when they failed (2); None where that is not known."""
    others = AllJobs([one for one in jobs.sources if one.store is None or one.table != store.layout.table])
    query = JobQuery(State.FAILED, criteria.task, criteria.tenant, limit=_MOST_SEARCHED, most_scanned=_MOST_SCANNED)
    foreign = others.find(query) if others.sources else None
    if criteria.tag is not None or not survey.failures_whole or (foreign is not None and foreign.token is not None):
        return None
    source = next(one for one in jobs.sources if one.table == store.layout.table)
    rows = _Rows(store.clock.now())
    fitting = (one for one in survey.failures if _fits(one, criteria))
    places: list[tuple[str, Failure | Row]] = [(_failed_place(one), one) for one in fitting]
    for job in () if foreign is None else foreign.jobs:
        assert foreign is not None
        row = rows.row(job, foreign.sources[job.id])
        places.append((f"{job.ended_at or job.updated_at:020.6f}#{job.id}", row))
    places.sort(key=lambda one: one[0], reverse=True)
    wanted = [one for one in places if token is None or one[0] < token][: _MOST_SEARCHED + 1]
    matches: list[Row] = []
    for start in range(0, len(wanted), limit):
        some = wanted[start : start + limit]
        found = {job.id: job for job in store.get_existing([one.job_id for _, one in some if isinstance(one, Failure)])}
        for number, (place, one) in enumerate(some):
            current = found.get(one.job_id) if isinstance(one, Failure) else None
            made = one if isinstance(one, Row) else None if current is None else rows.row(current, source)
            if made is None or made.job.state is not State.FAILED or not criteria.accepts(made.job, made.situation):
                continue
            matches.append(made)
            if len(matches) == limit:
                is_last = start + number + 1 == len(wanted)
                return JobPage(tuple(matches), None if is_last else place, start + number + 1)
    more = wanted[-1][0] if len(wanted) > _MOST_SEARCHED else None
    return JobPage(tuple(matches), more, len(wanted))


def _failed_place(one: Failure) -> str:
    return f"{one.failed_at:020.6f}#{one.job_id}"


def _fits(one: Failure, criteria: Filter) -> bool:
    return (
        (criteria.task is None or one.task == criteria.task)
        and (criteria.tenant is None or one.tenant == criteria.tenant)
        and (criteria.queue is None or one.queue == criteria.queue)
        and (criteria.error is None or one.kind == criteria.error)
    )


# ── sorting ──────────────────────────────────────────────────────────────────────────────────────

SORTS: Final = ("kind", "tenant", "queue", "attempt", "ran", "when")
"""What a list may be sorted by; with a - before it, backwards."""


def find_sorted(jobs: AllJobs, criteria: Filter, sort: str, offset: int, now: float) -> JobPage:
    """A page of the newest `_MOST_SEARCHED` jobs that match, sorted; its token is the place of the next page."""
    page = find_jobs(jobs, criteria, None, now, _MOST_SEARCHED)
    name, columns = sort.removeprefix("-"), COLUMNS[criteria.state_name]

    def place(row: Row) -> tuple[bool, float | str]:
        match name:
            case "ran":
                value: float | str | None = row.seconds
            case "when":
                value = time_of(row, columns)
            case "attempt":
                value = row.job.attempt
            case "tenant":
                value = row.job.tenant
            case "queue":
                value = row.job.queue
            case _:
                value = row.job.task
        return (value is not None, 0.0 if value is None else value)

    rows = sorted(page.rows, key=place, reverse=sort.startswith("-"))
    rows.sort(key=lambda row: not place(row)[0])  # those without a value are last in either direction
    following = offset + PAGE_JOBS
    notes = page.notes if page.token is None else (*page.notes, f"Only the newest {len(rows):,} that match are sorted.")
    token = str(following) if following < len(rows) else None
    return JobPage(tuple(rows[offset:following]), token, len(rows), notes)


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a state's list: what the wide one is called, and which time and which span are shown."""

    what: str
    when: str
    time: str = "created_at"
    """The attribute of the job, or `until` of its situation."""
    span: str = ""
    has_attempt: bool = False


COLUMNS: Final[Mapping[str, Columns]] = {
    "": Columns("Error, reason, progress or arguments", "Made"),
    "ready": Columns("Arguments", "Due", "run_at"),
    "scheduled": Columns("Arguments", "Due", "until"),
    "retrying": Columns("Last error", "Due", "until", has_attempt=True),
    "waiting": Columns("Waits for", "Until", "until"),
    "blocked": Columns("Blocked by", "Due", "run_at"),
    "running": Columns("Progress", "Began", "started_at", has_attempt=True),
    "lost": Columns("Why", "Last heard", "updated_at", has_attempt=True),
    "failed": Columns("Error", "Failed", "ended_at", "Ran", has_attempt=True),
    "cancelled": Columns("Reason", "Ended", "ended_at"),
    "completed": Columns("Arguments", "Ended", "ended_at", "Ran"),
    "queued": Columns("Reason", "Due", "run_at"),
    "processing": Columns("Progress", "Began", "started_at", has_attempt=True),
}


def time_of(row: Row, columns: Columns) -> float | None:
    at: float | None = row.situation.until if columns.time == "until" else getattr(row.job, columns.time)
    return at
