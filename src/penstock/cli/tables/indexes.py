"""One index of a live table: add-index and change-index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import FAILED
from penstock.cli.kit.options import confirm, db_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables.gate import allow_destroy_option, confirm_changes, refuse_before_work
from penstock.cli.tables.options import (
    ChangeOptions,
    NamedTables,
    change_options,
    definitions_argument,
    is_named,
    load_tables,
    naming_of,
    naming_options,
    optional_definitions_argument,
)
from penstock.cli.tables.schema import carry_out, confirm_plan, show_plan, survey_json
from penstock.tables.definitions.definition import Attribute, Index, Key, Table
from penstock.tables.indexes import (
    IndexPlan,
    IndexRefused,
    existing,
    plan_addition,
    plan_removal,
    refuse_misfits,
    successor_name,
    warning_of,
)
from penstock.tables.plan.changes import count
from penstock.tables.plan.survey import Live
from penstock.tables.state.locked_apply import survey_again

F = TypeVar("F", bound=Callable[..., Any])

_TYPE = click.Choice(["S", "N", "B"], case_sensitive=False)
_PROJECTION = click.Choice(["ALL", "KEYS_ONLY", "INCLUDE"], case_sensitive=False)

_OPTIONS = (
    click.option("--table", required=True, metavar="NAME", shell_complete=complete_tables, help="The table."),
    click.option("--index", required=True, metavar="NAME", help="The index."),
    click.option("--partition-key", metavar="ATTRIBUTE", help="The index's partition key."),
    click.option("--partition-key-type", type=_TYPE, help="Its type. [S]"),
    click.option("--sort-key", metavar="ATTRIBUTE", help="The index's sort key."),
    click.option("--sort-key-type", type=_TYPE, help="Its type. [S]"),
    click.option("--projection-type", type=_PROJECTION, help="Which attributes the index keeps. [ALL]"),
    click.option("--projection-attributes", metavar="NAMES", help="With INCLUDE: their names, separated by commas."),
    click.option("--force", is_flag=True, help="Make the index even if stored items do not fit it."),
)


def index_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class GivenIndex:
    """The index as the options describe it; None for what they leave out."""

    partition_key: str | None
    partition_key_type: str | None
    sort_key: str | None
    sort_key_type: str | None
    projection_type: str | None
    projection_attributes: str | None

    @property
    def anything(self) -> bool:
        return any((self.partition_key, self.sort_key, self.projection_type, self.projection_attributes))

    @property
    def hash(self) -> tuple[Attribute, ...]:
        return _attribute(self.partition_key, self.partition_key_type)

    @property
    def range(self) -> tuple[Attribute, ...]:
        return _attribute(self.sort_key, self.sort_key_type)

    @property
    def projection(self) -> str | tuple[str, ...] | None:
        names = tuple(name.strip() for name in (self.projection_attributes or "").split(",") if name.strip())
        if self.projection_type == "INCLUDE" and not names:
            raise click.UsageError("INCLUDE needs --projection-attributes: the attributes that the index keeps.")
        if names and self.projection_type not in (None, "INCLUDE"):
            raise click.UsageError(f"--projection-attributes goes with INCLUDE, not with {self.projection_type}.")
        return names or self.projection_type

    def new_index(self, name: str) -> Index:
        return Index(name, key=Key(self.hash, self.range), projection=self.projection or "ALL")


def _attribute(name: str | None, kind: str | None) -> tuple[Attribute, ...]:
    return (Attribute(name, kind or "S"),) if name else ()


def defined_table(named: NamedTables | None, name: str) -> Table | None:
    """The definition of a table that is given by its suffix or its full name."""
    tables = () if named is None else named.tables
    return next((table for table in tables if named is not None and is_named(table, name, named.naming)), None)


def full_name(named: NamedTables | None, name: str) -> str:
    """The table's full name; a table that no definition has is given by its full name."""
    table = defined_table(named, name)
    return name if table is None or named is None else named.naming.full_name(table.name)


