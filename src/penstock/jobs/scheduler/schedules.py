"""Schedules: tasks that are enqueued by the clock, declared in code or created while the program runs.

    @app.task(cron="30 6 * * mon-fri")                             # declared
    def report(project: str = "all") -> None: ...

    app.schedules.create("acme report", report, cron="0 7 * * *", timezone="Europe/Paris", args={"project": "acme"})
    app.schedules.pause("acme report")

1. A schedule is an item of its own beside the jobs, `schedule#NAME`. Each write of it is conditional on its version.
2. All stand in one pool of the claim index, in the order of their next times, paused ones last. So a worker reads what
   is due and the next one, however many there are, and a change is seen at its next look.
3. Every time is one job, whose id is made of the schedule's name and the time: of any number of workers that enqueue
   it, one has made it, and the others find it. Only then the schedule moves on to its next time.
4. A worker writes down what its code declares when it begins. The code says when, with what and whether at all; whether
   it is paused is not the code's, and stays.
5. Times that passed without a worker are not made up for, except for the last one; those of a pause not at all.
6. `revision` is made of what people decide, and stays as times pass: a change that names the revision it was meant for
   is refused after another change, and not because a job was enqueued meanwhile.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Final

from penstock.clock import utc_seconds, utc_text
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.jobs.layouts.layout import Item, ReadCall
from penstock.jobs.model.job import Job, NewJob, checked_name, checked_task_name
from penstock.jobs.model.json_text import from_json, to_json
from penstock.jobs.model.secret_fields import mask_arguments
from penstock.jobs.scheduler.cron import BadCron, Schedule, every_text
from penstock.jobs.store.queries import BATCH_KEYS, JobReader
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import Task
from penstock.optimistic import Contention

_LOG = logging.getLogger("penstock.jobs")

_PREFIX: Final = "schedule#"
_POOL: Final = "#schedule"
"""No queue's name is empty: no queue has this pool."""
_LAST: Final = "~"
"""Sorts after every time, which begins with a digit."""
_NAME_BYTES: Final = 150
"""A job's id has the schedule's name and the time in 200 bytes."""
_ARGUMENT_BYTES: Final = 100_000
_LOOKED_AT: Final = 16
"""How many a worker reads of the pool at once: half a read unit."""
LEFT_SECONDS: Final = 3_600.0
MOST_LISTED: Final = 1_000
_OPTIONS: Final = frozenset(
    {"queue", "tenant", "priority", "unique_key", "concurrency_key", "max_concurrent", "rate_key"}
)
"""Options of a task that its schedule keeps. The others are about one job."""
_KEPT: Final = _OPTIONS | {"retries", "rate", "secret"}
_DECIDED: Final = ("task", "cron", "timezone", "args", "overlap", "paused", "declared", "created_at", "options")
"""The attributes of an item that people decide; the others change as times pass (6)."""


class ScheduleNotFound(PenstockError):
    """There is no such schedule."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no schedule {name!r}: `penstock schedules list` shows those that there are.")
        self.name = name


class BadSchedule(PenstockError, ValueError):
    """A schedule that cannot be made or changed so: the message says why, and what to do."""


class ScheduleChanged(BadSchedule):
    """Somebody has changed it since it was read. `now` is what it is."""

    def __init__(self, now: SavedSchedule) -> None:
        super().__init__(f"{now.name} has been changed since you looked. Nothing was written: look again, and decide.")
        self.now = now


@dataclass(frozen=True, slots=True)
class SavedSchedule:
    """A schedule as it was when it was read."""

    name: str
    task: str
    times: Schedule = field(repr=False)
    created_at: float
    since: float
    """Its last time, or when it began or was resumed: the next time is the first after it."""
    declared: bool = False
    """It stands in the code: @app.task(cron=…)."""
    paused: bool = False
    last_at: float | None = None
    """The last time that it was due, and has made a job or skipped one."""
    last_job: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the task's options said when it was made."""
    task_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the task itself said: for workers that do not have it."""
    version: int = 0
    is_left: bool = False
    """It is declared, was due an hour ago, and no worker that has its task was there."""

    @property
    def cron(self) -> str:
        """When it is due, as cron writes it, or `@every 900s`."""
        return self.times.text

    @property
    def timezone(self) -> str:
        """Whose clock it goes by."""
        return self.times.timezone

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments of its jobs."""
        return self.times.arguments

    @property
    def secret(self) -> tuple[str, ...]:
        """Paths to the arguments that no screen shows, as far as its task is known."""
        return tuple(self.task_options.get("secret", ()))

    @property
    def shown_args(self) -> Mapping[str, Any]:
        """The arguments for a screen, with *** for those that are secret."""
        shown: Mapping[str, Any] = mask_arguments(dict(self.args), self.secret)
        return shown

    @property
    def revision(self) -> str:
        """What people have decided of it, as a digest (6)."""
        form = _form(self)
        decided = to_json([form.get(name) for name in _DECIDED], "schedule")
        return hashlib.sha256(decided.encode()).hexdigest()[:32]

    @property
    def overlap(self) -> bool:
        """Whether a job is enqueued while the one before has not ended."""
        return self.times.overlaps

    @property
    def next_at(self) -> float | None:
        """When it is due next; in the past where that time passed without a worker; None while it is paused."""
        return None if self.paused else self.times.after(self.since)


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Schedules by their next time, paused ones last; `token` is where the next page begins, None after the last."""

    schedules: tuple[SavedSchedule, ...]
    token: str | None


@dataclass(frozen=True, slots=True)
class Due:
    """Schedules whose time has come, and when the next one's does, as far as is known."""

    schedules: tuple[SavedSchedule, ...]
    next_at: float | None
    more: bool


