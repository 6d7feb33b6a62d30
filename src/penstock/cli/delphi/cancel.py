"""`penstock delphi cancel`."""

from __future__ import annotations

import click

from penstock.cli.delphi.options import queue, url_option
from penstock.cli.jobs.choosing import do_to_each
from penstock.cli.kit.options import json_option
from penstock.jobs.store.store import JobStore


@click.command("cancel")
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@url_option
@json_option
def command(job_ids: tuple[str, ...], url: str, as_json: bool) -> None:
    """Cancel jobs of the queue: those that wait end now, and of those that run the whole process group is ended.

    \b
    Example:
      penstock delphi cancel job_mwimjl2f_5wro67 --db delphi.db

    Exit codes: 0 done, 3 if one could not be, 4 if one was not found; the others are done all the same.
    """
    with queue(url) as found:
        raise SystemExit(do_to_each(found.app.store, JobStore.cancel, job_ids, as_json))
