"""`penstock excel list`."""

from __future__ import annotations

import click

from penstock.cli.excel.options import Place, job_line, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.systems.excel_reports.records import job_form


@click.command("list")
@place_options
@click.option("--status", type=click.Choice(["pending", "processing", "completed", "failed"]), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@json_option
def command(place: Place, status: str | None, limit: int, as_json: bool) -> None:
    """List jobs, newest first.

    \b
    Examples:
      penstock excel list --db reports.db
      penstock excel list --db reports.db --status failed --json

    The table has no index, as it was designed: all of it is read.
    """
    with place.opened() as service:
        jobs = service.jobs.list_jobs(status=status, limit=limit)
    if as_json:
        print_json([job_form(job) for job in jobs])
        return
    for job in jobs:
        click.echo(one_line(job_line(job)))
    if not jobs:
        click.echo("There are none.", err=True)
