"""`penstock delphi retry`."""

from __future__ import annotations

import click

from penstock.cli.conversation import json_option, show_json
from penstock.cli.delphi.options import job_form, job_line, queue, url_option


@click.command("retry")
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@url_option
@json_option
def command(job_ids: tuple[str, ...], url: str, as_json: bool) -> None:
    """Give failed jobs of the queue another attempt, which goes on where the last one stopped.

    \b
    Example:
      penstock delphi retry job_mwimjl2f_5wro67 --db delphi.db
    """
    with queue(url) as found:
        jobs = [found.app.store.retry(job_id) for job_id in job_ids]
    if as_json:
        show_json([job_form(job) for job in jobs])
        return
    for job in jobs:
        click.echo(job_line(job))
