"""`penstock tables destroy`: tables deleted by their exact names."""

from __future__ import annotations

import click

from penstock.cli.tables import screen
from penstock.cli.tables.carrying import Manner, propose
from penstock.cli.tables.options import (
    definitions_argument,
    dry_run_option,
    json_option,
    max_wait_option,
    naming_options,
    opened,
    order_of,
    tables_option,
    url_option,
    yes_option,
)
from penstock.tables.costs import count
from penstock.tables.survey import Survey, survey_to_delete


@click.command("destroy")
@definitions_argument
@url_option
@naming_options
@tables_option
@max_wait_option
@dry_run_option
@yes_option
@json_option
def command(
    definitions: str,
    url: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    only: tuple[str, ...],
    max_wait: float,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the tables that DEFINITIONS names, with their items, and wait until they are gone.

    \b
    Examples:
      penstock tables destroy delphi --url tables.db --dry-run
      penstock tables destroy construction-expenses --url aws://us-east-1 --env dev --table invitations --yes

    Only these exact names, never a prefix. A table that is protected from deletion stays.

    Exit codes: 0 gone, 1 something failed or is protected, 2 not confirmed, 130 interrupted.
    """
    order = order_of(definitions, env=env, prefix=prefix, layout=layout, only=only)
    manner = Manner(order.policy_command("destroy"), max_wait, dry_run, yes, as_json)
    names = [order.naming.full_name(table.name) for table in order.tables]
    with opened(url) as db:
        found = survey_to_delete(db, names, order.naming, policy=manner.policy)
        doomed = found.plan.counts["delete"]
        question = f"Delete {doomed} of the tables in {db.name}, with all their items?"
        propose(db, found, manner, question, show=lambda: _show(found))


def _show(survey: Survey) -> None:
    if survey.plan.is_empty:
        click.echo(f"Nothing to delete: none of {count(len(survey.tables), 'table')} is there.")
        screen.show_under_way(survey)
    else:
        screen.show_plan(survey.plan)
