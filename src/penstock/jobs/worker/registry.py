"""Which workers there are: a small item beside the jobs.

A worker writes down what it can do and that it lives, every ten seconds. One that has not for a minute is taken for
gone; its line is removed by whoever lists the workers ten minutes later.

Workers of one machine see each other's end (Peers), and need not wait for leases:

1. A worker claims nothing before its line, which names its process, is written; and no two have one name at once: where
   the process that has the name has not provably ended, another one adds to it.
2. A lease is abandoned if its owner's line, read after the job was, names a process that has provably ended. By (1),
   whoever was granted that lease is that process, even where a new worker has the same name.
3. A request of a process that has ended may still be on its way to the database: its jobs are looked for again.
4. Lines come with the worker's own heartbeat and cost nothing. Only on a file, where reads are free, they are also
   read in between.
5. A worker that stops while the database is away cannot write that down. It leaves a note on its machine
   (processes.py, 4): whoever can prove that its process has ended finds it, and charges none of its jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import utc_seconds, utc_text
from penstock.errors import ConditionalCheckFailedException, PenstockError, ValidationException
from penstock.jobs.layouts.item_collection import number_text
from penstock.jobs.layouts.layout import Layout
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.conditions import GONE_SECONDS
from penstock.jobs.store.side_items import SideItems
from penstock.jobs.store.store import JobStore
from penstock.leases import RENEWALS, AbandonedLease, Lease, allowance_seconds
from penstock.processes import SleepWatch, has_ended, has_noted_stop, is_of_this_machine

BEAT_SECONDS: Final = 10.0
_SILENT_BEATS: Final = 2.5
_REMOVED_SECONDS: Final = 600.0
"""Until then, a worker that is started again on the machine can still prove by it whose jobs are abandoned."""
PEERS_SECONDS: Final = 0.25
"""How often a worker looks whether the processes of its peers have ended."""
_LINES_SECONDS: Final = 1.0
_LINE_SECONDS: Final = 0.1
"""For each line more: with many workers, the heartbeat's answer is enough."""
_SEARCH_SECONDS: Final = 0.5
_LONGEST_SEARCH_SECONDS: Final = 2.0
_LAST_REQUEST_SECONDS: Final = 2.0
_OUTAGE_SECONDS: Final = 5.0
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    name: str
    started_at: float
    seen_at: float
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    running: int
    done: int
    read_units: float
    """What looking for jobs has cost it."""
    process: str = ""
    """The name of its process (processes.py); empty where nobody could prove anything by it."""
    stopping: bool = False
    """It was told to stop: that it ends is no crash."""
    killed: str = ""
    """How its supervisor saw it killed, if that is no crash."""

    def is_silent(self, now: float) -> bool:
        """Whether it has missed two heartbeats: it is frozen, or cannot reach the database."""
        return now - self.seen_at > _SILENT_BEATS * BEAT_SECONDS

    def is_alive(self, now: float) -> bool:
        return now - self.seen_at < GONE_SECONDS and not has_ended(self.process)


class NameTaken(PenstockError):
    """Another worker, whose process has not provably ended, has the name."""


