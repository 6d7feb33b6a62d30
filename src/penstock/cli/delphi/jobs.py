"""`penstock delphi jobs`."""

from __future__ import annotations

import click

from penstock.cli.delphi.options import job_form, job_line, queue, url_option
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.systems.delphi.queue_layout import STATUSES


@click.command("jobs")
@url_option
@click.option("--status", type=click.Choice(list(STATUSES.values()), case_sensitive=False), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="So many at most.")
@json_option
def command(url: str, status: str | None, limit: int, as_json: bool) -> None:
    """List the queue's jobs, the newest first: when it was made, its id, status, priority, type and conversation.

    \b
    Example:
      penstock delphi jobs --status PENDING --db delphi.db
    """
    state = next((state for state, name in STATUSES.items() if name == status), None)
    with queue(url) as found:
        jobs = found.app.store.find(state=state, limit=limit).jobs
    if as_json:
        print_json([job_form(job) for job in jobs])
        return
    for job in jobs:
        click.echo(one_line(job_line(job)))
    if not jobs:
        click.echo("There is no such job.", err=True)
