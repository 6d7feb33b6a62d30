"""`penstock accounts example`."""

from __future__ import annotations

from collections.abc import Callable

import click

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.systems.account_records.examples import (
    processor_complete_example,
    processor_example,
    record_example,
    user_example,
)
from penstock.systems.account_records.models.record import RecordModel

_OF_RECORDS: dict[str, Callable[[RecordModel, Callable[[str], None]], None]] = {
    "record": record_example.run,
    "processor": processor_example.run,
    "complete": processor_complete_example.run,
}


@click.command("example")
@click.argument("name", type=click.Choice(["user", *_OF_RECORDS]))
@placed
@json_option
def command(place: Place, name: str, as_json: bool) -> None:
    """Run one of the examples on the configured tables: it writes a few items, and says what it does.

    \b
    Examples:
      penstock accounts example record
      penstock accounts example complete --url accounts.db

    Their code is in penstock/systems/account_records/examples.
    """
    lines: list[str] = []
    say = lines.append if as_json else click.echo
    if name == "user":
        with place.users() as users:
            user_example.run(users, say)
    else:
        with place.records() as records:
            _OF_RECORDS[name](records, say)
    if as_json:
        print_json(lines)
