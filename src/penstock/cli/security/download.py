"""`penstock security download`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.exit_codes import CommandFailed
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import NOT_READY, company_option, job_argument, opened, storage_options
from penstock.systems.security_assistant.stages import KINDS, file_of_kind


@click.command("download")
@job_argument
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to; without it, its own name, here."
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.option("--url-only", is_flag=True, help="Write nothing; print a URL that is valid for an hour.")
@company_option
@storage_options
@json_option
def command(
    job_id: str,
    kind: str,
    out: Path | None,
    force: bool,
    url_only: bool,
    company: str | None,
    as_json: bool,
    **place: str | None,
) -> None:
    """Write the file KIND of JOB to disk. Its hash is checked on the way.

    \b
    Examples:
      penstock security download job_mbzlks74_rfi5i0 excel
      penstock security download job_mbzlks74_rfi5i0 evaluation --out e.json --company 7central

    Exit codes: 0 done, 4 there is no such job, 5 the file is not ready yet.
    """
    with opened(place, company) as storage:
        job = storage.job(job_id)
        key = file_of_kind(job, kind)
        if key is None:
            raise CommandFailed(
                NOT_READY, f"{job.id} is {job.state.value}, and has no {kind} file yet. Ask again later."
            )
        if url_only:
            url = storage.presigned_url(key)
            print_json({"key": key, "url": url}) if as_json else click.echo(url)
            return
        target = out or Path(key.rpartition("/")[2])
        if target.exists() and not force:
            raise click.UsageError(f"{target} is there already. Give --force to replace it, or another --out.")
        data = storage.get(key, expect=job.saved.get(key))
    target.write_bytes(data)
    if as_json:
        print_json({"key": key, "file": str(target), "size": len(data)})
    else:
        click.echo(f"{target}: {len(data):,} bytes, as it was saved")
