"""`penstock jobs show`."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.jobs.options import job_argument, job_form, opened, place_options, print_json, why_unread
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import Entry, History, Job, Payload
from penstock.jobs.model.json_text import from_json, to_json
from penstock.jobs.store.store import JobStore

_VALUE = 300


@click.command("show")
@job_argument
@place_options
@click.option("--log", "lines", type=click.IntRange(0), default=20, show_default=True, help="The last so many entries.")
@json_option
def command(job_id: str, url: str | None, table: str, lines: int, as_json: bool) -> None:
    """Show a job with its history: arguments, progress, checkpoints, events, files.

    \b
    Examples:
      penstock jobs show job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs show job_mbzlks74_rfi5i0 --db reports.db --json
    """
    with opened(url, table) as store:
        history = store.history(job_id)
        if as_json:
            print_json(history_form(history, store))
            return
        job = history.job
        click.echo(one_line(f"{job.id}  {job.task}  {job.state.value}  {job.progress:.0f}%  {job.step}".rstrip()))
        click.echo(explain(job, gather(store, job)))
        click.echo(f"arguments    {_shown(store, job, job.args)}")
        if job.result is not None:
            click.echo(f"result       {_shown(store, job, job.result)}")
        if job.error is not None and job.error.trace:
            click.echo("error        " + job.error.trace.rstrip().replace("\n", "\n             "))
        for file in history.files:
            click.echo(f"file         {file.name}  {file.saved.size:,} bytes  sha256 {file.saved.sha256[:12]}…")
        for point in history.checkpoints:
            click.echo(
                f"checkpoint   {point.name}  version {point.version}  {utc_text(point.at)}  {point.summary}".rstrip()
            )
        for event in history.events:
            told = f"{event.type.replace('_', ' ')}  attempt {event.attempt}  {event.owner}  {event.detail}"
            click.echo(one_line(f"event        {utc_text(event.at)}  {told}".rstrip()))
        shown = history.entries[-lines:] if lines else ()
        for entry in shown:
            click.echo("log          " + entry_line(entry))


def history_form(history: History, store: JobStore) -> dict[str, Any]:
    """All of a job as JSON."""
    return {
        **job_form(history.job, store, payloads=True),
        "log": [entry_form(entry) for entry in history.entries],
        "checkpoints": [
            {"name": one.name, "version": one.version, "at": utc_text(one.at), "summary": one.summary}
            for one in history.checkpoints
        ],
        "events": [
            {
                "number": one.number,
                "type": one.type,
                "at": utc_text(one.at),
                "attempt": one.attempt,
                "owner": one.owner,
                "detail": one.detail,
            }
            for one in history.events
        ],
        "files": [{"name": one.name, **one.saved.form()} for one in history.files],
    }


def entry_form(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": utc_text(entry.at),
        "progress": entry.progress,
        "step": entry.step,
        "message": entry.message,
        "data": None if entry.data is None else from_json(entry.data),
        "attempt": entry.attempt,
    }


def entry_line(entry: Entry) -> str:
    percent = "    " if entry.progress is None else f"{entry.progress:3.0f}%"
    data = "" if entry.data is None else f"  {entry.data}"
    told = "  ".join(part for part in (entry.step, entry.message) if part)
    return one_line(f"{entry.number:>5}  {utc_text(entry.at)}  {percent}  {told}{data}".rstrip())


def _shown(store: JobStore, job: Job, payload: Payload) -> str:
    """A payload in short, or why it cannot be read."""
    try:
        text = to_json(store.load(job, payload), "payload").lstrip()
    except PenstockError as error:
        return f"({why_unread(store, job, payload, error)})"
    return text if len(text) <= _VALUE else text[: _VALUE - 1] + f"… ({len(text):,} characters)"
