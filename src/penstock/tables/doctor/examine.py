"""The doctor's round: definitions, and with a database the live tables and a sample of their items."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.apply.failures import Failure, TablesUnreadable, failure_of
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming
from penstock.tables.doctor.item_rules import ITEM_RULES
from penstock.tables.doctor.rules import Finding, examine, examine_items
from penstock.tables.indexes.item_sample import sample
from penstock.tables.plan.inspect import WORKERS, Live, inspect_every, side_by_side


def examine_definitions(tables: Iterable[Table], naming: Naming) -> tuple[Finding, ...]:
    """What is wrong with definitions, under their full names."""
    return examine(naming.named(table) for table in tables)


def examine_live(db: Database, tables: Iterable[Table], naming: Naming, *, policy: str = "") -> tuple[Finding, ...]:
    """What is wrong with live tables and their items; a table that is missing is examined as it is defined.

    Raises TablesUnreadable with every table that could not be looked at.
    """
    wanted = {naming.full_name(table.name): naming.named(table) for table in tables}
    found = inspect_every(db, wanted, policy=policy)

    def one(name: str) -> tuple[Finding, ...] | Failure:
        live = found[name]
        if live is None:
            missing = Finding("missing", name, None, "note", "the table is not there", "Run `penstock tables apply`")
            return (missing, *examine([wanted[name]]))
        return _examined(db, live, policy)

    rounds = side_by_side(one, list(wanted), WORKERS)
    failures = [one for one in rounds if isinstance(one, Failure)]
    if failures:
        raise TablesUnreadable(failures)
    return tuple(finding for several in rounds if not isinstance(several, Failure) for finding in several)


def _examined(db: Database, live: Live, policy: str) -> tuple[Finding, ...] | Failure:
    table = live.table
    attributes = {one.name for one in table.attributes} | ({table.ttl} if table.ttl else set())
    try:
        items = sample(db, live.facts.name, attributes)
    except PenstockError as error:
        return failure_of(live.facts.name, "reading a sample", error, operation="Scan", policy=policy)
    return (*examine([table]), *examine_items(table, items, ITEM_RULES))
