"""`penstock excel status`."""

from __future__ import annotations

import click

from penstock.cli.excel.options import Place, end_with, job_argument, job_line, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.clock import utc_text
from penstock.systems.excel_reports.records import ReportJob, job_form


@click.command("status")
@job_argument
@place_options
@json_option
def command(job_id: str, place: Place, as_json: bool) -> None:
    """Show how far a report is; where it is, once it is made; and why not, if it failed.

    \b
    Examples:
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db --json

    Exit codes: 0 made or under way, 3 it has failed, 4 there is no such job.
    """
    with place.opened() as service:
        job = service.read(job_id).job
    if as_json:
        print_json(job_form(job))
    else:
        _show(job)
    end_with(job)


def _show(job: ReportJob) -> None:
    click.echo(job_line(job))
    click.echo(f"created    {utc_text(job.created_at)}")
    click.echo(f"updated    {utc_text(job.updated_at)}")
    if job.completed_at is not None:
        click.echo(f"completed  {utc_text(job.completed_at)}")
    if job.result is not None:
        click.echo(f"file       {job.result['fileName']}, made in {job.result['processingTime']}")
        click.echo(f"download   {job.result['downloadUrl']}")
        for name, value in job.result.get("statistics", {}).items():
            click.echo(f"           {name} {value:,}")
    if job.error is not None:
        click.echo(f"error      {job.error['category']}: {job.error['message']}")
