"""Jobs copied: from another database into a local file (`pull`), and into a new job (`fork`).

1. A pull only reads its source: any other operation is refused here, before it is sent. It takes no lease.
2. Everything is read before anything is written, and a copy's main record is written last: a pull that was killed has
   left no job behind, and the next one removes what it has left.
3. All records of a job are copied, also those of kinds that this version does not know. Payloads are not decoded,
   except for arguments and results of which something is to be left out.
4. A copy says where it is from (`Job.pulled_from`). By that, no worker starts it (item_collection.claim_place).
5. A fork's checkpoints and files are written before the job itself: no worker sees it without them. Those of a fork
   that was not finished expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.client.transports.base import Answer, Request
from penstock.client.wrappers.metering import Metering
from penstock.clock import utc_seconds
from penstock.errors import PenstockError
from penstock.files import FileMissing, Files, SavedFile
from penstock.jobs.copies.table_items import ItemKey, ReadItems, read_items, write_items
from penstock.jobs.layouts.layout import Item, Layout
from penstock.jobs.model.job import (
    BadJob,
    Checkpoint,
    History,
    Job,
    JobFile,
    JobNotFound,
    NewJob,
    Payload,
    another_like,
    checked_task_name,
    first_version,
    is_id,
    new_id,
)
from penstock.jobs.model.json_text import from_json, to_json
from penstock.jobs.model.secret_fields import MASK, RESULT, mask_arguments
from penstock.jobs.store.store import JobStore
from penstock.stored_text import cut
from penstock.tables.data.transfers import ItemTable

_READS: Final = frozenset({"GetItem", "BatchGetItem", "Query", "DescribeTable", "ListTables"})
_READ_TRIES: Final = 5
"""A job of several pages that is written meanwhile is read again so often: then it is written all the time."""
_PULLED_AS: Final = "pulled_as"
_PARENT: Final = {"S": "parent"}
_NAME_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull has copied, and what it has read for that."""

    job: Job
    """The copy."""
    records: int
    parents: tuple[str, ...]
    """The jobs that it depends on whose results were copied."""
    files: int
    file_bytes: int
    items: int
    calls: int
    read_units: float
    replaced: bool
    notes: tuple[str, ...] = ()


class AlreadyPulled(PenstockError):
    """The file has a copy of this job already."""

    def __init__(self, copy: Job, place: str) -> None:
        super().__init__(
            f"{place} has a copy of {copy.id} already, from {copy.pulled_from}: it is {copy.state}, attempt "
            f"{copy.attempt}. `penstock jobs debug {copy.id}` runs it; --force replaces it by a new copy."
        )
        self.job_id = copy.id


def secret_fields(job: Job) -> tuple[str, ...]:
    """The arguments of the job that are declared to be secret, by name; those inside others with dots.

    Everything that shows or leaves out secrets asks here.
    """
    declared = (path for path in job.secret if path.partition(".")[0] != RESULT)
    return tuple(dict.fromkeys((*job.masked, *declared)))


class NothingSecret(BadJob):
    """What is declared secret was to be left out, and nothing is."""


def _has_secret_result(job: Job) -> bool:
    return job.result is not None and any(path.partition(".")[0] == RESULT for path in job.secret)


# ── pulling ──────────────────────────────────────────────────────────────────────────────────────


class ReadOnly(Metering):
    """A database that is only read (1), with the units counted in its `meter`."""

    def execute(self, operation: str, request: Request) -> Answer:
        if operation not in _READS:
            raise PenstockError(f"A pull only reads {self.name}: {operation} is not sent.")
        return super().execute(operation, request)


@dataclass(frozen=True, slots=True)
class _Collection:
    """All records of a job as they are stored."""

    job: Job
    others: list[Item]
    history: History
    is_moving: bool
    """It was written whenever it was read."""


