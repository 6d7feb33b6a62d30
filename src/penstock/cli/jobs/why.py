"""`penstock jobs why`."""

from __future__ import annotations

import click

from penstock.cli.jobs.options import job_argument, opened, place_options, print_json
from penstock.cli.kit.options import json_option
from penstock.jobs.explain import explain, gather


@click.command("why")
@job_argument
@place_options
@json_option
def command(job_id: str, url: str | None, table: str, as_json: bool) -> None:
    """Say in one sentence why a job is not running: who holds it, what it waits for, what is missing.

    \b
    Example:
      penstock jobs why job_mbzlks74_rfi5i0 --db reports.db
    """
    with opened(url, table) as store:
        job = store.get(job_id)
        sentence = explain(job, gather(store, job))
        if as_json:
            print_json({"id": job.id, "state": job.state.value, "why": sentence})
        else:
            click.echo(sentence)
