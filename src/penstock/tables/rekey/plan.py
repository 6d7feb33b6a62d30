"""What a rekey is to make: the new table's definition, checked as far as it can be."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.errors import PenstockError
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Index, Table, attributes_of
from penstock.tables.definitions.export_file import export_text
from penstock.tables.plan.survey import inspect, required
from penstock.tables.rekey.item_mapping import parse_mapping
from penstock.tables.rekey.state import RekeyRun

VIEW = "NEW_AND_OLD_IMAGES"


def plan(db: Database, source: str, into: str, key: str, *, map: str = "", indexes: Iterable[str] = ()) -> RekeyRun:
    """The rekey, checked as far as it can be before anything is done. `key` is "job_id:S,comment_id:N"; an index is
    "name=conversation_id:S,comment_id:N".
    """
    table = required(db, source).table
    if source == into:
        raise PenstockError("DynamoDB cannot alter a primary key in place: give --into another name.")
    if inspect(db, into, settings=False) is not None:
        raise PenstockError(f"There is a table {into} already. Give another name with --into, or delete that one.")
    if table.stream not in (None, VIEW):
        raise PenstockError(
            f"The stream of {source} shows {table.stream}; a rekey needs {VIEW}. Its readers would lose it: "
            f"set the definition's stream to {VIEW} and apply it when they can bear that."
        )
    wanted = new_definition(table, into, key, indexes)
    parse_mapping(map, TableKey.described(_described(table)), TableKey.described(_described(wanted)))
    return RekeyRun(source, into, key, map, list(indexes), export_text(wanted), stream_is_ours=table.stream is None)


def new_definition(old: Table, name: str, key: str, indexes: Iterable[str] = ()) -> Table:
    """The old table's definition with another key. A local index hangs on the partition key: where that changes, it
    becomes a global one with the same key, which answers the same queries.
    """
    parts = attributes_of([part.strip() for part in key.split(",")])
    kept = [_without_local(one) if one.local and one.key.hash != parts[:1] else one for one in old.indexes]
    added = [_index(text) for text in indexes]
    replaced = {one.name for one in added}
    return Table(
        name,
        key=parts,
        indexes=[*(one for one in kept if one.name not in replaced), *added],
        ttl=old.ttl,
        stream=old.stream,
        pitr=old.pitr,
        tags=old.tags,
        billing=old.billing,
        on_demand_max=old.on_demand_max,
        warm=old.warm,
        table_class=old.table_class,
        deletion_protection=old.deletion_protection,
        sse=old.sse,
    )


def _without_local(index: Index) -> Index:
    return Index(index.name, key=index.key, projection=index.projection)


def _index(text: str) -> Index:
    name, equals, key = text.partition("=")
    if not (name and equals and key):
        raise PenstockError(f"--index {text}: write name=partition:S,sort:N.")
    hash_part, *range_part = (part.strip() for part in key.split(","))
    return Index(name, hash_part, range_part)


def _described(table: Table) -> dict[str, object]:
    return aws_shapes.create_request(table, table.name)
