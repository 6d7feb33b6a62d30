"""Jobs from one store to another: from tables to `jobs.json` and back, or between layouts (S2.13).

Whatever is read is made whole on the way: `date_bucket`, the parts of the key and the attributes of the target's
indexes are always written, also for items that another program made without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.jobs.model.transitions import altered
from penstock.optimistic import Conflict
from penstock.systems.security_assistant.jobs.job import DrawingJob
from penstock.systems.security_assistant.jobs.names import part_of
from penstock.systems.security_assistant.jobs.store import DrawingJobStore


@dataclass(frozen=True, slots=True)
class Moved:
    """What was copied; `kept` are keys that the target had already, in another version."""

    copied: int
    same: int
    replaced: int
    kept: tuple[str, ...]
    events: int

    def form(self) -> dict[str, Any]:
        return {
            "copied": self.copied,
            "same": self.same,
            "replaced": self.replaced,
            "kept": list(self.kept),
            "events": self.events,
        }


def copy_jobs(
    source: DrawingJobStore,
    target: DrawingJobStore,
    *,
    now: float,
    company: str | None = None,
    replace_existing: bool = False,
    dry_run: bool = False,
) -> Moved:
    """Copies jobs that have not expired, with their events. Files are not touched: their keys stay what they are.

    A job that the target has is kept as it is there, unless `replace_existing`. Doing it twice is doing it once.
    """
    owner = None if company is None else part_of(company, "company_id")
    copied = same = replaced = events = 0
    kept: list[str] = []
    for job in _wanted(source, owner, now):
        found = target.get(job.key)
        if found == job:
            same += 1
            continue
        if found is not None and not replace_existing:
            kept.append(job.key)
            continue
        if not dry_run:
            _write(target, job, found)
            events += _copy_events(source, target, job)
        copied, replaced = (copied + 1, replaced) if found is None else (copied, replaced + 1)
    return Moved(copied, same, replaced, tuple(kept), events)


def _wanted(source: DrawingJobStore, company: str | None, now: float) -> Iterator[DrawingJob]:
    for job in source.everything():
        if (company is None or job.company == company) and (job.expires_at is None or job.expires_at > now):
            yield job


def _write(target: DrawingJobStore, job: DrawingJob, found: DrawingJob | None) -> None:
    if found is None:
        target.insert(job)
        return
    try:
        # The version goes on from the target's: whoever holds an older one must notice.
        target.replace(replace(job, lifecycle=altered(job.lifecycle, {"version": found.version + 1})))
    except Conflict:
        raise Conflict(job.key, None) from None


def _copy_events(source: DrawingJobStore, target: DrawingJobStore, job: DrawingJob) -> int:
    there = {event.sort_key for event in target.events(job.id)}
    missing = [event for event in source.events(job.id) if event.sort_key not in there and event.company == job.company]
    for event in missing:
        target.add_event(event)
    return len(missing)
