"""`penstock security list`."""

from __future__ import annotations

import itertools

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.cli.security.options import company_option, job_form, line_of, opened, storage_options
from penstock.systems.security_assistant.job import STATUSES
from penstock.systems.security_assistant.shelf import JobPage
from penstock.systems.security_assistant.storage import LONGEST_PAGE, Storage, moment_of


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Jobs of this status.")
@click.option("--client", metavar="NAME", help="Jobs of this client; --company says whose client.")
@click.option("--month", metavar="YYYY-MM", help="Jobs of this month.")
@click.option("--since", metavar="DATE", help="Jobs made since: 2024-01-15, or a whole time.")
@click.option("--until", metavar="DATE", help="Jobs made until then, that day included.")
@click.option("--interrupted", is_flag=True, help="Jobs whose worker is gone.")
@click.option("--limit", type=click.IntRange(1, LONGEST_PAGE), default=50, show_default=True, help="At most so many.")
@click.option("--token", metavar="TOKEN", help="Where the page before ended.")
@company_option
@storage_options
@json_option
def command(
    status: str | None,
    client: str | None,
    month: str | None,
    since: str | None,
    until: str | None,
    interrupted: bool,
    limit: int,
    token: str | None,
    company: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """List jobs, newest first, by one of status, client, month and dates.

    \b
    Examples:
      penstock security list --status completed
      penstock security list --client "St. Mary's Hospital" --company 7central
      penstock security list --since 2024-01-15 --until 2024-03-10 --db jobs.db --json
      penstock security list --interrupted
    """
    asked = [bool(status), bool(client), bool(month), bool(since or until), interrupted]
    if sum(asked) != 1:
        raise click.UsageError("Say which jobs: one of --status, --client, --month, --since/--until, --interrupted.")
    with opened(place, company) as storage:
        if interrupted:
            page = JobPage(tuple(itertools.islice(storage.interrupted_jobs(), limit)), None)
        elif status:
            page = storage.query_by_status(status, limit=limit, token=token)
        elif client:
            page = storage.query_by_client(client, limit=limit, token=token)
        elif month:
            page = storage.query_by_month(month, limit=limit, token=token)
        else:
            page = _between(storage, since, until, limit, token)
    if as_json:
        print_json({"jobs": [job_form(job) for job in page.jobs], "token": page.token})
        return
    for job in page.jobs:
        click.echo(one_line(line_of(job)))
    if not page.jobs:
        click.echo("No jobs." if token is None else "No more jobs.")
    if page.token is not None:
        click.echo(f"More: --token '{page.token}'", err=True)


def _between(storage: Storage, since: str | None, until: str | None, limit: int, token: str | None) -> JobPage:
    last = storage.now() if until is None else moment_of(until, end=True)
    if since is None:
        raise click.UsageError("--until wants --since: every month between is asked for.")
    return storage.query_by_dates(moment_of(since), last, limit=limit, token=token)
