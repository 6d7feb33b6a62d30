"""`penstock tables apply`: the tables as they are defined."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import note_missing_file, open_database
from penstock.cli.tables import screen
from penstock.cli.tables.carrying import agreed, carry_out
from penstock.cli.tables.options import Manner, Order, manner_options, ordered, url_option
from penstock.tables.plan.survey import Survey, survey


@click.command("apply")
@url_option
@ordered
@manner_options
def command(order: Order, url: str, manner: Manner) -> None:
    """Make the tables as they are defined: missing ones are created, others changed, equal ones skipped.

    \b
    Examples:
      penstock tables apply construction-expenses --url tables.db --yes
      penstock tables apply infrastructure/schemas --url aws://us-east-1 --env staging

    Several tables side by side, one index of a table at a time, each waited for. Interrupted or failed, the next run
    finishes it. A table that no definition names is never touched.

    Exit codes: 0 done, 1 something failed, 2 not confirmed, 130 interrupted.
    """
    policy = order.policy_command("apply")
    if manner.dry_run:
        note_missing_file(url)
    with open_database(url, "empty") as db:
        found = survey(db, order.tables, order.naming, policy=policy)
    if agreed(found, manner, f"Apply this to {url}?", show=lambda: _show(found)):
        with open_database(url, "made") as db:  # a file is made only now that somebody wants it
            carry_out(db, found, manner, policy)


def _show(survey: Survey) -> None:
    screen.show_plan(survey.plan)
    screen.show_under_way(survey)