class WorkerRegistry:
    """The item, which is a map with one entry for each worker; and that of 0.1 for schedules."""

    def __init__(self, db: Database, layout: Layout) -> None:
        self._items = SideItems(db, layout.table, layout.main_key)

    def beat(self, worker: WorkerInfo, *, replaces: str | None = None) -> list[WorkerInfo]:
        """Writes a worker's line; the lines of all, as they are then.

        With `replaces`, a process that has ended, no line of another process is overwritten. Raises NameTaken.
        """
        value: dict[str, Any] = {
            "started_at": {"S": utc_text(worker.started_at)},
            "seen_at": {"S": utc_text(worker.seen_at)},
            "queues": {"L": [{"S": one} for one in worker.queues]},
            "tasks": {"L": [{"S": one} for one in worker.tasks]},
            "concurrency": {"N": str(worker.concurrency)},
            "running": {"N": str(worker.running)},
            "done": {"N": str(worker.done)},
            "read_units": {"N": number_text(worker.read_units)},
        }
        if worker.process:
            value["process"] = {"S": worker.process}
        if worker.stopping:
            value["stopping"] = {"BOOL": True}
        if replaces is None or not worker.process:
            return _workers_of(self._set("workers", worker.name, {"M": value}))
        names = {"#process": "process"}
        values = {":mine": {"S": worker.process}, ":ended": {"S": replaces or worker.process}}
        condition = "attribute_not_exists(#entries.#name.#process) OR #entries.#name.#process IN (:mine, :ended)"
        try:
            return _workers_of(self._set("workers", worker.name, {"M": value}, names, values, condition))
        except ConditionalCheckFailedException:
            raise NameTaken(f"Another worker is named {worker.name}.") from None

    def leave(self, worker: str, process: str | None = None) -> None:
        """Removes a worker's line; with `process`, only if it is that one's."""
        names = {"#entries": "entries", "#name": worker}
        if process is None:
            self._remove("workers", worker)
            return
        with suppress(ConditionalCheckFailedException, ValidationException):
            self._items.update(
                "workers",
                "REMOVE #entries.#name",
                {**names, "#process": "process"},
                {":process": {"S": process}},
                condition="#entries.#name.#process = :process",
            )

    def report_killed(self, pid: int, how: str) -> None:
        """Says of a worker's process of this machine how it was killed: that is no crash of its jobs."""
        for line in self.lines():
            if is_of_this_machine(line.process) and line.process.split(":")[1] == str(pid):
                names = {"#entries": "entries", "#name": line.name, "#killed": "killed"}
                values = {":how": {"S": how}, ":process": {"S": line.process}}
                with suppress(ConditionalCheckFailedException, ValidationException):  # it has left
                    self._items.update(
                        "workers",
                        "SET #entries.#name.#killed = :how",
                        {**names, "#process": "process"},
                        values,
                        condition="#entries.#name.#process = :process",
                    )

    def lines(self) -> list[WorkerInfo]:
        """What all workers have written down, those that are gone too."""
        return _workers_of(self._items.read("workers"))

    def workers(self, now: float, *, tidy: bool = True) -> list[WorkerInfo]:
        """Those that live, the oldest first. Without `tidy` nothing is written: the lines of the dead stay."""
        found = self.lines()
        for worker in found:
            if tidy and now - worker.seen_at > _REMOVED_SECONDS:
                self._remove("workers", worker.name)
        return sorted((one for one in found if one.is_alive(now)), key=lambda one: (one.started_at, one.name))

    def live_tasks(self, now: float) -> frozenset[str]:
        """The tasks that a live worker has."""
        return frozenset(task for worker in self.workers(now, tidy=False) for task in worker.tasks)

    def firings(self) -> dict[str, float]:
        """When schedules were last due, in a table of 0.1; they are items now (jobs/scheduler/schedules.py)."""
        return {name: utc_seconds(value["S"]) for name, value in self._entries("schedules").items()}

    def _entries(self, item: str) -> dict[str, Any]:
        found = self._items.read(item) or {}
        entries: dict[str, Any] = found.get("entries", {}).get("M", {})
        return entries

    def _set(
        self,
        item: str,
        name: str,
        value: dict[str, Any],
        names: Mapping[str, str] = MappingProxyType({}),
        values: Mapping[str, Any] = MappingProxyType({}),
        condition: str = "",
    ) -> dict[str, Any]:
        """The item as it is afterwards."""
        names = {"#entries": "entries", "#name": name, **names}
        values = {":value": value, **values}
        try:
            return self._items.update(item, "SET #entries.#name = :value", names, values, condition=condition)
        except ValidationException:  # the map is not there yet; another worker may make it at this moment
            self._items.update(
                item,
                "SET #entries = if_not_exists(#entries, :empty)",
                {"#entries": "entries"},
                {":empty": {"M": {}}},
            )
            return self._items.update(item, "SET #entries.#name = :value", names, values, condition=condition)

    def _remove(self, item: str, name: str) -> None:
        with suppress(ValidationException):  # there is no map, so there is nothing in it
            self._items.update(item, "REMOVE #entries.#name", {"#entries": "entries", "#name": name})


def _workers_of(item: dict[str, Any] | None) -> list[WorkerInfo]:
    entries = (item or {}).get("entries", {}).get("M", {})
    return [_worker_of(name, value["M"]) for name, value in entries.items()]


