"""`penstock tables apply`: the tables as they are defined."""

from __future__ import annotations

import click

from penstock.cli.tables import screen
from penstock.cli.tables.carrying import propose
from penstock.cli.tables.options import Manner, Order, manner_options, opened, ordered, url_option
from penstock.tables.survey import Survey, survey


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
    with opened(url, "empty" if manner.dry_run else "made") as db:
        found = survey(db, order.tables, order.naming, policy=policy)
        propose(db, found, manner, policy, f"Apply this to {db.name}?", show=lambda: _show(found))


def _show(survey: Survey) -> None:
    screen.show_plan(survey.plan)
    screen.show_under_way(survey)
