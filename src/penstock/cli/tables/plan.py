"""`penstock tables plan`: what apply would do."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import note_missing_file, open_database
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables import screen
from penstock.cli.tables.options import CHANGES, Order, ordered, url_option
from penstock.tables.plan.survey import survey


@click.command("plan")
@url_option
@ordered
@click.option("--exit-code", is_flag=True, help="Exit with 7 if there are changes.")
@json_option
def command(order: Order, url: str, exit_code: bool, as_json: bool) -> None:
    """Show what apply would do, and what it costs: what blocks, what fills in the background, what is destroyed.

    \b
    Examples:
      penstock tables plan construction-expenses --url tables.db --env staging
      penstock tables plan mytables:all --url aws://us-east-1 --exit-code

    Read only. For a file that does not exist yet, the plan is that of an empty database; the file is not made.

    Exit codes: 0 done; 7 changes, with --exit-code; 1 failed.
    """
    note_missing_file(url)
    with open_database(url, "empty") as db:
        found = survey(db, order.tables, order.naming, policy=order.policy_command("plan"))
    if as_json:
        print_json(screen.survey_json(found))
    else:
        screen.show_plan(found.plan)
        screen.show_under_way(found)
        screen.show_not_compared(found)
    if exit_code and not found.plan.is_empty:
        raise click.exceptions.Exit(CHANGES)
