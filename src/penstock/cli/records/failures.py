"""`penstock records failures`."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.cli.records.options import bookkeeping_option, table_argument, url_option
from penstock.clock import utc_text
from penstock.records.processor import RecordProcessor
from penstock.records.state.failed_records import FailureGroup

_SHOWN_EXAMPLES = 2


@click.command("failures")
@table_argument
@url_option
@bookkeeping_option
@json_option
def command(table: str, url: str, bookkeeping: str, as_json: bool) -> None:
    """List the records of TABLE that are parked, because all their attempts failed, grouped by their error.

    \b
    Example:
      penstock records failures Records --url app.db

    Reads the whole table.
    """
    with open_database(url) as db:
        groups = RecordProcessor(db.table(table), bookkeeping=bookkeeping).failures()
    if as_json:
        print_json([group.form() for group in groups])
        return
    for group in groups:
        _show(group)
    count = sum(group.count for group in groups)
    kinds = "1 kind" if len(groups) == 1 else f"{len(groups):,} kinds"
    click.echo(f"{count:,} failed, {kinds} of error." if groups else "No record has failed.")


def _show(group: FailureGroup) -> None:
    click.echo(one_line(f"{group.count:>7,}  {group.kind}: {group.message}   (last {utc_text(group.last_at)})"))
    for key, message in group.examples[:_SHOWN_EXAMPLES]:
        name = " ".join(f"{attribute}={value}" for attribute, value in key.items())
        click.echo(one_line(f"         {name}: {message}"))
