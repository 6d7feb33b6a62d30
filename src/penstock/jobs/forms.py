"""A job and its records as JSON: what `--json` prints and the HTTP API answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.job import Entry, Event, History, Job, JobNotFound, Payload
from penstock.jobs.model.json_text import from_json
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore


def job_form(job: Job, store: JobStore | None = None, *, payloads: bool = False) -> dict[str, Any]:
    """A job as JSON."""
    form: dict[str, Any] = {
        "id": job.id,
        "task": job.task,
        "state": job.state.value,
        "queue": job.queue,
        "tenant": job.tenant,
        "schedule": job.schedule or None,
        "priority": job.priority,
        "progress": job.progress,
        "step": job.step,
        "attempt": job.attempt,
        "failures": job.failures,
        "crashes": job.crashes,
        "suspect": job.suspect,
        "created_at": utc_text(job.created_at),
        "updated_at": utc_text(job.updated_at),
        "run_at": utc_text(job.run_at),
        "started_at": None if job.started_at is None else utc_text(job.started_at),
        "ended_at": None if job.ended_at is None else utc_text(job.ended_at),
        "expires_at": utc_text(job.expires_at),
        "lease": None if job.lease is None else {"owner": job.lease.owner, "until": utc_text(job.lease.until)},
        "error": None if job.error is None else {"kind": job.error.kind, "message": job.error.message},
        "cancel_reason": job.cancel_reason,
        "tags": list(job.tags),
        "waiting_for": sorted(job.waiting_for) if store is None else store.waiting_for(job),
        "wait": None if job.wait is None or job.state is not State.QUEUED else job.wait.text,
        "parent_id": job.parent_id,
        "forked_from": job.forked_from or None,
        "pulled_from": job.pulled_from or None,
        "child_count": job.child_count,
    }
    if payloads:
        form["args"], form["result"], form["unread"] = None, None, []
    if payloads and store is not None:
        for name, payload in (("args", job.args), ("result", job.result)):
            try:
                form[name] = store.load_to_show(job, payload)
            except PenstockError as error:
                form["unread"].append(why_unread(store, job, payload, error))
    return form


def why_unread(store: JobStore, job: Job, payload: Payload | None, error: PenstockError) -> str:
    """Why a payload cannot be shown; what is known of its job still can."""
    if isinstance(error, JobNotFound):
        raise error
    if payload is not None and payload.file is not None and store.files is None:
        return (
            f"{job.id}: it is in a file of {payload.file.size:,} bytes. PENSTOCK_FILES says where the app's files are."
        )
    return str(error)


def history_form(history: History, store: JobStore | None) -> dict[str, Any]:
    """All of a job as JSON."""
    return {
        **job_form(history.job, store, payloads=True),
        "log": [entry_form(entry) for entry in history.entries],
        "checkpoints": [
            {"name": one.name, "version": one.version, "at": utc_text(one.at), "summary": one.summary}
            for one in history.checkpoints
        ],
        "events": [event_form(one) for one in history.events],
        "files": [{"name": one.name, **one.saved.form()} for one in history.files],
    }


def entry_form(entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {"at": utc_text(entry.at), "data": None if entry.data is None else from_json(entry.data)}


def event_form(event: Event) -> dict[str, Any]:
    return event._asdict() | {"at": utc_text(event.at)}
