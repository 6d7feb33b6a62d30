"""`penstock excel logs`."""

from __future__ import annotations

import click

from penstock.cli.excel.options import Place, job_argument, log_line, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.systems.excel_reports.records import log_form


@click.command("logs")
@job_argument
@place_options
@json_option
def command(job_id: str, place: Place, as_json: bool) -> None:
    """Show a job's numbered records, in their order.

    \b
    Example:
      penstock excel logs job_mbzlks74_rfi5i0 --db reports.db

    Exit codes: 0, 4 there is no such job.
    """
    with place.opened() as service:
        logs = service.read(job_id).logs
    if as_json:
        print_json([log_form(log) for log in logs])
        return
    for log in logs:
        click.echo(one_line(log_line(log)))
