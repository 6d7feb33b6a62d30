"""What is in a database: list, show, backups, delete-backup.

1. Tables have their physical names. On a terminal they are shown as a table, in a pipe as JSON lines.
2. Items and sizes are DynamoDB's own counts, which may be six hours old; `penstock items count` reads.
3. A table that may not be described is named on stderr; the others are listed, and the exit code is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click
import orjson

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import FAILED, NOT_FOUND, CommandFailed
from penstock.cli.kit.grid import Grid
from penstock.cli.kit.options import db_option, dry_run_option, json_option, yes_option
from penstock.cli.kit.output import count_text, has_reader, one_line, print_json, print_result, size_text
from penstock.cli.tables.gate import NOT_CONFIRMED, Loss, allow_destroy_option, confirm_losses
from penstock.cli.tables.options import policy_hint, table_argument
from penstock.clock import utc_text
from penstock.errors import BackupNotFoundException
from penstock.tables.data import backups as table_backups
from penstock.tables.definitions.definition import Billing, Index, Maximum, Table, VectorIndex
from penstock.tables.plan.failures import Failure
from penstock.tables.plan.survey import Live, inspect_all, require_table

F = TypeVar("F", bound=Callable[..., Any])

_UNKNOWN = "not told by this endpoint"


def view_option(function: F) -> F:
    return click.option("--table", "as_table", is_flag=True, help="Show a table in a pipe too.")(function)


def _is_table(as_json: bool, as_table: bool) -> bool:
    return not as_json and (as_table or sys.stdout.isatty())


def _print_lines(forms: Iterable[dict[str, Any]]) -> None:
    for form in forms:
        click.echo(orjson.dumps(form).decode())
        if not has_reader():
            return


# ── list ─────────────────────────────────────────────────────────────────────────────────────────


@groups.command("list", exit_codes={FAILED: "failed, or a table could not be looked at"})
@click.option("--prefix", default="", metavar="TEXT", help="Only tables whose names begin with it.")
@db_option()
@view_option
@json_option
def list_tables(prefix: str, target: str, as_table: bool, as_json: bool) -> None:
    """List the tables of a database: status, items, size, billing and indexes.

    \b
    Examples:
      penstock tables list --db aws://eu-west-2
      penstock tables list --prefix app-dev- --json | jq -r .name

    Items and size are DynamoDB's own counts, which may be six hours old.
    """
    with policy_hint("list"), open_database(target) as db:
        names = [name for name in db.tables() if name.startswith(prefix)]
        found = inspect_all(db, names, settings=False)
    lives = [one for one in found.values() if isinstance(one, Live)]  # None was deleted meanwhile
    if _is_table(as_json, as_table):
        _show_list(lives, prefix)
    else:
        _print_lines(_row_form(one) for one in lives)
    failures = [one for one in found.values() if isinstance(one, Failure)]
    for failure in failures:
        click.echo(str(failure), err=True)
    if failures:
        raise click.exceptions.Exit(FAILED)


def _row_form(live: Live) -> dict[str, Any]:
    facts = live.facts
    return {
        "name": facts.name,
        "status": facts.status,
        "items": facts.items,
        "bytes": facts.bytes,
        "key": [str(one) for one in live.table.key.attributes],
        "billing": _billing_text(live.table.billing),
        "indexes": [one.name for one in live.table.every_index],
    }


def _show_list(lives: Sequence[Live], prefix: str) -> None:
    if not lives:
        click.echo(f"No tables{f' that begin with {prefix}' if prefix else ''}.", err=True)
        return
    names = ["name", "status", "items", "size", "key", "billing", "indexes"]
    rows = [
        [
            one.facts.name,
            one.facts.status,
            f"{one.facts.items:,}",
            size_text(one.facts.bytes),
            _key_text(one.table.key.attributes),
            _billing_text(one.table.billing),
            ", ".join(index.name for index in one.table.every_index),
        ]
        for one in lives
    ]
    _show_grid(names, rows, numbers=[False, False, True, True])
    total = sum(one.facts.items for one in lives)
    click.echo(f"{count_text(len(lives), 'table')}, {count_text(total, 'item')}", err=True)


def _show_grid(names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool] = ()) -> None:
    grid = Grid(names, rows, numbers=numbers)
    click.echo(grid.header())
    for row in rows:
        click.echo(grid.row(row))
    if grid.hidden:
        click.echo(f"not shown: {', '.join(grid.hidden)} (--json)", err=True)


def _key_text(attributes: Iterable[object]) -> str:
    return ", ".join(str(one) for one in attributes)


def _billing_text(billing: Billing) -> str:
    return billing if isinstance(billing, str) else f"{billing.read} read, {billing.write} write units"


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@groups.command("show")
@table_argument
@db_option()
@view_option
@json_option
def show(table: str, target: str, as_table: bool, as_json: bool) -> None:
    """Show one table: key, indexes, billing, TTL, stream, recovery, tags and protection.

    \b
    Examples:
      penstock tables show orders --db aws://eu-west-2
      penstock tables show orders --json | jq .indexes

    `penstock tables export` writes the same as a definition.
    """
    with policy_hint("show", table), open_database(target) as db:
        live = require_table(db, table)
        description = db.execute("DescribeTable", {"TableName": table})["Table"]
    form = _whole_form(live, description)
    if _is_table(as_json, as_table):
        _show_whole(live, form)
    elif sys.stdout.isatty():
        print_json(form)
    else:
        _print_lines([form])


def _whole_form(live: Live, description: dict[str, Any]) -> dict[str, Any]:
    table, facts = live.table, live.facts
    told = {
        one["IndexName"]: one
        for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes", "VectorIndexes")
        for one in description.get(kind) or ()
    }
    return {
        **_row_form(live),
        "arn": facts.arn,
        "created": _moment(description.get("CreationDateTime")),
        "indexes": [_index_form(one, told.get(one.name, {}), live) for one in table.indexes],
        "vector_indexes": [_vector_form(one, told.get(one.name, {}), live) for one in table.vector_indexes],
        "maximum": _maximum_form(table.on_demand_max),
        "ttl": table.ttl,
        "stream": table.stream,
        "stream_arn": facts.stream_arn,
        "pitr_days": table.pitr,
        "tags": None if table.tags is None else dict(table.tags),
        "deletion_protection": bool(table.deletion_protection),
        "table_class": table.table_class or "STANDARD",
        "sse": table.sse,
        "replicas": [one.get("RegionName") for one in description.get("Replicas") or ()],
        "not_told": sorted(live.unsupported),
    }


def _index_form(index: Index, told: dict[str, Any], live: Live) -> dict[str, Any]:
    status = "CREATING" if index.name in live.facts.filling else told.get("IndexStatus", "ACTIVE")
    return {
        "name": index.name,
        "kind": "local" if index.local else "global",
        "key": [str(one) for one in index.key.attributes],
        "projection": index.projection if isinstance(index.projection, str) else list(index.projection),
        "status": status,
        "items": told.get("ItemCount", 0),
        "bytes": told.get("IndexSizeBytes", 0),
        "billing": None if index.throughput is None else _billing_text(index.throughput),
    }


def _vector_form(index: VectorIndex, told: dict[str, Any], live: Live) -> dict[str, Any]:
    return {
        "name": index.name,
        "attribute": index.attribute,
        "dimensions": index.dimensions,
        "distance": index.distance,
        "partition": None if index.partition is None else str(index.partition),
        "filters": [str(one) for one in index.filters],
        "projection": index.projection if isinstance(index.projection, str) else list(index.projection),
        "status": "CREATING" if index.name in live.facts.filling else told.get("IndexStatus", "ACTIVE"),
        "items": told.get("ItemCount", 0),
        "bytes": told.get("IndexSizeBytes", 0),
    }


def _maximum_form(maximum: Maximum | None) -> dict[str, Any] | None:
    return None if maximum is None else {"read": maximum.read, "write": maximum.write}


def _moment(stamp: Any) -> str | None:
    """Seconds, or the datetime that boto3 makes of them."""
    if stamp is None:
        return None
    return utc_text(stamp.timestamp() if isinstance(stamp, datetime) else float(stamp))


def _show_whole(live: Live, form: dict[str, Any]) -> None:
    table, facts = live.table, live.facts
    click.echo(
        f"{one_line(facts.name)}  {facts.status}  {count_text(facts.items, 'item')}, {size_text(facts.bytes)}"
        f"{'  made ' + form['created'] if form['created'] else ''}"
    )
    rows = [
        ("key", _key_text(table.key.attributes)),
        ("billing", _billing_text(table.billing) + _most_text(table.on_demand_max)),
        ("TTL", table.ttl or _none("ttl", live)),
        ("stream", table.stream or "none"),
        ("recovery", f"{table.pitr} days" if table.pitr else _none("pitr", live)),
        ("protection", "on" if table.deletion_protection else "off"),
        ("encryption", _encryption_text(table, live)),
        ("class", _none("table_class", live) if table.table_class is None else table.table_class),
        ("tags", _tags_text(table, live)),
        ("replicas", ", ".join(form["replicas"])),
        ("ARN", facts.arn),
    ]
    for title, text in rows:
        if text:
            click.echo(f"  {title:<11} {one_line(text)}")
    if not table.indexes and not table.vector_indexes:
        click.echo("  indexes     none")
    if table.indexes:
        click.echo()
        _show_indexes(form)
    if table.vector_indexes:
        click.echo()
        _show_vector_indexes(form)


def _show_indexes(form: dict[str, Any]) -> None:
    names = ["index", "kind", "key", "projection", "status", "items", "size"]
    indexes = [
        [
            one["name"],
            one["kind"],
            ", ".join(one["key"]),
            one["projection"] if isinstance(one["projection"], str) else ", ".join(one["projection"]),
            one["status"],
            f"{one['items']:,}",
            size_text(one["bytes"]),
        ]
        for one in form["indexes"]
    ]
    _show_grid(names, indexes, numbers=[False] * 5 + [True, True])


def _show_vector_indexes(form: dict[str, Any]) -> None:
    names = ["vector index", "vector", "chosen by", "projection", "status", "items", "size"]
    rows = [
        [
            one["name"],
            f"{one['attribute']}[{one['dimensions']}] {one['distance']}",
            ", ".join([*filter(None, [one["partition"]]), *one["filters"]]),
            one["projection"] if isinstance(one["projection"], str) else ", ".join(one["projection"]),
            one["status"],
            f"{one['items']:,}",
            size_text(one["bytes"]),
        ]
        for one in form["vector_indexes"]
    ]
    _show_grid(names, rows, numbers=[False] * 5 + [True, True])


def _none(member: str, live: Live) -> str:
    if member in live.unsupported:
        return _UNKNOWN
    return "STANDARD" if member == "table_class" else "none"


def _most_text(maximum: Maximum | None) -> str:
    if maximum is None:
        return ""
    parts = [f"{value:,} {kind}" for kind, value in (("read", maximum.read), ("write", maximum.write)) if value]
    return f", at most {' and '.join(parts)} units a second" if parts else ""


def _encryption_text(table: Table, live: Live) -> str:
    if isinstance(table.sse, str):
        return f"with the KMS key {table.sse}"
    if "sse" in live.unsupported:
        return _UNKNOWN
    return "with DynamoDB's key in KMS" if table.sse else "with a key that AWS owns"


def _tags_text(table: Table, live: Live) -> str:
    if table.tags:
        return ", ".join(f"{name}={value}" for name, value in sorted(table.tags.items()))
    return _none("tags", live)


# ── backups ──────────────────────────────────────────────────────────────────────────────────────


@groups.command("backups")
@click.argument("table", required=False, shell_complete=complete_tables)
@db_option()
@view_option
@json_option
def backups(table: str | None, target: str, as_table: bool, as_json: bool) -> None:
    """List the backups of a database or of one table, which need not exist any more.

    \b
    Examples:
      penstock tables backups orders --db aws://eu-west-2
      penstock tables backups orders --json | tail -1 | jq -r .arn

    `backup` makes one, `restore NEW --backup ARN` restores it, `delete-backup ARN` deletes it.
    """
    with policy_hint("backups", *(() if table is None else (table,))), open_database(target) as db:
        found = table_backups.list_backups(db, table)
        if not found and table is not None:
            require_table(db, table, settings=False)  # a table with no backups, or a name with a mistake
    forms = [_backup_form(one) for one in found]
    if not _is_table(as_json, as_table):
        _print_lines(forms)
        return
    if not forms:
        click.echo(f"No backups{f' of {table}' if table else ''}.", err=True)
        return
    names = ["table", "name", "status", "made", "size", "kind"]
    rows = [
        [one["table"], one["name"], one["status"], one["created"] or "", size_text(one["bytes"]), one["kind"]]
        for one in forms
    ]
    grid = Grid(names, rows, numbers=[False] * 4 + [True])
    click.echo(grid.header())
    for row, form in zip(rows, forms, strict=True):
        click.echo(f"{grid.row(row)}\n  {form['arn']}")  # whole: it is what the other commands take
    click.echo(count_text(len(forms), "backup"), err=True)


def _backup_form(summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": summary.get("TableName"),
        "name": summary.get("BackupName"),
        "status": summary.get("BackupStatus"),
        "created": _moment(summary.get("BackupCreationDateTime")),
        "expires": _moment(summary.get("BackupExpiryDateTime")),
        "bytes": summary.get("BackupSizeBytes", 0),
        "kind": summary.get("BackupType", "USER"),
        "arn": summary.get("BackupArn"),
    }


@groups.command("delete-backup", exit_codes={NOT_FOUND: "there is no such backup", **NOT_CONFIRMED})
@click.argument("arn")
@db_option()
@dry_run_option
@yes_option
@allow_destroy_option
@json_option
def delete_backup(arn: str, target: str, dry_run: bool, yes: bool, allow_destroy: bool, as_json: bool) -> None:
    """Delete one backup, by its ARN. The table is not touched. Without a terminal to type its name on, give --yes
    --allow-destroy.

    \b
    Examples:
      penstock tables delete-backup arn:aws:dynamodb:eu-west-2:…:table/orders/backup/0173… --db aws://eu-west-2
    """
    with policy_hint("delete-backup", table_backups.table_of(arn)), open_database(target) as db:
        try:
            details = table_backups.describe(db, arn)["BackupDetails"]
            what = f"the backup {details['BackupName']} of {table_backups.table_of(arn)}"
            form = {"arn": arn, "name": details["BackupName"], "table": table_backups.table_of(arn)}
            if dry_run:
                print_result(form | {"dry_run": True}, f"Would delete {what}", as_json=as_json)
                return
            loss = Loss("backup", details["BackupName"], "- backup")
            confirm_losses([loss], f"Delete {what}?", yes=yes, allow_destroy=allow_destroy)
            table_backups.delete(db, arn)
        except BackupNotFoundException:
            step = "`penstock tables backups` lists those that there are."
            raise CommandFailed(NOT_FOUND, f"There is no backup {arn} in {db.name}. {step}", step) from None
    print_result(form, f"Deleted {what}", as_json=as_json)
