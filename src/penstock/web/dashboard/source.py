"""The dashboard's data source: a database, the job store in it, and what reading has cost.

The table of jobs may not exist yet, and the database may stop answering: each request looks again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.wrappers.metering import Meter, Metering
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.model.job import Job
from penstock.jobs.scheduler.schedules import Schedules
from penstock.jobs.sources import AllJobs, StoreSource
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import Task
from penstock.registry import job_source_types
from penstock.tables.definitions.sources import Definitions

_TABLES_SECONDS: Final = 15.0


class NoJobs(PenstockError):
    """There is no table of jobs yet."""

    def __init__(self, table: str, place: str) -> None:
        super().__init__(f"{place} has no table {table} yet.")
        self.table = table
        self.place = place


class Source:
    """A database to show. Safe to share between threads."""

    def __init__(
        self,
        db: Database,
        *,
        table: str = DEFAULT_TABLE,
        files: Files | None = None,
        tasks: Mapping[str, Task[Any, Any]] | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        self.meter = Meter()
        self.db = Database(Metering(db.transport, self.meter, level="TOTAL"))
        self.place = db.name
        self.table = table
        self.files = files
        self.tasks: Mapping[str, Task[Any, Any]] = tasks or {}
        """Those of the app whose worker runs in this process."""
        self.schedules = Schedules(self.store, self.tasks)
        self.definitions = definitions
        """Table definitions of the command line, beside the systems that ship with Penstock."""
        self._opening = threading.Lock()
        self._store: JobStore | None = None
        self._jobs: tuple[float, AllJobs] | None = None

    def store(self) -> JobStore:
        """The job store. Raises NoJobs, or the database's error."""
        with self._opening:
            if self._store is None:
                try:
                    self._store = JobStore.of_table(self.db, self.table, files=self.files)
                except ResourceNotFoundException:
                    raise NoJobs(self.table, self.place) from None
            return self._store

    def jobs(self) -> AllJobs:
        """The jobs of every table that has any, those of systems too; only of the table that was named, if one was.

        Raises NoJobs where there are none. Which tables have jobs is looked up every few seconds.
        """
        if self.table != DEFAULT_TABLE:
            return AllJobs([StoreSource(self.store())])
        with self._opening:
            if self._jobs is None or time.monotonic() - self._jobs[0] > _TABLES_SECONDS:
                self._jobs = time.monotonic(), AllJobs.in_database(self.db, job_source_types(), files=self.files)
            jobs = self._jobs[1]
            if not jobs.sources:
                self._jobs = None
                raise NoJobs(self.table, self.place)
        return jobs

    def changeable(self) -> list[StoreSource]:
        """The job stores whose jobs are changed here: those of apps. Systems' jobs have commands of their own."""
        named = [StoreSource(self.store())] if self.table != DEFAULT_TABLE or self._has_store() else []
        others = [one for one in self.jobs().sources if isinstance(one, StoreSource) and type(one) is StoreSource]
        return [*named, *(one for one in others if one.system == "jobs" and one.table != self.table)]

    def _has_store(self) -> bool:
        try:
            self.store()
        except NoJobs:
            return False
        return True

    def store_of(self, job_id: str) -> JobStore | None:
        """The job store that has the job; None if none has, or none whose jobs are changed here."""
        return next((one.store for one in self.changeable() if one.store.get_existing([job_id])), None)

    def stores_of(self, job_ids: Sequence[str]) -> dict[str, JobStore]:
        """The job store of each; the usual one for a job that there is not."""
        changeable = self.changeable()
        usual = changeable[0].store if changeable else self.store()
        stores: dict[str, JobStore] = dict.fromkeys(job_ids, usual)
        for source in reversed(changeable):
            stores |= {job.id: source.store for job in source.store.get_existing(list(job_ids))}
        return stores

    def existing(self, job_ids: Sequence[str]) -> list[Job]:
        """Those of the jobs that there are, and that are changed here, in the order of the ids."""
        found = {job.id: job for one in reversed(self.changeable()) for job in one.store.get_existing(list(job_ids))}
        return [found[job_id] for job_id in dict.fromkeys(job_ids) if job_id in found]

    def forget(self) -> None:
        """Looks for the table again next time: it was deleted."""
        with self._opening:
            self._store = None
            self._jobs = None
