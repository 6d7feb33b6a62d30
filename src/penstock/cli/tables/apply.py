"""`penstock tables apply`: the tables as they are defined."""

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
from penstock.tables.survey import Survey, survey


@click.command("apply")
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
    """Make the tables as they are defined: missing ones are created, others changed, equal ones skipped.

    \b
    Examples:
      penstock tables apply construction-expenses --url tables.db --yes
      penstock tables apply infrastructure/schemas --url aws://us-east-1 --env staging

    Several tables side by side, one index of a table at a time, each waited for. Interrupted or failed, the next run
    finishes it. A table that no definition names is never touched.

    Exit codes: 0 done, 1 something failed, 2 not confirmed, 130 interrupted.
    """
    order = order_of(definitions, env=env, prefix=prefix, layout=layout, only=only)
    manner = Manner(order.policy_command("apply"), max_wait, dry_run, yes, as_json)
    with opened(url, "empty" if dry_run else "made") as db:
        found = survey(db, order.tables, order.naming, policy=manner.policy)
        propose(db, found, manner, f"Apply this to {db.name}?", show=lambda: _show(found))


def _show(survey: Survey) -> None:
    screen.show_plan(survey.plan)
    screen.show_under_way(survey)