def _worker_of(name: str, value: dict[str, Any]) -> WorkerInfo:
    return WorkerInfo(
        name=name,
        started_at=utc_seconds(value["started_at"]["S"]),
        seen_at=utc_seconds(value["seen_at"]["S"]),
        queues=tuple(one["S"] for one in value["queues"]["L"]),
        tasks=tuple(one["S"] for one in value["tasks"]["L"]),
        concurrency=int(value["concurrency"]["N"]),
        running=int(value["running"]["N"]),
        done=int(value["done"]["N"]),
        read_units=float(value["read_units"]["N"]),
        process=value.get("process", {}).get("S", ""),
        stopping="stopping" in value,
        killed=value.get("killed", {}).get("S", ""),
    )


def abandoned(lease: Lease, line: WorkerInfo | None) -> AbandonedLease:
    """A lease that its owner, who has written this line, does not renew; with what that tells of the owner.

    A process that lives and is silent may be one that its job has frozen: it is not excused.
    """
    ended = line is not None and has_ended(line.process)
    excuse = ""
    if line is not None and line.killed:
        excuse = f"it was {line.killed}"
    elif line is not None and (line.stopping or (ended and has_noted_stop(line.process, line.name))):
        excuse = "it was told to stop"
    elif line is not None and not ended and line.seen_at > lease.until:
        excuse = "it lives, and could not renew its lease"
    return AbandonedLease(lease.owner, lease.token, lease.until, lease.seconds, ended, excuse)


