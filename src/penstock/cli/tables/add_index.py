"""`penstock tables add-index`: one index, after a look at real items."""

from __future__ import annotations

import os
from typing import Any

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.tables import screen
from penstock.cli.tables.carrying import propose
from penstock.cli.tables.index_options import Said, defined_table, full_name, index_options
from penstock.cli.tables.options import Manner, Order, manner_options, naming_options, order_of, url_option
from penstock.tables.definitions.definition import Index
from penstock.tables.definitions.naming import Naming
from penstock.tables.indexes.add_index import IndexPlan, existing, plan_addition, refuse_misfits, warning_of
from penstock.tables.plan.costs import count


@click.command("add-index")
@click.argument("definitions", required=False)
@url_option
@naming_options
@index_options
@manner_options
def command(
    definitions: str | None,
    url: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    table: str,
    index: str,
    force: bool,
    manner: Manner,
    **said: str | None,
) -> None:
    """Add one index to a live table, after a look at its items, and wait until it is ready.

    \b
    Examples:
      penstock tables add-index construction-expenses --url tables.db --table company-users \\
          --index phone-index --partition-key phone
      TABLE_NAME=jobs INDEX_NAME=by-due PARTITION_KEY=state SORT_KEY=due SORT_KEY_TYPE=N \\
          penstock tables add-index --url aws://us-east-1 --yes

    The table is one of DEFINITIONS, by suffix or full name; without DEFINITIONS it is a full name. An index that
    DEFINITIONS has needs no key here. One that is there is skipped, one that is being made is waited for.
    Up to 1,000 items are read first: an index whose key has another type than the stored values is refused, because
    every later write of such an item would fail.

    Exit codes: 0 ready, 1 refused or failed, 2 called wrongly or not confirmed, 130 interrupted.
    """
    order = None if definitions is None else order_of(definitions, env=env, prefix=prefix, layout=layout)
    naming = order.naming if order is not None else Naming.of(os.environ, prefix=prefix, environment=env)
    wanted = _wanted(order, table, index, Said(**said))
    policy = order.policy_command("add-index") if order is not None else "penstock tables policy"
    with open_database(url) as db:
        live = existing(db, full_name(order, table), policy)
        plan = plan_addition(db, live, wanted, naming)
        if not force:
            refuse_misfits(plan)
        question = f"Add the index to {db.name}?"
        propose(db, plan.survey, manner, policy, question, show=lambda: show_index(plan), more=index_json(plan))


def _wanted(order: Order | None, table: str, index: str, said: Said) -> Index:
    if said.partition_key:
        return said.new_index(index)
    defined = defined_table(order, table)
    found = None if defined is None else defined.index(index)
    if found is None:
        raise click.UsageError(f"No definition has index {index}: give --partition-key, or PARTITION_KEY.")
    if said.anything:
        raise click.UsageError("The index is defined already: give no key and projection, or all of them.")
    return found


def show_index(plan: IndexPlan) -> None:
    """What the look at real items found, and the plan."""
    if plan.exists:
        state = "is being made, and waited for" if plan.is_building else "is there already"
        click.echo(f"Index {plan.index.name} of {plan.live.facts.name} {state}.")
        return
    assert plan.fit is not None
    found = plan.fit
    if found.sampled:
        click.echo(f"Looked at {count(found.sampled, 'item')}: the index would have {found.holds:,} of them.")
    for misfit in found.misfits:
        click.echo(click.style(f"Warning: {misfit}: such items can no longer be written.", fg="yellow"), err=True)
    warning = warning_of(plan)
    if warning is not None:
        click.echo(click.style(f"Warning: {warning}.", fg="yellow"), err=True)
    screen.show_plan(plan.survey.plan)


def index_json(plan: IndexPlan) -> dict[str, Any]:
    found = plan.fit
    told: dict[str, Any] = {"index": plan.index.name, "existed": plan.exists}
    if found is not None:
        told |= {"sampled": found.sampled, "holds": found.holds, "warning": warning_of(plan)}
        told["misfits"] = [str(one) for one in found.misfits]
    return told
