"""`penstock accounts env-example`."""

from __future__ import annotations

import click

from penstock.cli.conversation import json_option, show_json
from penstock.systems.account_records.config import DEFAULTS, EXAMPLE


@click.command("env-example")
@json_option
def command(as_json: bool) -> None:
    """Print a .env with the defaults, which are those of `penstock serve` on this machine.

    \b
    Examples:
      penstock accounts env-example > .env
    """
    if as_json:
        show_json(DEFAULTS)
    else:
        click.echo(EXAMPLE, nl=False)
