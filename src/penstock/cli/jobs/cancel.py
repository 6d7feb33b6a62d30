"""`penstock jobs cancel`."""

from __future__ import annotations

import click

from penstock.cli.jobs.choosing import choice_options, run_on_jobs
from penstock.cli.jobs.options import json_option, place_options
from penstock.jobs.state import State


@click.command("cancel")
@choice_options
@place_options
@click.option("--reason", default="", metavar="TEXT", help="Kept with the job.")
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
    reason: str,
    as_json: bool,
) -> None:
    """Cancel jobs: queued ones at once, running ones at their next report.

    \b
    Examples:
      penstock jobs cancel job_mbzlks74_rfi5i0 --db reports.db --reason "wrong month"
      penstock jobs cancel --state queued --task monthly_report --db reports.db --dry-run
    """
    run_on_jobs(
        "cancel",
        lambda store, job_id: store.cancel(job_id, reason),
        (State.QUEUED, State.PROCESSING),
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
