"""`penstock tables change-index`: another key or projection, with no gap in queries."""

from __future__ import annotations

from dataclasses import replace

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import confirm
from penstock.cli.kit.output import print_json
from penstock.cli.tables import screen
from penstock.cli.tables.add_index import index_json, show_index
from penstock.cli.tables.carrying import carry_out
from penstock.cli.tables.index_options import Said, defined_table, full_name, index_options
from penstock.cli.tables.options import (
    Manner,
    definitions_argument,
    manner_options,
    naming_options,
    order_of,
    url_option,
)
from penstock.tables.definitions.definition import Index, Key, Table
from penstock.tables.indexes.add_index import (
    IndexRefused,
    existing,
    plan_addition,
    plan_removal,
    refuse_misfits,
    successor_name,
)
from penstock.tables.plan.inspect import Live


@click.command("change-index")
@definitions_argument
@url_option
@naming_options
@index_options
@click.option("--to", "successor", metavar="NAME", help="What the new index is called. [the old name with -v2]")
@click.option("--no-sort-key", is_flag=True, help="The new index has no sort key.")
@click.option("--keep-old", is_flag=True, help="Stop when the new index is ready; run it again to drop the old one.")
@manner_options
def command(
    definitions: str,
    url: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    table: str,
    index: str,
    force: bool,
    successor: str | None,
    no_sort_key: bool,
    keep_old: bool,
    manner: Manner,
    **said: str | None,
) -> None:
    """Give an index another key or projection: a new index is added, waited for, and then the old one is dropped.

    \b
    Examples:
      penstock tables change-index construction-expenses --url tables.db --table company-expenses \\
          --index invoiceNum-index --projection-type ALL --keep-old
      penstock tables change-index mytables:all --url aws://us-east-1 --table jobs --index by-due --to by-due-v2

    DynamoDB cannot alter an index, and two cannot have one name. Queries work all the while: on the old name until
    it is dropped, on the new one from when it is ready. With --keep-old there is time to move them; the same command
    without it then drops the old index. What is not said is as in the old index, or as DEFINITIONS has it.

    Exit codes: 0 done, 1 refused or failed, 2 called wrongly or not confirmed, 130 interrupted.
    """
    order = order_of(definitions, env=env, prefix=prefix, layout=layout)
    policy = order.policy_command("change-index")
    new_name = successor or successor_name(index)
    with open_database(url) as db:
        live = existing(db, full_name(order, table), policy)
        wanted = _wanted(live, defined_table(order, table), index, new_name, Said(**said), no_sort_key)
        plan = plan_addition(db, live, wanted, order.naming)
        if not force:
            refuse_misfits(plan)
        removal = plan_removal(live, index, order.naming)
        if not manner.as_json:
            show_index(plan)
            if not keep_old and not removal.plan.is_empty:
                screen.show_plan(removal.plan)
        if manner.dry_run:
            if manner.as_json:
                print_json({"add": screen.survey_json(plan.survey), "drop": screen.survey_json(removal)})
            return
        if not plan.exists:
            confirm(f"Add index {new_name} to {db.name}?", yes=manner.yes)
        told = index_json(plan) | {"replaces": index}
        if not plan.exists or live.in_motion or (manner.as_json and keep_old):
            carry_out(db, plan.survey, manner, policy, more=told, last=keep_old)
        if keep_old:
            click.echo(f"Both are there. Move the queries from {index} to {new_name}, then run it again.", err=True)
            return
        if not removal.plan.is_empty:
            confirm(f"{new_name} is ready. Have all queries moved to it, and may {index} be dropped?", yes=manner.yes)
        if manner.as_json or not removal.plan.is_empty:
            carry_out(db, removal, manner, policy, more=told)
    click.echo(f"Write index {new_name} instead of {index} into the definition.", err=True)


def _wanted(live: Live, defined: Table | None, old: str, new: str, said: Said, no_sort_key: bool) -> Index:
    """The new index: as it was said, else as it is defined under either name, else as it is already."""
    there = live.table.index(old)
    ready = live.table.index(new)
    by_new = None if defined is None else defined.index(new)
    by_old = None if defined is None else defined.index(old)
    base = there or ready or by_new or by_old
    if base is None:
        raise IndexRefused(live.facts.name, old, "there is no such index", "Use `penstock tables add-index`")
    if said.anything or no_sort_key:
        key = Key(said.hash or base.key.hash, () if no_sort_key else said.range or base.key.range)
        return replace(base, name=new, key=key, projection=said.projection or base.projection)
    found = by_new or (by_old if by_old is not None and by_old.shape != base.shape else None) or ready
    if found is None:
        step = "Say what changes: --partition-key, --sort-key, --no-sort-key, --projection-type"
        raise IndexRefused(live.facts.name, old, "it is as it is defined", step)
    return replace(found, name=new)
