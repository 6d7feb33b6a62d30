"""`penstock tables verify`: live tables beside their definitions."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables import screen
from penstock.cli.tables.options import Order, ordered, url_option
from penstock.tables.plan.costs import count
from penstock.tables.plan.survey import survey


@click.command("verify")
@url_option
@ordered
@json_option
def command(order: Order, url: str, as_json: bool) -> None:
    """Compare live tables with their definitions: keys, indexes, capacity, TTL, streams and settings.

    \b
    Examples:
      penstock tables verify delphi --url http://127.0.0.1:8000
      penstock tables verify infrastructure/schemas --url aws://us-east-1 --env staging --json

    Read only. Exit codes: 0 all equal, 1 something differs, is missing or cannot be read.
    """
    with open_database(url) as db:
        found = survey(db, order.tables, order.naming, policy=order.policy_command("verify"))
    plan = found.plan
    if as_json:
        print_json({"equal": plan.is_empty, **screen.survey_json(found)})
    elif plan.is_empty:
        click.echo(f"Verified: {count(len(plan.tables), 'table')} as defined.")
        screen.show_under_way(found)
        screen.show_not_compared(found)
    else:
        click.echo("These tables are not as defined; to be so, they need:", err=True)
        screen.show_plan(plan)
        screen.show_under_way(found)
        screen.show_not_compared(found)
    if not plan.is_empty:
        raise click.exceptions.Exit(1)
