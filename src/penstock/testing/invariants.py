"""What must hold of every job, whatever happened to its workers: checked from its records alone."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.jobs.model.job import History
from penstock.jobs.model.state import TERMINAL, TRANSITIONS, State
from penstock.jobs.store.store import JobStore


def broken_rules(history: History) -> list[str]:
    """The rules that a job's records break, as sentences; none for a sound job."""
    job = history.job
    found = [*_broken_events(history), *_broken_entries(history)]
    if job.state in TERMINAL and job.lease is not None:
        found.append(f"{job.id} has ended, and {job.lease.owner} still holds it")
    if job.state is State.PROCESSING and job.lease is None:
        found.append(f"{job.id} is running, and nobody holds it")
    losses = sum(event.type in ("taken_over", "parked") for event in history.events)
    if job.crashes > losses:
        found.append(f"{job.id} is charged for {job.crashes} crashes, and has lost {losses} workers")
    found += [
        f"{job.id}: checkpoint {one.name} has version {one.version}" for one in history.checkpoints if one.version < 1
    ]
    return found


def _broken_events(history: History) -> list[str]:
    """Events follow each other by the one table of transitions, and lead to the state that the job is in."""
    job, found = history.job, []
    state: State | None = None
    for event in history.events:
        transition = next((one for one in TRANSITIONS if one.event == event.type), None)
        if transition is None:
            continue  # a wish, such as cancel_asked
        if (state is None) != (not transition.sources) or (state is not None and state not in transition.sources):
            found.append(f"{job.id}: {event.type} happened while it was {state}")
        state = transition.target
    if state is not job.state:
        found.append(f"{job.id} is {job.state}, and its events say {state}")
    ends = [event.type for event in history.events if event.type == "completed"]
    if len(ends) > 1:
        found.append(f"{job.id} has completed {len(ends)} times")
    numbers = [event.number for event in history.events]
    if numbers != sorted(set(numbers)):
        found.append(f"{job.id}: events are numbered {numbers}")
    return found


def _broken_entries(history: History) -> list[str]:
    numbers = [entry.number for entry in history.entries]
    if numbers != list(range(1, history.job.entries + 1)):
        return [f"{history.job.id}: {history.job.entries} entries were written, and these are there: {numbers}"]
    return []


def check(store: JobStore, job_ids: Iterable[str], *, ended: bool = True) -> None:
    """Raises AssertionError with every rule that is broken; `ended` also wants all of the jobs to have ended."""
    found: list[str] = []
    for job_id in job_ids:
        history = store.history(job_id)
        found += broken_rules(history)
        job = history.job
        if ended and not job.is_terminal:
            found.append(f"{job_id} has not ended: it is {job.state}")
        if (
            job.is_terminal
            and job.concurrency_key is not None
            and job_id in store.side_items.slot_holders(job.concurrency_key)
        ):
            found.append(f"{job_id} has ended, and still holds a slot of {job.concurrency_key}")
    if found:
        raise AssertionError("\n".join(found))
