"""Drawings as jobs, for `penstock jobs list` and the dashboard."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from penstock.client.database import Database
from penstock.files import Files
from penstock.jobs.model.job import Entry, History, Job
from penstock.jobs.model.state import State
from penstock.jobs.sources import (
    JobQuery,
    JobSource,
    ReadOnlySource,
    TableDescription,
    error_of,
    place_of,
)
from penstock.systems.schema_variants import SchemaVariant
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs.job import STATUSES, DrawingJob, Event
from penstock.systems.security_assistant.jobs.stages import stages_of
from penstock.systems.security_assistant.jobs.store import ByStatus
from penstock.systems.security_assistant.jobs.table_store import TableJobStore


@dataclass(frozen=True, slots=True)
class DrawingSource(ReadOnlySource):
    """The drawings of a table, in either layout, by its index of statuses."""

    drawings: TableJobStore
    table: str
    system: str = "security-assistant"
    commands: str = "penstock security"

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        wanted = [State(status) for status in STATUSES] if query.state is None else [query.state]
        streams = [self._of_status(state, query) for state in wanted if state.value in STATUSES]
        found = heapq.merge(*streams, key=place_of, reverse=True)
        return list(islice((job for job in found if query.matches(job)), query.limit))

    def _of_status(self, state: State, query: JobQuery) -> Iterator[Job]:
        # Keys are company#client#id: `~` sorts after each of them, so that no job of the same moment is left out.
        before = None if query.before is None else (query.before.partition("#")[0], "~")
        for drawing in self.drawings.find(ByStatus(state, query.tenant), before, newest_first=True):
            if query.since is not None and drawing.created_at < query.since:
                return
            yield drawing_job(drawing)

    def history(self, job_id: str) -> History | None:
        for key in self.drawings.keys_of(job_id):
            found = self.drawings.get(key)
            if found is not None:
                entries = tuple(_entry(number, one) for number, one in enumerate(self.drawings.events(job_id), start=1))
                return History(drawing_job(found, len(entries)), entries)
        return None


def _entry(number: int, event: Event) -> Entry:
    message = f"{event.type}: {event.details.get('message', '')}"
    return Entry(number, event.at, step=event.agent, message=message)


def drawing_job(drawing: DrawingJob, entries: int = 0) -> Job:
    stages = stages_of(drawing)
    done = [stage for stage in stages if stage.checkpoint in drawing.checkpoints]
    error = drawing.error
    return replace(
        drawing.lifecycle,
        version=max(1, drawing.version),
        progress=100.0 * len(done) / len(stages),
        step=done[-1].name if done else "",
        entries=entries or len(done),
        error=None if error is None else error_of(error.get("kind"), error.get("message")),
    )


def drawing_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    key = table.indexes.get("StatusDateIndex")
    if table.keys != (tables.JOB_KEY,) or key is None:
        return None
    layout: SchemaVariant = "safe" if key[0] == tables.STATUS_SHARD else "compat"
    return DrawingSource(TableJobStore(db, layout, jobs=table.name), table.name)
