"""`penstock security events`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.cli.security.options import company_option, job_argument, opened, storage_options
from penstock.clock import utc_text


@click.command("events")
@job_argument
@company_option
@storage_options
@json_option
def command(job_id: str, company: str | None, as_json: bool, **place: str | None) -> None:
    """Show what happened to JOB in the last 7 days.

    \b
    Example:
      penstock security events job_mbzlks74_rfi5i0 --db jobs.db
    """
    with opened(place, company) as storage:
        events = storage.events(job_id)
    if as_json:
        print_json([event.item() for event in events])
        return
    for event in events:
        took = "" if event.duration_ms is None else f"{event.duration_ms} ms"
        line = f"{utc_text(event.at)}  {event.type:15}  {event.agent:14}  {took:>8}  {event.details.get('message', '')}"
        click.echo(one_line(line.rstrip()))