def pull(
    source: JobStore,
    target: JobStore,
    job_id: str,
    *,
    items: Sequence[ItemKey] = (),
    mask: Sequence[str] | None = None,
    force: bool = False,
) -> Pulled:
    """Copies a job with all of its records, its files, the results of the jobs that it depends on, and items.

    `target` is a store with the layout of the source, on a file; its tables are made if they are absent. With `mask`,
    the arguments that it names are left out, and what is declared secret of results is masked. A source that is
    ReadOnly already counts what was read before, too. Raises JobNotFound, AlreadyPulled, NothingSecret, BadJob.
    """
    _check_apart(source.db, target.db)
    reading = source.db.transport
    if not isinstance(reading, ReadOnly):
        reading = ReadOnly(reading, level="TOTAL")
    origin = JobStore(Database(reading), source.layout, files=source.files, clock=source.clock)
    target.ensure_tables()
    before = _check_target(target, job_id, force)
    found = _read_whole(origin, job_id)
    parents = origin.get_existing(origin.depends_on(found.job))
    if mask is not None and not (mask or any(_has_secret_result(job) for job in (found.job, *parents))):
        raise NothingSecret("Nothing of the job is declared secret: name the arguments that are to be left out.")
    wanted = read_items(origin.db, items)
    copier = _Copier(origin, target, found, mask)
    copier.add_parents(parents)
    copier.write(wanted)
    used = reading.meter.units()
    return Pulled(
        job=copier.copy,
        records=1 + len(copier.records),
        parents=tuple(parent.id for parent in parents),
        files=copier.files,
        file_bytes=copier.file_bytes,
        items=sum(len(one.items) for one in wanted),
        calls=used.calls,
        read_units=used.read_units,
        replaced=before is not None,
        notes=tuple(copier.notes),
    )


def _check_apart(source: Database, target: Database) -> None:
    if not target.capabilities.has_engine:
        raise PenstockError(f"A job is pulled into a file, not to {target.name}.")
    if source.capabilities.has_engine and Path(source.name).resolve() == Path(target.name).resolve():
        raise PenstockError(f"{target.name} is where the job is: pull it into another file.")


def _check_target(target: JobStore, job_id: str, force: bool) -> Job | None:
    """The copy that is there already, and may be replaced."""
    there = next(iter(target.get_existing([job_id])), None)
    if there is None or there.others.get(_PULLED_AS) == _PARENT:
        return None
    if not there.pulled_from:
        raise PenstockError(
            f"{target.db.name} has a job {job_id} of its own, which is no copy: pull into another file."
        )
    if not force:
        raise AlreadyPulled(there, target.db.name)
    return there


def _read_whole(store: JobStore, job_id: str) -> _Collection:
    """The job with all of its records, as of one version of its main record where its holder allows it."""
    if not is_id(job_id):
        raise JobNotFound(job_id)
    tries = 0
    while True:
        items = list(_records(store, job_id))
        history = store.layout.history(items)
        if history is None or history.job.expires_at <= store.clock.now():
            raise JobNotFound(job_id)
        tries += 1
        is_moving = store.get(job_id).version != history.job.version
        if not is_moving or tries == _READ_TRIES:
            break
    main = store.layout.main_key(job_id)
    others = [one for one in items if any(one[name] != main[name] for name in main)]
    return _Collection(history.job, others, history, is_moving)


def _records(store: JobStore, job_id: str) -> Iterator[Item]:
    for call in store.layout.reads(job_id):
        for page in read_pages(store.db.execute, call.operation, call.request):
            yield from page["Items"]


