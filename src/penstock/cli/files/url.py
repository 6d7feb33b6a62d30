"""`penstock files url`."""

from __future__ import annotations

import click

from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.files import errors
from penstock.files.file_store import LONGEST_URL_SECONDS, URL_SECONDS


@click.command("url")
@home_argument
@click.argument("key")
@click.option("--seconds", type=click.IntRange(1, LONGEST_URL_SECONDS), default=URL_SECONDS, show_default=True)
@json_option
def command(home: str, key: str, seconds: int, as_json: bool) -> None:
    """Print a URL of the file KEY: signed and valid for a time in a bucket, file:// in a folder.

    \b
    Examples:
      penstock files url s3://my-bucket/reports jobs/j1/report.xlsx --seconds 600
      curl -O "$(penstock files url s3://my-bucket/reports jobs/j1/report.xlsx)"

    Whoever has a signed URL can read the file until it expires.
    """
    files = opened(home)
    if not files.exists(key):
        raise errors.missing(files.name_of(key))
    url = files.url(key, seconds=seconds)
    if as_json:
        print_json({"key": key, "url": url, "seconds": seconds if home.startswith("s3:") else None})
    else:
        click.echo(url)