class Peers:
    """The other workers of this machine, and the jobs of those whose processes have ended. Safe between threads.

    The heartbeat calls `look`, the fetcher the rest.
    """

    def __init__(self, store: JobStore, registry: WorkerRegistry, wants: Callable[[Job], bool]) -> None:
        """`wants` tells whether this worker runs such a job."""
        self._store = store
        self._registry = registry
        self._wants = wants
        self._lines: Sequence[WorkerInfo] = ()
        """What all workers have written down, when that was seen last."""
        self._processes: dict[str, str] = {}
        """Of this machine's workers, by their names."""
        self._seen_ended: dict[str, float] = {}
        """Processes that have ended, and when that was first seen."""
        self._ended: dict[str, float] = {}
        """Those that may have left jobs."""
        self._searched: set[str] = set()
        """Those that have left nothing more for this worker."""
        self._inherited: set[tuple[str, int]] = set()
        """Jobs, with their leases' tokens, of the process that had this worker's name before."""
        self.abandoned: dict[str, Job] = {}
        """Jobs for this worker whose own workers have ended, by their ids: each can be claimed at once."""
        self._search_at = 0.0
        self._lines_at = 0.0
        self._sleep = SleepWatch()
        self._outage_at = -_OUTAGE_SECONDS

    # ── who has ended ────────────────────────────────────────────────────────────────────────────

    def inherit(self, name: str) -> str:
        """The last process of this name, if it has ended; and its jobs, before its line is overwritten."""
        lines = self._registry.lines()
        self.update(lines)
        ended = next((line.process for line in lines if line.name == name and has_ended(line.process)), "")
        if ended:
            self._inherited = {(job.id, job.token) for job in self._running() if _owner(job) == name}
        return ended

    def update(self, lines: list[WorkerInfo]) -> None:
        """Takes what all workers have written down."""
        self._lines_at = time.monotonic() + _LINES_SECONDS + _LINE_SECONDS * len(lines)
        self._lines = lines
        self._processes = {line.name: line.process for line in lines if is_of_this_machine(line.process)}

    def place_of(self, name: str, queues: Collection[str]) -> tuple[int, int]:
        """Where this worker stands among those that serve any of these queues, by their names; how many these are."""
        now = self._store.clock.now()
        serving = [one for one in self._lines if not one.stopping and not set(queues).isdisjoint(one.queues)]
        names = sorted({name, *(one.name for one in serving if one.is_alive(now))})
        return names.index(name), len(names)

    def look(self) -> bool:
        """Looks at the processes of this machine's workers; whether there are jobs to look for now."""
        self._sleep.awake_seconds()
        if self._store.db.capabilities.local_order and time.monotonic() >= self._lines_at:  # (4)
            self.update(self._registry.lines())
        now = time.monotonic()
        ended = [process for process in self._processes.values() if has_ended(process)]
        self._seen_ended = {process: self._seen_ended.get(process, now) for process in ended}
        for process, since in self._seen_ended.items():
            # A supervisor that has killed it has some time to say so.
            if now - since >= PEERS_SECONDS and process not in self._searched:
                self._ended.setdefault(process, since)
        return bool(self._ended or self._inherited) and now >= self._search_at

    def sees_ended(self) -> bool:
        """Whether a worker of this machine has ended that is still listed: it may have left jobs."""
        self.look()
        return bool(self._seen_ended)

    # ── their jobs ───────────────────────────────────────────────────────────────────────────────

    def find_abandoned(self) -> list[Job]:
        """The jobs that are `abandoned`, looked for again if it is time."""
        if (self._ended or self._inherited) and time.monotonic() >= self._search_at:
            self.abandoned = {job.id: job for job in self._search()}
        return list(self.abandoned.values())

    def _search(self) -> list[Job]:
        now, ended = time.monotonic(), dict(self._ended)
        oldest = min(ended.values(), default=now)
        self._search_at = now + min(max(_SEARCH_SECONDS, (now - oldest) / 4), _LONGEST_SEARCH_SECONDS)
        owners = {name: process for name, process in self._processes.items() if process in ended}
        held = [job for job in self._running() if self._may_be_abandoned(job, owners)]
        found = [job for job in self.judge(held) if is_abandoned(job) and self._wants(job)]
        self._inherited &= {(job.id, job.token) for job in held}
        wanted, holders = ({_owner(job) for job in jobs} for jobs in (found, held))
        for process in ended.keys() - {owners[name] for name in wanted & owners.keys()}:
            if now - ended[process] >= _LAST_REQUEST_SECONDS:  # (3)
                self._searched.add(process)
                del self._ended[process]
        for name, process in owners.items():
            if process in self._searched and name not in holders:
                self._registry.leave(name, process)
        return found

    def judge(self, jobs: Sequence[Job]) -> list[Job]:
        """The same jobs; the leases of those that run, with what their owners' lines tell (2)."""
        if not any(job.state is State.PROCESSING for job in jobs):
            return list(jobs)
        lines = {line.name: line for line in self._registry.lines()}
        return [self._judge(job, lines) for job in jobs]

    def _judge(self, job: Job, lines: Mapping[str, WorkerInfo]) -> Job:
        if job.state is not State.PROCESSING or job.lease is None:
            return job
        lease = abandoned(job.lease, lines.get(job.lease.owner))
        if (job.id, job.token) in self._inherited:
            lease = replace(lease, has_ended=True, excuse="")
        return replace(job, lease=lease)

    def may_take(self, job: Job) -> bool:
        """Whether a job that runs may be taken over now.

        After an outage that this worker has seen too, or a sleep of the machine, the others have time to renew first.
        """
        lease = job.lease
        if lease is None or is_abandoned(job):
            return True
        renewed_in = lease.seconds / RENEWALS + allowance_seconds(lease.seconds)
        has_calmed = time.monotonic() - self._outage_at >= _OUTAGE_SECONDS
        return has_calmed and self._sleep.awake_seconds() >= renewed_in

    def note_outage(self) -> None:
        """The database could not be asked just now."""
        self._outage_at = time.monotonic()

    def _may_be_abandoned(self, job: Job, owners: Collection[str]) -> bool:
        return _owner(job) in owners or (job.id, job.token) in self._inherited

    def _running(self) -> Iterator[Job]:
        """All jobs that run: there are no more than places for them on all workers."""
        token: str | None = None
        while True:
            page = self._store.find(state=State.PROCESSING, limit=_PAGE, token=token)
            yield from page.jobs
            token = page.token
            if token is None:
                return


def is_abandoned(job: Job) -> bool:
    """Whether there is proof that its worker's process has ended."""
    return isinstance(job.lease, AbandonedLease) and job.lease.has_ended


def runs_alone(job: Job) -> bool:
    """Whether nothing else may run in the worker that claims it: a worker died while it ran, and it may be why."""
    if job.suspect:
        return True
    return job.state is State.PROCESSING and not (isinstance(job.lease, AbandonedLease) and job.lease.excuse)


def _owner(job: Job) -> str:
    return "" if job.lease is None else job.lease.owner