class Schedules:
    """The schedules of an app: `app.schedules`."""

    def __init__(self, open_store: Callable[[], JobStore], tasks: Mapping[str, Task[Any, Any]]) -> None:
        self._open_store = open_store
        self._tasks = tasks
        self.declared: dict[str, Schedule] = {}
        """Those of this app's code, by their tasks' names."""

    # ── what people do ───────────────────────────────────────────────────────────────────────────

    def create(
        self,
        name: str,
        task: Task[Any, Any] | str,
        cron: str | None = None,
        *,
        every: timedelta | None = None,
        args: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
        overlap: bool = False,
        paused: bool = False,
        dry_run: bool = False,
    ) -> SavedSchedule:
        """Enqueues the task by the clock of `timezone` from now on, with these arguments.

        `cron` is five fields ("30 6 * * mon-fri"), or `every` a timedelta. While one of its jobs has not ended, the
        next is skipped, unless `overlap` allows it. `task` is a task, also one with options, or the name of another
        program's. With `dry_run` it is checked and returned, and not written. Raises BadSchedule, BadCron; BadJob for
        arguments that the task does not take.
        """
        if not isinstance(name, str) or len(checked_name(name, "schedule").encode()) > _NAME_BYTES:
            raise BadSchedule(f"The name of a schedule is text of at most {_NAME_BYTES} bytes, not {name!r:.200}.")
        if name in self.declared:
            raise BadSchedule(f"{name} is declared in the code, with @app.task(cron=…): take another name.")
        task_name, options = self._checked_task(task)
        stored = self._stored_arguments(task_name, args)
        times = Schedule.parse(name, _when(cron, every), timezone, arguments=stored, overlaps=overlap)
        now = self._store.clock.now()
        made = SavedSchedule(name, task_name, times, now, now, paused=paused, options=options)
        made = replace(made, task_options=self._task_options(made))
        is_taken = BadSchedule(f"There is a schedule {name!r} already: change it, or delete it first.")
        if dry_run:
            if self._read([name]):
                raise is_taken
            return made
        try:
            return self._write(made)
        except ConditionalCheckFailedException:
            raise is_taken from None

    def change(
        self,
        name: str,
        *,
        task: Task[Any, Any] | str | None = None,
        cron: str | None = None,
        every: timedelta | None = None,
        args: Mapping[str, Any] | None = None,
        timezone: str | None = None,
        overlap: bool | None = None,
        paused: bool | None = None,
        if_revision: str | None = None,
        dry_run: bool = False,
    ) -> SavedSchedule:
        """Changes what is given, and nothing else; times are counted from now on.

        With `if_revision`, the `revision` of one that was read, only if nobody has changed it since (ScheduleChanged).
        With `dry_run` the change is checked and returned, and not written. Raises ScheduleNotFound, BadSchedule (also
        for one that is declared in the code), BadCron, BadJob.
        """
        chosen = None if task is None else self._checked_task(task)

        def changed(saved: SavedSchedule) -> SavedSchedule:
            _refuse_declared(saved, "change")
            if if_revision is not None and saved.revision != if_revision:
                raise ScheduleChanged(saved)
            before, task_name = saved.times, saved.task if chosen is None else chosen[0]
            times = Schedule.parse(
                name,
                before.text if cron is None and every is None else _when(cron, every),
                before.timezone if timezone is None else timezone,
                arguments=before.arguments if args is None else self._stored_arguments(task_name, args),
                overlaps=before.overlaps if overlap is None else overlap,
            )
            after = replace(saved, times=times, since=self._store.clock.now())
            if paused is not None:
                after = replace(after, paused=paused)
            if chosen is not None:
                after = replace(after, task=chosen[0], options=chosen[1], task_options={})
            return replace(after, task_options=self._task_options(after))

        return changed(self.get(name)) if dry_run else self._change(name, changed)

    def pause(self, name: str) -> SavedSchedule:
        """Enqueues no more until it is resumed; also one that is declared. Raises ScheduleNotFound."""
        return self._change(name, lambda saved: replace(saved, paused=True))

    def resume(self, name: str) -> SavedSchedule:
        """Enqueues again from its next time on. Raises ScheduleNotFound."""

        def resumed(saved: SavedSchedule) -> SavedSchedule:
            since = self._store.clock.now() if saved.paused else saved.since
            return replace(saved, paused=False, since=since, is_left=False)

        return self._change(name, resumed)

    def run(self, name: str) -> Job:
        """Enqueues one job now, whatever the time, also of a paused one; its times stay as they are.

        Where jobs of the schedule may not overlap and one has not ended, that one is returned (`is_new` is False).
        Raises ScheduleNotFound.
        """
        saved = self.get(name)
        job, is_new = self._store.create(self.new_job(saved))
        if is_new:
            self._change(name, lambda current: replace(current, last_job=job.id))
        return replace(job, is_new=is_new)

    def delete(self, name: str) -> None:
        """Its jobs stay. Raises ScheduleNotFound; BadSchedule for one that is declared in the code."""
        saved = self.get(name)
        if not saved.is_left:  # nobody's code declares it any more
            _refuse_declared(saved, "delete")
        key = self._store.layout.main_key(f"{_PREFIX}{name}")
        self._store.patient_db.execute("DeleteItem", {"TableName": self._store.layout.table, "Key": key})

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> SavedSchedule:
        """Raises ScheduleNotFound."""
        found = self._read([name])
        if not found:
            raise ScheduleNotFound(name)
        return found[0]

    def list(self, *, limit: int = MOST_LISTED, token: str | None = None) -> SchedulePage:
        """Schedules by their next time, paused ones last."""
        keys = self._keys("" if token is None else f"{token}\x00", limit + 1)
        schedules = self._read([name for _, name in keys[:limit]])
        return SchedulePage(tuple(schedules), keys[limit - 1][0] if len(keys) > limit else None)

    def __iter__(self) -> Iterator[SavedSchedule]:
        token: str | None = None
        while True:
            page = self.list(token=token)
            yield from page.schedules
            token = page.token
            if token is None:
                return

    def _keys(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Places in the pool and names, as many as that."""
        layout = self._store.layout
        index, name = layout.claim_index, next(iter(layout.main_key("")))
        request = {
            "TableName": layout.table,
            "IndexName": index.name,
            "KeyConditionExpression": "#pool = :pool AND #order >= :after",
            "ExpressionAttributeNames": {"#pool": index.pool, "#order": index.order},
            "ExpressionAttributeValues": {":pool": {"S": _POOL}, ":after": {"S": after or " "}},
            "Limit": limit,
        }
        found = []
        for item in self._reader.pages(ReadCall("Query", request)):
            found.append((item[index.order]["S"], item[name]["S"].removeprefix(_PREFIX)))
            if len(found) == limit:
                break
        return found

    def _read(self, names: Iterable[str]) -> Sequence[SavedSchedule]:
        """Those of them that there are, in that order."""
        wanted = [name for name in names if isinstance(name, str) and name]
        found: dict[str, SavedSchedule] = {}
        for start in range(0, len(wanted), BATCH_KEYS):
            some = wanted[start : start + BATCH_KEYS]
            keys = [self._store.layout.main_key(f"{_PREFIX}{name}") for name in some]
            found |= {one.name: one for one in map(_readable, self._reader.records(keys)) if one is not None}
        return [found[name] for name in wanted if name in found]

    # ── what a worker does ───────────────────────────────────────────────────────────────────────

    def declare(self, fired: Callable[[], Mapping[str, float]]) -> None:
        """Writes down what the code declares, and removes what it has declared before (4).

        `fired` reads when each was last due, as tables of 0.1 say it.
        """
        known = {saved.name: saved for saved in self._read(self._tasks)}
        now, seen = self._store.clock.now(), dict[str, float]()
        if any(name not in known for name in self.declared):
            seen = dict(fired())
        for name in self._tasks:
            saved, times = known.get(name), self.declared.get(name)
            if times is None:
                if saved is not None and saved.declared:
                    self._forget(saved)
                continue
            before = saved or SavedSchedule(name, name, times, now, seen.get(name, now))
            after = replace(before, task=name, times=times, declared=True, options={}, is_left=False)
            after = replace(after, task_options=self._task_options(after))
            if saved is None or _form(after) != _form(saved):
                self._try_write(after)

    def due(self, now: float) -> Due:
        """Half a read unit while nothing is due, however many schedules there are (2)."""
        keys = self._keys("", _LOOKED_AT)
        times = [(utc_seconds(place.partition("#")[0]), name) for place, name in keys if not place.startswith(_LAST)]
        names = [name for at, name in times if at <= now]
        # The index may lag: the item says whether it is due.
        schedules = [saved for saved in self._read(names) if (saved.next_at or math.inf) <= now]
        next_at = min((at for at, _ in times if at > now), default=None)
        return Due(tuple(schedules), next_at, more=len(names) == _LOOKED_AT)

    def new_job(self, saved: SavedSchedule, at: float | None = None) -> NewJob:
        """The job of a schedule for a time, or (None) for now."""
        task = self._tasks.get(saved.task)
        if task is not None:
            new = replace(task.new_job_of_json(dict(saved.args)), **saved.options)
        else:
            known = {**saved.task_options, **saved.options, "secret": saved.secret}
            new = NewJob(saved.task, dict(saved.args), **known)
        # Of jobs with one unique key, one has not ended: the next is not made while the last one is there.
        unique_key = new.unique_key if saved.overlap else f"cron {saved.name}"
        job_id = None if at is None else f"cron_{saved.name}_{utc_text(at).replace(':', '').replace('-', '')}"
        return replace(new, id=job_id, unique_key=unique_key, schedule=saved.name)

    def advance(self, saved: SavedSchedule, at: float, job_id: str) -> None:
        """That time has its job: the next is the first after it. Nothing is done if somebody has changed it (3)."""
        self._try_write(replace(saved, since=at, last_at=at, last_job=job_id))

    def leave(self, saved: SavedSchedule) -> None:
        """It is declared, and no worker that declares it is there: others need not read it until one is."""
        self._try_write(replace(saved, is_left=True))

    def _forget(self, saved: SavedSchedule) -> None:
        _LOG.info("%s is not scheduled by the code any more.", saved.name)
        request = {
            "TableName": self._store.layout.table,
            "Key": self._store.layout.main_key(f"{_PREFIX}{saved.name}"),
            **_unchanged(saved),
        }
        try:
            self._store.patient_db.execute("DeleteItem", request)
        except ConditionalCheckFailedException:
            return

    # ── how they are written ─────────────────────────────────────────────────────────────────────

    @property
    def _store(self) -> JobStore:
        return self._open_store()

    @property
    def _reader(self) -> JobReader:
        return JobReader(self._store.patient_db, self._store.layout)

    def _checked_task(self, task: Task[Any, Any] | str) -> tuple[str, dict[str, Any]]:
        """Its name, and the options that it was given."""
        if isinstance(task, str):
            return checked_task_name(task), {}
        if not isinstance(task, Task):
            raise BadSchedule(f"A schedule is for a task, or the name of one, not {task!r:.100}.")
        given = {
            what: value for what, value in task.given.items() if value not in ("", ()) and value != "all_completed"
        }
        if others := sorted(given.keys() - _OPTIONS):
            raise BadSchedule(f"The jobs of a schedule cannot have {others[0]}, which is about one job.")
        return checked_task_name(task.name), given

    def _stored_arguments(self, task: str, args: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """As JSON has them, if this program has the task; otherwise they must be JSON."""
        known = self._tasks.get(task)
        return args if args is None or known is None else known.stored_arguments(dict(args))

    def _task_options(self, saved: SavedSchedule) -> dict[str, Any]:
        """What the task says of its jobs, if this program has it; refuses arguments that it does not take."""
        size = len(to_json(dict(saved.args), "args").encode())
        if size > _ARGUMENT_BYTES:
            raise BadSchedule(f"The arguments of a schedule have at most {_ARGUMENT_BYTES:,} bytes, not {size:,}.")
        task = self._tasks.get(saved.task)
        if task is None:
            return dict(saved.task_options)
        new = task.new_job_of_json(dict(saved.args))
        values = {one.name: getattr(new, one.name) for one in fields(NewJob) if one.name in _KEPT}
        return {name: value for name, value in values.items() if value != _DEFAULTS[name]}

    def _change(self, name: str, change: Callable[[SavedSchedule], SavedSchedule]) -> SavedSchedule:
        contention = Contention(f"the schedule {name}")
        while True:
            try:
                return self._write(change(self.get(name)))
            except ConditionalCheckFailedException:
                contention.wait()

    def _try_write(self, saved: SavedSchedule) -> None:
        try:
            self._write(saved)
        except ConditionalCheckFailedException:
            return  # somebody else was quicker

    def _write(self, saved: SavedSchedule) -> SavedSchedule:
        """Raises ConditionalCheckFailedException if it is not as it was read."""
        layout = self._store.layout
        item = {**layout.main_key(f"{_PREFIX}{saved.name}"), **_form(saved)}
        item["version"] = {"N": str(saved.version + 1)}
        next_at = None if saved.is_left else saved.next_at
        place = _LAST if next_at is None else utc_text(next_at)
        item |= {layout.claim_index.pool: {"S": _POOL}, layout.claim_index.order: {"S": f"{place}#{saved.name}"}}
        self._store.side_items.put({"TableName": layout.table, "Item": item, **_unchanged(saved)})
        return replace(saved, version=saved.version + 1)


_DEFAULTS: Final = {one.name: one.default for one in fields(NewJob)}


def _when(cron: str | None, every: timedelta | None) -> str:
    if (cron is None) == (every is None):
        raise BadSchedule("A schedule has a cron, such as '30 6 * * mon-fri', or every=timedelta(minutes=15).")
    return every_text(every) if every is not None else cron or ""


def _refuse_declared(saved: SavedSchedule, verb: str) -> None:
    if saved.declared:
        raise BadSchedule(
            f"{saved.name} is declared in the code, with @app.task(cron=…): {verb} it there. It can be paused here."
        )


def _unchanged(saved: SavedSchedule) -> dict[str, Any]:
    names = {"#version": "version"}
    if not saved.version:
        return {"ConditionExpression": "attribute_not_exists(#version)", "ExpressionAttributeNames": names}
    return {
        "ConditionExpression": "#version = :version",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": {":version": {"N": str(saved.version)}},
    }


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def _form(saved: SavedSchedule) -> Item:
    """All of it but its key, its version and its place."""
    item: Item = {
        "name": {"S": saved.name},
        "task": {"S": saved.task},
        "cron": {"S": saved.cron},
        "timezone": {"S": saved.timezone},
        "args": {"S": to_json(dict(saved.args), "args")},
        "created_at": {"S": utc_text(saved.created_at)},
        "since": {"S": utc_text(saved.since)},
        "options": {"S": to_json(dict(saved.options), "options")},
        "task_options": {"S": to_json(dict(saved.task_options), "options")},
    }
    for name in ("declared", "paused", "overlap", "is_left"):
        if getattr(saved, name):
            item[name] = {"BOOL": True}
    if saved.last_at is not None:
        item["last_at"] = {"S": utc_text(saved.last_at)}
    if saved.last_job:
        item["last_job"] = {"S": saved.last_job}
    return item


def _readable(item: Item) -> SavedSchedule | None:
    """One that cannot be read here, for want of its time zone, keeps nobody from the others."""
    try:
        return _schedule_of(item)
    except BadCron as error:
        _LOG.warning("The schedule %s cannot be read here: %s", item["name"]["S"], error)
        return None


def _schedule_of(item: Item) -> SavedSchedule:
    name = item["name"]["S"]
    times = Schedule.parse(
        name,
        item["cron"]["S"],
        item["timezone"]["S"],
        arguments=from_json(item["args"]["S"]),
        overlaps="overlap" in item,
    )
    return SavedSchedule(
        name,
        item["task"]["S"],
        times,
        utc_seconds(item["created_at"]["S"]),
        utc_seconds(item["since"]["S"]),
        "declared" in item,
        "paused" in item,
        utc_seconds(item["last_at"]["S"]) if "last_at" in item else None,
        item.get("last_job", {}).get("S", ""),
        from_json(item["options"]["S"]),
        from_json(item["task_options"]["S"]),
        int(item["version"]["N"]),
        "is_left" in item,
    )