class _Copier:
    """What is written for one pull."""

    def __init__(self, source: JobStore, target: JobStore, found: _Collection, mask: Sequence[str] | None) -> None:
        self._source = source
        self._target = target
        self._found = found
        now = target.clock.now()
        self._expires_at = int(max(found.job.expires_at, now + target.keep_seconds))
        self.notes: list[str] = []
        self.files = self.file_bytes = 0
        self.records = found.others
        self._parents: list[Item] = []
        self._payload_files = [point.data.file for point in found.history.checkpoints if point.data.file is not None]
        self.copy = self._as_copy(found.job, found.job.others)
        self._masks = mask is not None
        if mask:
            self._mask_arguments(mask)
        elif found.job.args.file is not None:
            self._payload_files.append(found.job.args.file)
        result, self.records = self._result(found.job, self.copy, self.records)
        self.copy = replace(self.copy, result=result)
        if found.is_moving:
            self.notes.append("It was written while it was read: its records may be of different moments.")

    def _as_copy(self, job: Job, others: Any) -> Job:
        place = cut(self._source.db.name, _NAME_CHARACTERS)
        return replace(job, pulled_from=place, expires_at=self._expires_at, others=others)

    def _mask_arguments(self, names: Sequence[str]) -> None:
        """Leaves arguments out (3)."""
        job = self._found.job
        args = self._source.load(job, job.args)
        left_out = [name for name in names if _remove(args, name.split("."))]
        for name in names:  # what is declared to be secret may be optional
            if name not in left_out and name not in job.secret:
                raise BadJob(f"The job has no argument {name} to leave out; it has {', '.join(args) or 'none'}.")
        payload, self.records = self._placed(self.copy, "args", job.args, args, self.records)
        self.copy = replace(self.copy, args=payload, masked=tuple(left_out))

    def _result(self, job: Job, copy: Job, records: list[Item]) -> tuple[Payload | None, list[Item]]:
        """The result of `job` for its copy, without what is secret of it if that is masked; and the records with it."""
        if job.result is not None and self._masks and _has_secret_result(job):
            shown = self._source.load_to_show(job, job.result)
            return self._placed(copy, "result", job.result, shown, records)
        if job.result is not None and job.result.file is not None:
            self._payload_files.append(job.result.file)
        return job.result, records

    def _placed(
        self, copy: Job, name: str, old: Payload, value: object, records: list[Item]
    ) -> tuple[Payload, list[Item]]:
        """The payload with this value, and the records with its record in place of the old one's."""
        payload, new = self._target.payloads.place(copy, name, to_json(value, name))
        if old.record is not None:
            key = self._target.layout.record_get(copy.id, old.record).request["Key"]
            records = [one for one in records if any(one[part] != key[part] for part in key)]
        return payload, [*records, *(record.item for record in new)]

    def add_parents(self, parents: Sequence[Job]) -> None:
        """Their main records without arguments, and their results: what `ctx.results` reads."""
        there = {job.id: job for job in self._target.get_existing([parent.id for parent in parents])}
        for parent in parents:
            known = there.get(parent.id)
            if known is not None and known.others.get(_PULLED_AS) != _PARENT:
                continue  # it is a job of the file itself, or was pulled itself
            records: list[Item] = []
            if parent.result is not None and parent.result.record is not None:
                call = self._source.layout.record_get(parent.id, parent.result.record)
                records.append(self._source.db.execute(call.operation, call.request)["Item"])
            copy = self._as_copy(parent, {**parent.others, _PULLED_AS: _PARENT})
            result, records = self._result(parent, copy, records)
            self._parents += [*records, self._target.layout.main(replace(copy, args=Payload("{}"), result=result))]

    def write(self, items: Sequence[ReadItems]) -> None:
        """Items, files, parents and records; the main record last (2)."""
        target, layout = self._target, self._target.layout
        for one in items:
            write_items(target.db, one)
        for saved in self._payload_files:
            self._copy_file(saved)
        for file in self._found.history.files:
            try:
                self._copy_file(file.saved)
            except FileMissing as error:
                self.notes.append(f"The file {file.name} was not copied: {error}")
        table = ItemTable.of(target.db, layout.table)
        main = layout.main_key(self.copy.id)
        table.write((), [main])
        table.write((), [{name: one[name] for name in main} for one in _records(target, self.copy.id)])
        table.write(self._kept([*self._parents, *self.records]))
        table.write([layout.main(self.copy)])

    def _kept(self, records: Iterable[Item]) -> list[Item]:
        """They expire with the copy."""
        return [{**one, self._target.layout.ttl_name: {"N": str(self._expires_at)}} for one in records]

    def _copy_file(self, saved: SavedFile) -> None:
        if self._source.files is None:
            raise PenstockError(
                f"{self.copy.id} has files, such as {saved.key}, and it is not known where they are: give --files, or "
                "set PENSTOCK_FILES, to the place that its app uses."
            )
        assert self._target.files is not None
        copy_file(self._source.files, saved, self._target.files, saved.key)
        self.files += 1
        self.file_bytes += saved.size


