"""`penstock accounts mark`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, account_argument, line_of, placed, run_time_argument
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain, print_json


@click.command("mark")
@account_argument
@run_time_argument
@placed
@json_option
def command(place: Place, account_id: str, run_time: str, as_json: bool) -> None:
    """Mark a record as processed. One that is not there is not made.

    \b
    Examples:
      penstock accounts mark ACC12345 2026-02-17T12:00:00Z

    Exit codes: 0 done, 4 there is no such record.
    """
    with place.records() as records:
        marked = records.mark_as_processed(account_id, run_time)
    if as_json:
        print_json(plain(marked))
    else:
        click.echo(line_of(marked))
