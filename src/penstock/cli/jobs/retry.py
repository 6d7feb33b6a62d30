"""`penstock jobs retry`."""

from __future__ import annotations

import click

from penstock.cli.jobs.choosing import choice_options, run_on_jobs
from penstock.cli.jobs.options import json_option, place_options
from penstock.jobs.state import State


@click.command("retry")
@choice_options
@place_options
@json_option
def command(
    job_ids: tuple[str, ...],
    state: str | None,
    task: str | None,
    tenant: str | None,
    dry_run: bool,
    yes: bool,
    url: str | None,
    table: str,
    as_json: bool,
) -> None:
    """Give failed jobs another attempt: they go on at their last checkpoint.

    \b
    Examples:
      penstock jobs retry job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs retry --state failed --task monthly_report --db reports.db --yes
    """
    run_on_jobs(
        "retry",
        lambda store, job_id: store.retry(job_id),
        (State.FAILED,),
        job_ids=job_ids,
        state=state,
        task=task,
        tenant=tenant,
        dry_run=dry_run,
        yes=yes,
        url=url,
        table=table,
        as_json=as_json,
    )
