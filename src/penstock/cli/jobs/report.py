"""`penstock jobs report`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.jobs.options import job_argument, job_form, opened, place_options
from penstock.jobs.explain import explain, gather
from penstock.jobs.html_report import html
from penstock.tables.formats.export import write_whole


@click.command("report")
@job_argument
@place_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="By default JOB.html.")
def command(job_id: str, url: str | None, table: str, out: Path | None) -> None:
    """Write all of a job into one HTML file that needs nothing else: to be mailed, or kept.

    \b
    Example:
      penstock jobs report job_mbzlks74_rfi5i0 --db reports.db --out report.html
    """
    with opened(url, table) as store:
        history = store.history(job_id)
        job = history.job
        around = gather(store, job)
        form = job_form(job, store, payloads=True)
        notes = form["unread"]
        page = html(history, form["args"], form["result"], explain(job, around), written_at=around.now, notes=notes)
    path = out or Path(f"{job.id}.html")
    write_whole(path, page)
    click.echo(str(path))
