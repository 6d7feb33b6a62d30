"""`penstock tables orphans`, and the orphans that a plan tells."""

from __future__ import annotations

import os
from contextlib import suppress

import click

from penstock.cli.kit import groups
from penstock.cli.kit.databases import missing_file, open_database
from penstock.cli.kit.exit_codes import DIFFERENT, FAILED, CommandFailed, end_with
from penstock.cli.kit.options import db_option, json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables.options import NamedTables, tables_options
from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.registry import system_tables
from penstock.tables.definitions.definition import Naming
from penstock.tables.definitions.own_tables import own_tables
from penstock.tables.definitions.sources import load
from penstock.tables.plan.changes import count
from penstock.tables.plan.orphans import MOST_IN_PLAN, Orphans, find_orphans


@groups.command("orphans", exit_codes={DIFFERENT: "there are orphans (with --exit-code)"})
@db_option()
@tables_options
@click.option("--exit-code", is_flag=True, help="Exit with 7 if there are orphans.")
@json_option
def orphans(named: NamedTables, target: str, exit_code: bool, as_json: bool) -> None:
    """List tables that Penstock made for these names, and that no definition names any more.

    \b
    Examples:
      penstock tables orphans mytables:all --db aws://us-east-1 --env staging
      penstock tables orphans mytables:all --db tables.db --json

    A table is found by its tags: ManagedBy=penstock, with the Application (the prefix) and the Environment of these
    names. Read only: no command deletes an orphan by itself. To delete one, define it again and `destroy` it.
    """
    with open_database(target) as db:
        found = _find(db, named)
    if found.unread:
        step = f"`{named.policy_command('orphans')}` writes the policy."
        raise CommandFailed(FAILED, f"The orphans are not known: {found.unread} {step}", step)
    if as_json:
        print_json(found.form())
    else:
        for one in found.tables:
            click.echo(f"{one.name}   made {one.created_at or 'at an unknown time'}")
        click.echo(f"Orphans: {count(len(found.tables), 'table')}.")
    if exit_code and found.tables:
        end_with(DIFFERENT)


def orphans_of_plan(target: str, named: NamedTables) -> Orphans:
    """What a plan tells of them: of a bounded number of tables."""
    if missing_file(target) is not None:
        return Orphans()
    with open_database(target) as db:
        return _find(db, named, most=MOST_IN_PLAN)


def _find(db: Database, named: NamedTables, *, most: int | None = None) -> Orphans:
    known = named.defined | own_tables()
    found = find_orphans(db, named.naming, known, most=most)
    if not found.tables:
        return found
    systems = _system_names(named.naming)  # imports every system: only where there is somebody to recognise
    return Orphans(tuple(one for one in found.tables if one.name not in systems), found.unread, found.left)


def _system_names(naming: Naming) -> frozenset[str]:
    """The tables of the systems that are installed, under the names that they have in this environment."""
    names: set[str] = set()
    systems = system_tables()
    for system in systems:
        for layout in ("safe", "compat"):
            with suppress(PenstockError):  # one whose libraries are missing has made nothing here
                loaded = load(system, systems, layout=layout, variables=os.environ)
                place = Naming(loaded.prefix, naming.environment)
                names |= {place.full_name(table.name) for table in loaded.tables}
    return frozenset(names)
