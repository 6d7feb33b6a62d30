"""`penstock excel retry`."""

from __future__ import annotations

import click

from penstock.cli.excel.options import Place, job_argument, job_line, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.systems.excel_reports.records import job_form


@click.command("retry")
@job_argument
@place_options
@json_option
def command(job_id: str, place: Place, as_json: bool) -> None:
    """Give a failed report another attempt. What the last one made is reused.

    \b
    Example:
      penstock excel retry job_mbzlks74_rfi5i0 --db reports.db && penstock excel worker --burst --db reports.db

    Exit codes: 0, 1 it has not failed, 4 there is no such job.
    """
    with place.opened() as service:
        job = service.retry(job_id)
    if as_json:
        print_json(job_form(job))
    else:
        click.echo(job_line(job))