def copy_file(source: Files, saved: SavedFile, target: Files, key: str) -> SavedFile:
    """The copy, whose bytes are those that were saved. Raises FileMissing, FileChanged."""
    with source.open(saved.key, expect=saved) as stream:
        return target.save(key, stream, content_type=saved.content_type)


# ── arguments by name ────────────────────────────────────────────────────────────────────────────


def _remove(value: Any, steps: list[str]) -> bool:
    """Removes it, also from each element of lists on the way (secret_fields.py); whether there was any."""
    if isinstance(value, list):
        return sum(_remove(one, steps) for one in value) > 0  # any() would leave those after the first
    if not isinstance(value, dict) or steps[0] not in value:
        return False
    if len(steps) > 1:
        return _remove(value[steps[0]], steps[1:])
    del value[steps[0]]
    return True


def fill(args: dict[str, Any], path: str, value: object) -> None:
    """Sets an argument, or a field of one: `card.number`. In each element, where lists are on the way."""
    *outer, last = path.split(".")
    places: list[Any] = [args]
    for name in outer:
        places = [found for place in places for found in _elements(place.setdefault(name, {}))]
        if not all(isinstance(place, dict) for place in places):
            raise BadJob(f"The argument {path} is inside {name}, which has no fields.")
    for place in places:
        place[last] = value


def _elements(value: Any) -> list[Any]:
    """Those of a list that have fields, also of lists in it; else the value itself."""
    if not isinstance(value, list):
        return [value]
    return [found for one in value if isinstance(one, dict | list) for found in _elements(one)]


def masked_text(args: object, names: Iterable[str], left_out: Iterable[str] = ()) -> str:
    """Arguments as JSON for a screen, with *** for those that are secret, and for those that were left out."""
    shown = mask_arguments(from_json(to_json(args, "args")), names)
    for name in left_out:
        if isinstance(shown, dict):
            fill(shown, name, MASK)
    return to_json(shown, "args").lstrip()


# ── forking ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork as it is planned, or was made: `job` is None before."""

    origin: Job
    checkpoints: tuple[Checkpoint, ...]
    files: tuple[JobFile, ...]
    left_out: tuple[str, ...]
    """The checkpoints from the step on."""
    missing_parents: tuple[str, ...] = ()
    job: Job | None = None


def plan_fork(store: JobStore, job_id: str, from_step: str | None = None) -> Fork:
    """What a fork would begin with: all that was kept before the step, or everything. Nothing is written."""
    history = store.history(job_id)
    job = history.job
    if job.others.get(_PULLED_AS) == _PARENT:
        raise BadJob(f"Only the result of {job.id} was pulled: pull it itself to fork it.")
    kept, left_out = split_at(history, from_step)
    files = history.files
    if left_out:
        first = left_out[0].at
        files = tuple(file for file in files if utc_seconds(file.saved.saved_at) < first)
    ids = store.depends_on(job)
    there = {parent.id for parent in store.get_existing(ids)}
    missing = tuple(one for one in ids if one not in there)
    return Fork(job, kept, files, tuple(point.name for point in left_out), missing)


def fork(store: JobStore, job_id: str, *, from_step: str | None = None, args: dict[str, Any] | None = None) -> Fork:
    """Makes a new job from an old one's checkpoints: those that were kept before the step, or all.

    It has the same arguments but for those in `args`, depends on the same jobs as far as they still are there, and is
    queued for any worker. Raises JobNotFound; BadJob if another job holds its unique key, or arguments were masked.
    """
    plan = plan_fork(store, job_id, from_step)
    origin = plan.origin
    checked_task_name(origin.task)
    stored = store.payloads.text(origin, origin.args) or "{}"
    if args is not None:
        merged = {**from_json(stored), **args}
        stored = to_json(merged, "args")
    missing = [name for name in origin.masked if args is None or name.partition(".")[0] not in args]
    if missing:
        raise BadJob(f"The arguments {', '.join(missing)} of {job_id} were left out when it was pulled: give them.")
    new = _new_job(store, plan)
    first = first_version(new, store.clock.now(), store.keep_seconds)
    records = [store.layout.checkpoint(first, _forked(store, origin, first, point)).item for point in plan.checkpoints]
    for file in plan.files:
        saved = copy_file(_files_of(store), file.saved, _files_of(store), f"{first.id}/{file.name}")
        records.append(store.layout.file(first, JobFile(file.name, saved)).item)
    table = store.layout.table
    for item in records:  # by PutItem: who may manage jobs (iam_policy.py) need not be allowed batches
        store.db.execute("PutItem", {"TableName": table, "Item": item})
    made, is_new = store.create(new, stored)
    if not is_new:
        for item in records:
            key = {name: item[name] for name in store.layout.main_key(first.id)}
            store.db.execute("DeleteItem", {"TableName": table, "Key": key})
        raise BadJob(f"{made.id} holds the unique key {origin.unique_key!r} of {job_id}, and has not ended.")
    return replace(plan, job=made)


