"""`penstock records failures`."""

from __future__ import annotations

import click

from penstock.cli.conversation import json_option, show_json
from penstock.cli.databases import opened
from penstock.cli.records.options import bookkeeping_option, table_argument, url_option
from penstock.cli.terminal import one_line
from penstock.clock import utc_text
from penstock.records.failed_records import FailureGroup
from penstock.records.processor import RecordProcessor

_SHOWN_EXAMPLES = 2


@click.command("failures")
@table_argument
@url_option
@bookkeeping_option
@json_option
def command(table: str, url: str, bookkeeping: str, as_json: bool) -> None:
    """List the records of TABLE that failed in all their attempts, grouped by their error.

    \b
    Example:
      penstock records failures Records --url app.db

    Reads the whole table.
    """
    with opened(url) as db:
        groups = RecordProcessor(db.table(table), bookkeeping=bookkeeping).failures()
    if as_json:
        show_json([group.form() for group in groups])
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
