"""`penstock tables destroy`: tables deleted by their exact names."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.tables import screen
from penstock.cli.tables.carrying import propose
from penstock.cli.tables.options import Manner, Order, manner_options, ordered, url_option
from penstock.tables.plan.costs import count
from penstock.tables.plan.survey import Survey, survey_to_delete


@click.command("destroy")
@url_option
@ordered
@manner_options
def command(order: Order, url: str, manner: Manner) -> None:
    """Delete the tables that DEFINITIONS names, with their items, and wait until they are gone.

    \b
    Examples:
      penstock tables destroy delphi --url tables.db --dry-run
      penstock tables destroy construction-expenses --url aws://us-east-1 --env dev --table invitations --yes

    Only these exact names, never a prefix. A table that is protected from deletion stays.

    Exit codes: 0 gone, 1 something failed or is protected, 2 not confirmed, 130 interrupted.
    """
    policy = order.policy_command("destroy")
    names = [order.naming.full_name(table.name) for table in order.tables]
    with open_database(url) as db:
        found = survey_to_delete(db, names, order.naming, policy=policy)
        doomed = found.plan.counts["delete"]
        question = f"Delete {doomed} of the tables in {db.name}, with all their items?"
        propose(db, found, manner, policy, question, show=lambda: _show(found))


def _show(survey: Survey) -> None:
    if survey.plan.is_empty:
        click.echo(f"Nothing to delete: none of {count(len(survey.tables), 'table')} is there.")
        screen.show_under_way(survey)
    else:
        screen.show_plan(survey.plan)
