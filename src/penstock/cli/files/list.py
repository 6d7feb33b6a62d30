"""`penstock files list`."""

from __future__ import annotations

import click

from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import count_text, print_json, size_text
from penstock.clock import utc_text
from penstock.files.content import ListedFile


@click.command("list")
@home_argument
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@json_option
def command(home: str, prefix: str, limit: int | None, as_json: bool) -> None:
    """List the files of HOME whose keys begin with PREFIX, in the order of their keys.

    \b
    Examples:
      penstock files list out/
      penstock files list s3://my-bucket/reports jobs/j1/ --json
    """
    found: list[ListedFile] = []
    number = size = 0
    for file in opened(home).list(prefix):
        if number == limit:
            click.echo(f"More than {limit:,}: give a longer prefix or a higher --limit.", err=True)
            break
        number, size = number + 1, size + file.size
        if as_json:
            found.append(file)
        else:
            click.echo(f"{file.size:>15,}  {utc_text(file.changed_at)}  {file.key}")
    if as_json:
        print_json([_form(file) for file in found])
    else:
        click.echo(f"{count_text(number)}, {size_text(size)}", err=True)


def _form(file: ListedFile) -> dict[str, object]:
    return {"key": file.key, "size": file.size, "changed_at": utc_text(file.changed_at)}