@groups.command("add-index", exit_codes={FAILED: "refused or failed"})
@optional_definitions_argument
@db_option()
@naming_options
@index_options
@change_options
def add_index(
    definitions: str | None,
    target: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    table: str,
    index: str,
    force: bool,
    options: ChangeOptions,
    **given: str | None,
) -> None:
    """Check the items of a live table, add one index, and wait until it is ready.

    \b
    Examples:
      penstock tables add-index construction-expenses --db tables.db --table company-users \\
          --index phone-index --partition-key phone
      penstock tables add-index --db aws://us-east-1 --table jobs --index by-due \\
          --partition-key state --sort-key due --sort-key-type N --yes

    The table is one of DEFINITIONS, by suffix or full name; without DEFINITIONS it is a full name. An index that
    DEFINITIONS has needs no key here. An existing index is skipped; if one is being created, the command waits for it.
    Up to 1,000 items are read first: an index whose key has another type than the stored values is refused, because
    every later write of such an item would fail.
    """
    named = None if definitions is None else load_tables(definitions, env=env, prefix=prefix, layout=layout)
    naming = named.naming if named is not None else naming_of(prefix, env)
    wanted = _index_to_add(named, table, index, GivenIndex(**given))
    policy = named.policy_command("add-index") if named is not None else "penstock tables policy"
    with open_database(target) as db:
        live = existing(db, full_name(named, table), policy)
        plan = plan_addition(db, live, wanted, naming)
        if not force:
            refuse_misfits(plan)
        question = f"Add the index to {db.name}?"
        more = index_json(plan)
        if confirm_plan(plan.survey, options, question, show=lambda _: show_index(plan), more=more):
            carry_out(db, plan.survey, options, policy, more=more)


def _index_to_add(named: NamedTables | None, table: str, index: str, given: GivenIndex) -> Index:
    if given.partition_key:
        return given.new_index(index)
    defined = defined_table(named, table)
    index_definition = None if defined is None else defined.index(index)
    if index_definition is None:
        raise click.UsageError(f"No definition has index {index}: give --partition-key.")
    if given.anything:
        raise click.UsageError("The index is defined already: give no key and projection, or all of them.")
    return index_definition


def show_index(plan: IndexPlan) -> None:
    """What the sampled items show, and the plan."""
    if plan.exists:
        state = "is being made, and waited for" if plan.is_building else "is there already"
        click.echo(f"Index {plan.index.name} of {plan.live.facts.name} {state}.")
        return
    assert plan.fit is not None
    fit = plan.fit
    if fit.sampled:
        click.echo(f"Looked at {count(fit.sampled, 'item')}: the index would have {fit.holds:,} of them.")
    for misfit in fit.misfits:
        click.echo(click.style(f"Warning: {misfit}: such items can no longer be written.", fg="yellow"), err=True)
    warning = warning_of(plan)
    if warning is not None:
        click.echo(click.style(f"Warning: {warning}.", fg="yellow"), err=True)
    show_plan(plan.survey.plan)


def index_json(plan: IndexPlan) -> dict[str, Any]:
    fit = plan.fit
    form: dict[str, Any] = {"index": plan.index.name, "existed": plan.exists}
    if fit is not None:
        form |= {"sampled": fit.sampled, "holds": fit.holds, "warning": warning_of(plan)}
        form["misfits"] = [str(one) for one in fit.misfits]
    return form


