"""`penstock accounts list`."""

from __future__ import annotations

from itertools import islice

import click
import orjson

from penstock.cli.accounts.options import Place, line_of, placed
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain


@click.command("list")
@placed
@click.option("--processed", "state", flag_value="processed", help="What is done.")
@click.option("--unprocessed", "state", flag_value="unprocessed", default=True, help="What is to be done. [default]")
@click.option("--account", metavar="ID", help="All records of an account, in the order of their times.")
@click.option("--since", default="", metavar="TIME", help="From this RunTime on.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@json_option
def command(place: Place, state: str, account: str | None, since: str, limit: int | None, as_json: bool) -> None:
    """List records: unprocessed, processed, or of an account. Read page after page; --json prints one on each line.

    \b
    Examples:
      penstock accounts list
      penstock accounts list --processed --limit 100 --json
      penstock accounts list --account ACC12345 --since 2026-02
    """
    with place.records() as records:
        if account is not None:
            found = records.query_by_account(account, since=since)
        elif state == "processed":
            found = records.query_processed(since=since)
        else:
            found = records.query_unprocessed(since=since)
        number = 0
        for record in islice(found, limit):
            number += 1
            click.echo(orjson.dumps(plain(record)).decode() if as_json else line_of(record))
    if not as_json:
        click.echo(f"{number:,} record{'' if number == 1 else 's'}", err=True)
