"""`penstock accounts show`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, account_argument, line_of, placed, run_time_argument
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain, print_json
from penstock.systems.account_records.models.record import RecordMissing


@click.command("show")
@account_argument
@run_time_argument
@placed
@json_option
def command(place: Place, account_id: str, run_time: str, as_json: bool) -> None:
    """Show a record.

    \b
    Examples:
      penstock accounts show ACC12345 2026-02-17T12:00:00Z
      penstock accounts show ACC12345 2026-02-17T12:00:00Z --json

    Exit codes: 0 done, 4 there is no such record.
    """
    with place.records() as records:
        found = records.get_item(account_id, run_time, consistent=True)
        if found is None:
            raise RecordMissing(account_id, run_time)
    if as_json:
        print_json(plain(found))
    else:
        click.echo(line_of(found))