@groups.command("change-index", exit_codes={FAILED: "refused or failed"})
@definitions_argument
@db_option()
@naming_options
@index_options
@click.option("--to", "successor", metavar="NAME", help="What the new index is called. [the old name with -v2]")
@click.option("--no-sort-key", is_flag=True, help="The new index has no sort key.")
@click.option("--keep-old", is_flag=True, help="Stop when the new index is ready; run it again to drop the old one.")
@allow_destroy_option
@change_options
def change_index(
    definitions: str,
    target: str,
    env: str | None,
    prefix: str | None,
    layout: str,
    table: str,
    index: str,
    force: bool,
    successor: str | None,
    no_sort_key: bool,
    keep_old: bool,
    options: ChangeOptions,
    **given: str | None,
) -> None:
    """Give an index another key or projection: a new index is added, waited for, and then the old one is dropped.

    \b
    Examples:
      penstock tables change-index construction-expenses --db tables.db --table company-expenses \\
          --index invoiceNum-index --projection-type ALL --keep-old
      penstock tables change-index mytables:all --db aws://us-east-1 --table jobs --index by-due --to by-due-v2

    DynamoDB cannot alter an index, and two cannot have one name. Queries work all the while: on the old name until
    it is dropped, on the new one from when it is ready. With --keep-old there is time to move them; the same command
    without it then drops the old index. What is not given is as in the old index, or as DEFINITIONS has it.
    """
    named = load_tables(definitions, env=env, prefix=prefix, layout=layout)
    policy = named.policy_command("change-index")
    new_name = successor or successor_name(index)
    with open_database(target) as db:
        live = existing(db, full_name(named, table), policy)
        wanted = _changed_index(live, defined_table(named, table), index, new_name, GivenIndex(**given), no_sort_key)
        plan = plan_addition(db, live, wanted, named.naming)
        if not force:
            refuse_misfits(plan)
        removal = plan_removal(live, index, named.naming)
        if not options.as_json:
            show_index(plan)
            if not keep_old and not removal.plan.is_empty:
                show_plan(removal.plan)
        if options.dry_run:
            if options.as_json:
                print_json({"add": survey_json(plan.survey), "drop": survey_json(removal)})
            return
        if not keep_old:
            refuse_before_work(removal.plan, options, "With --keep-old, only the new index is made.")
        if not plan.exists:
            confirm(f"Add index {new_name} to {db.name}?", yes=options.yes)
        form = index_json(plan) | {"replaces": index}
        if not plan.exists or live.in_motion or (options.as_json and keep_old):
            carry_out(db, plan.survey, options, policy, more=form, last=keep_old)
            removal = survey_again(db, removal)  # our own index is no change by somebody else
        if keep_old:
            click.echo(f"Both are there. Move the queries from {index} to {new_name}, then run it again.", err=True)
            return
        if not removal.plan.is_empty:
            question = f"{new_name} is ready. Have all queries moved to it, and may {index} be dropped?"
            confirm_changes(removal.plan, question, options)
        if options.as_json or not removal.plan.is_empty:
            carry_out(db, removal, options, policy, more=form)
    click.echo(f"Write index {new_name} instead of {index} into the definition.", err=True)


def _changed_index(
    live: Live, defined: Table | None, old: str, new: str, given: GivenIndex, no_sort_key: bool
) -> Index:
    """The new index: as it was given, else as it is defined under either name, else as it is already."""
    there = live.table.index(old)
    ready = live.table.index(new)
    by_new = None if defined is None else defined.index(new)
    by_old = None if defined is None else defined.index(old)
    base = there or ready or by_new or by_old
    if base is None and live.table.vector_index(old) is not None:
        table = live.facts.name
        instead = (
            f"Define one of another name, `apply` it, and drop the old one with `apply --drop-index {table}.{old}`"
        )
        raise IndexRefused(table, old, "it is a vector index", instead)
    if base is None:
        raise IndexRefused(live.facts.name, old, "there is no such index", "Use `penstock tables add-index`")
    if given.anything or no_sort_key:
        key = Key(given.hash or base.key.hash, () if no_sort_key else given.range or base.key.range)
        return replace(base, name=new, key=key, projection=given.projection or base.projection)
    changed = by_new or (by_old if by_old is not None and by_old.shape != base.shape else None) or ready
    if changed is None:
        step = "Say what changes: --partition-key, --sort-key, --no-sort-key, --projection-type"
        raise IndexRefused(live.facts.name, old, "it is as it is defined", step)
    return replace(changed, name=new)