def _new_job(store: JobStore, plan: Fork) -> NewJob:
    origin = plan.origin
    return replace(
        another_like(origin, {}),
        unique_key=origin.unique_key,
        depends_on=tuple(one for one in store.depends_on(origin) if one not in plan.missing_parents),
        depends_on_policy=origin.depends_on_policy,
        id=new_id(store.clock.now()),
        forked_from=origin.id,
    )


def _forked(store: JobStore, origin: Job, job: Job, point: Checkpoint) -> Checkpoint:
    """The checkpoint for the new job: what is encrypted is so for one job, and a job's files expire with it."""
    name = f"checkpoint#{point.name}"
    text = store.payloads.text(origin, point.data, name)
    return point if text is None else replace(point, data=store.payloads.spill(job, name, text))


def _files_of(store: JobStore) -> Files:
    if store.files is None:
        raise PenstockError("The job has files: set PENSTOCK_FILES to the place that its app uses.")
    return store.files


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


def split_at(history: History, step: str | None) -> tuple[tuple[Checkpoint, ...], tuple[Checkpoint, ...]]:
    """The checkpoints that were kept before a step's, and from it on, each in the order in which they were kept.

    Their order is that of the log, where each has an entry; a clock may have gone back. One that was kept again later
    counts as kept then: it may hold what the later steps did.
    """
    numbers = {entry.message: entry.number for entry in history.entries}
    points = sorted(history.checkpoints, key=lambda one: (numbers.get(f"checkpoint {one.name}", 0), one.at))
    if step is None:
        return tuple(points), ()
    names = [point.name for point in points]
    if step not in names:
        raise BadJob(f"{history.job.id} has kept no checkpoint {step}; it has {', '.join(names) or 'none'}.")
    place = names.index(step)
    return tuple(points[:place]), tuple(points[place:])


def forget_steps(store: JobStore, job_id: str, step: str) -> tuple[str, ...]:
    """Removes a step's checkpoint and those that were kept after it from a copy; their names."""
    _, forgotten = split_at(store.history(job_id), step)
    keys = [_record_key(store.layout, job_id, f"checkpoint#{point.name}") for point in forgotten]
    ItemTable.of(store.db, store.layout.table).write((), keys)
    return tuple(point.name for point in forgotten)


def check_copy(job: Job, place: str) -> None:
    """Refuses a job that is not a whole copy: somebody may rely on it, or its checkpoints are not there."""
    if not job.pulled_from:
        raise PenstockError(
            f"{job.id} in {place} is no copy: workers may run it, and others wait for it. Copy it first: "
            f"`penstock jobs pull {job.id} --db {place} --to debug.db`."
        )
    if job.others.get(_PULLED_AS) == _PARENT:
        raise PenstockError(f"Only the result of {job.id} was pulled, for a job that depends on it: pull it itself.")


def _record_key(layout: Layout, job_id: str, record: str) -> Item:
    key: Item = layout.record_get(job_id, record).request["Key"]
    return key


__all__ = [
    "AlreadyPulled",
    "Fork",
    "ItemKey",
    "NothingSecret",
    "Pulled",
    "ReadOnly",
    "check_copy",
    "copy_file",
    "fill",
    "forget_steps",
    "fork",
    "masked_text",
    "plan_fork",
    "pull",
    "secret_fields",
    "split_at",
]
