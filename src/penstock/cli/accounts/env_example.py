"""`penstock accounts env-example`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
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
        print_json(DEFAULTS)
    else:
        click.echo(EXAMPLE, nl=False)
