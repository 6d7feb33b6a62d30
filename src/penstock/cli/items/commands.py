"""`penstock items`: the items of a table at hand.

1. On a terminal items are shown as a table, in a pipe as JSON lines; --json and --dynamodb-json are JSON lines on both.
2. Memory is bounded: a page is read, printed and forgotten. When the reader has left (`| head`), reading ends.
3. What DynamoDB charged is told on stderr with --verbose.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any

import click
import orjson

from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import DIFFERENT, NOT_FOUND, CommandFailed
from penstock.cli.kit.grid import Grid
from penstock.cli.kit.groups import Group
from penstock.cli.kit.options import confirm, db_option, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import ProgressLine, count_text, has_reader, print_json, print_result
from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.client.reads.pages import read_pages
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.tables.data.item_requests import (
    Read,
    ReadRequest,
    condition_parts,
    read_request,
    update_request,
    whole_key,
)
from penstock.tables.data.item_text import csv_lines, line_of, plain_item, plain_value, read_csv, read_items
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.survey import require_table
from penstock.wire.values import Item

_SAMPLE_ROWS = 200  # rows that the columns of a table are measured on
_CHUNK = 500  # items written together
_PREVIEW = 5

table_argument = click.argument("table", shell_complete=complete_tables)
key_arguments = click.argument("key", nargs=-1, metavar="[NAME=VALUE]…")
where_option = click.option(
    "--where", "--filter", "where", metavar="CONDITION",
    help="Only items of which this is true: status = 'open' AND total > 100.",
)  # fmt: skip
exact_option = click.option(
    "--dynamodb-json", "exact", is_flag=True, help='DynamoDB\'s JSON, exact: {"id": {"N": "1"}}.'
)
csv_option = click.option("--csv", "as_csv", is_flag=True, help="CSV with typed columns (id:S,total:N), exact.")
index_option = click.option("--index", metavar="NAME", help="Read this index.")
sort_option = click.option(
    "--sk", "sort", metavar="CONDITION", help="On the sort key: '>= X', 'begins_with X', 'between X and Y'."
)
consistent_option = click.option("--consistent", is_flag=True, help="A strongly consistent read.")
verbose_option = click.option("--verbose", "-v", is_flag=True, help="Say on stderr what was read, and what it cost.")
segments_option = click.option(
    "--segments", type=click.IntRange(1, 1000), default=1, show_default=True, help="Parts that are scanned in parallel."
)


@click.group(
    "items",
    cls=Group,
    exit_codes={
        NOT_FOUND: "no such item (get, update, delete)",
        DIFFERENT: "some were there already (put --if-absent)",
    },
)
def command() -> None:
    """The items of a table: get, put, query, scan, count, update and delete.

    Tables have their physical names. A key is NAME=VALUE, with the type that the table's schema says. On a terminal
    items are shown as a table, in a pipe as JSON lines.

    \b
    Examples:
      penstock items get orders customer=c1 number=42 --db shop.db
      penstock items query orders customer=c1 --sk '>= 40' --where "status = 'open'"
      penstock items scan orders --columns customer,total | head -3
    """


# ── what is read ─────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Cost:
    """What a command has read, and what DynamoDB charged for it."""

    scanned: int = 0
    given: int = 0
    requests: int = 0
    units: float = 0.0

    def add(self, answer: dict[str, Any]) -> None:
        self.requests += 1
        self.scanned += answer.get("ScannedCount", 0)
        self.given += answer.get("Count", 0)
        self.units += float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0))

    def tell(self, verbose: bool) -> None:
        if verbose:
            click.echo(
                f"{self.given:,} of {self.scanned:,} items read, {count_text(self.requests, 'request')}, "
                f"{self.units:g} capacity units",
                err=True,
            )


@dataclass(slots=True)
class Reader:
    """The pages of a read, at most `limit` items of them."""

    db: Database
    read: ReadRequest
    limit: int | None = None
    segments: int = 1
    cost: Cost = field(default_factory=Cost)

    def pages(self) -> Iterator[list[Item]]:
        left = self.limit
        for answer in self.answers():
            items: list[Item] = answer.get("Items", [])
            if left is not None:
                items, left = items[:left], left - len(items[:left])
            yield items
            if left == 0 or not has_reader():
                return

    def answers(self) -> Iterator[dict[str, Any]]:
        request = {**self.read.request, "ReturnConsumedCapacity": "TOTAL"}
        if self.limit is not None and "FilterExpression" not in request:
            request["Limit"] = self.limit
        pages = (
            read_pages(self.db.execute, self.read.operation, request)
            if self.segments == 1 or not self.read.is_scan
            else self._side_by_side(request)
        )
        for answer in pages:
            self.cost.add(answer)
            yield answer

    def _side_by_side(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A page of each segment at a time; `width` of them are in memory."""
        places, width = Places(self.segments), self.db.capabilities.parallel_calls
        with ThreadPoolExecutor(width, thread_name_prefix="penstock-scan") as pool:
            while unread := places.unread[:width]:
                asked = [{**request, "Segment": one, "TotalSegments": self.segments} for one in unread]
                for one, body in zip(unread, asked, strict=True):
                    if places.starts[one] is not None:
                        body["ExclusiveStartKey"] = places.starts[one]
                for one, answer in zip(
                    unread, pool.map(lambda body: self.db.execute("Scan", body), asked), strict=True
                ):
                    yield answer
                    places.starts[one] = answer.get("LastEvaluatedKey")
                    if places.starts[one] is None:
                        places.read.add(one)


def _look(db: Database, name: str) -> Table:
    """The table under its physical name."""
    table = require_table(db, name, settings=False).table
    return table if table.name == name else table.replace(name=name)


# ── how it is shown ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class View:
    """--json, --dynamodb-json, --table and --columns."""

    as_json: bool
    exact: bool
    as_table: bool
    as_csv: bool = False
    columns: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        if self.as_json or self.exact or self.as_csv:
            return False
        return self.as_table or sys.stdout.isatty()

    def show(self, pages: Iterable[list[Item]], first: Sequence[str]) -> int:
        """Prints the items; returns how many."""
        if self.is_table:
            return show_table(pages, first, self.columns)
        count = 0
        if self.as_csv:
            for line in csv_lines((item for page in pages for item in page), first):
                count += 1
                click.echo(line, nl=False)
                if not has_reader():
                    break
            return count
        for page in pages:
            if page:
                click.echo("\n".join(line_of(item, exact=self.exact) for item in page))
            count += len(page)
            if not has_reader():
                break
        return count


def show_table(pages: Iterable[list[Item]], first: Sequence[str], columns: Sequence[str] = ()) -> int:
    """Items in columns. How many, and what is not shown, is told on stderr."""
    count, unseen = print_rows(pages, first, columns)
    if not count:
        click.echo("No items.", err=True)
    elif has_reader():
        hidden = f"; not shown: {', '.join(unseen)} (--columns, --json)" if unseen else ""
        click.echo(f"{count_text(count, 'item')}{hidden}", err=True)
    return count


def print_rows(
    pages: Iterable[list[Item]], first: Sequence[str], columns: Sequence[str] = ()
) -> tuple[int, Sequence[str]]:
    """Items in columns: those of the key first, then the most frequent. Returns how many, and what is not shown."""
    items = (item for page in pages for item in page)
    sample = list(islice(items, _SAMPLE_ROWS))
    if not sample:
        return 0, ()
    names = list(columns) or _column_names(sample, first)
    numbers = [all("N" in item.get(name, {"N": ""}) for item in sample) for name in names]
    grid = Grid(names, [_cells(item, names) for item in sample], numbers=numbers)
    click.echo(grid.header())
    unseen: set[str] = set() if columns else set(grid.hidden)
    count = 0
    for item in sample:
        click.echo(grid.row(_cells(item, names)))
        count += 1
    for item in items:
        click.echo(grid.row(_cells(item, names)))
        count += 1
        unseen.update(() if columns else (name for name in item if name not in names and len(unseen) < 50))
        if not has_reader():
            break
    return count, sorted(unseen)


def _column_names(sample: Sequence[Item], first: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    for item in sample:
        for name in item:
            counts[name] = counts.get(name, 0) + 1
    leading = [name for name in dict.fromkeys(first) if name in counts]
    return [*leading, *sorted((one for one in counts if one not in leading), key=lambda one: (-counts[one], one))]


def _cells(item: Item, names: Sequence[str]) -> list[str]:
    return [cell_text(item[name]) if name in item else "" for name in names]


def cell_text(value: dict[str, Any]) -> str:
    """A text as it is; anything else as plain JSON."""
    return str(value["S"]) if "S" in value else orjson.dumps(plain_value(value)).decode()


def view_options(function: Callable[..., None]) -> Callable[..., None]:
    """--json, --dynamodb-json, --table and --columns, given to the command as `view`."""

    @wraps(function)
    def with_view(as_json: bool, exact: bool, as_table: bool, as_csv: bool, columns: str | None, **rest: Any) -> None:
        names = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
        function(view=View(as_json, exact, as_table, as_csv, names), **rest)

    table = click.option("--table", "as_table", is_flag=True, help="Show a table in a pipe too.")
    chosen = click.option("--columns", metavar="A,B", help="Only these attributes.")
    return chosen(table(json_option(exact_option(csv_option(with_view)))))


# ── reading commands ─────────────────────────────────────────────────────────────────────────────


@command.command("get", short_help="Show one item.", exit_codes={NOT_FOUND: "no such item"})
@table_argument
@key_arguments
@db_option()
@consistent_option
@verbose_option
@view_options
def get(table: str, key: tuple[str, ...], target: str, consistent: bool, verbose: bool, view: View) -> None:
    """Show the item with this key.

    \b
    Examples:
      penstock items get orders customer=c1 number=42 --db shop.db
      penstock items get orders customer=c1 number=42 --columns total --dynamodb-json
    """
    with open_database(target) as db:
        found = _look(db, table)
        request: dict[str, Any] = {"TableName": table, "Key": whole_key(key, found), "ReturnConsumedCapacity": "TOTAL"}
        if view.columns:
            names = {f"#{at}": name for at, name in enumerate(dict.fromkeys(view.columns))}
            request |= {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
        answer = db.execute("GetItem", request | ({"ConsistentRead": True} if consistent else {}))
    item = answer.get("Item")
    cost = Cost()
    cost.add(answer | {"Count": int(item is not None), "ScannedCount": 1})
    cost.tell(verbose)
    if item is None:
        raise CommandFailed(NOT_FOUND, f"{table} has no item {' '.join(key)}.")
    if view.as_table:
        view.show([[item]], found.key.names)
    elif sys.stdout.isatty() and not view.as_json:
        print_json(item if view.exact else plain_item(item))
    else:
        click.echo(line_of(item, exact=view.exact))


@command.command("query", short_help="Show the items of one partition, in order.")
@table_argument
@key_arguments
@sort_option
@where_option
@index_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many items.")
@click.option("--reverse", is_flag=True, help="The last first.")
@consistent_option
@db_option()
@verbose_option
@view_options
def query(
    table: str, key: tuple[str, ...], sort: str | None, where: str | None, index: str | None, limit: int | None,
    reverse: bool, consistent: bool, target: str, verbose: bool, view: View,
) -> None:  # fmt: skip
    """Show the items of one partition of a table or an index, in the order of the sort key.

    \b
    Examples:
      penstock items query orders customer=c1 --sk '>= 40' --limit 10 --db shop.db
      penstock items query orders day=2026-11-18 --index by-day --where "total > 100"

    --where is written as in PartiQL: 'texts' in single quotes, names plain or "quoted".
    """
    if not key:
        raise click.UsageError("A query needs the partition key: NAME=VALUE. `penstock items scan` reads all items.")
    with open_database(target) as db:
        found = _look(db, table)
        asked = Read(key, sort, where, index, view.columns, reverse, consistent)
        reader = Reader(db, read_request(found, asked), limit)
        view.show(reader.pages(), _leading(found, index))
    reader.cost.tell(verbose)


@command.command("scan", short_help="Show every item.")
@table_argument
@where_option
@index_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many items.")
@segments_option
@consistent_option
@db_option()
@verbose_option
@view_options
def scan(
    table: str, where: str | None, index: str | None, limit: int | None, segments: int, consistent: bool, target: str,
    verbose: bool, view: View,
) -> None:  # fmt: skip
    """Show every item of a table or an index, in no order. It reads, and pays for, all of them.

    \b
    Examples:
      penstock items scan orders --limit 5 --db shop.db
      penstock items scan orders --where "attribute_exists(error)" --segments 8 > failed.jsonl
    """
    with open_database(target) as db:
        found = _look(db, table)
        asked = Read((), None, where, index, view.columns, consistent=consistent)
        reader = Reader(db, read_request(found, asked), limit, segments)
        view.show(reader.pages(), _leading(found, index))
    reader.cost.tell(verbose)


def _leading(table: Table, index: str | None) -> tuple[str, ...]:
    chosen = None if index is None else table.index(index)
    return (*(chosen.key.names if chosen else ()), *table.key.names)


@command.command("count", short_help="Count items.")
@table_argument
@key_arguments
@sort_option
@where_option
@index_option
@segments_option
@consistent_option
@db_option()
@verbose_option
@json_option
def count(
    table: str, key: tuple[str, ...], sort: str | None, where: str | None, index: str | None, segments: int,
    consistent: bool, target: str, verbose: bool, as_json: bool,
) -> None:  # fmt: skip
    """Count the items of a table, of an index or of one partition. It reads, and pays for, all of them.

    `penstock tables list` tells DynamoDB's own count, which may be six hours old, without reading.

    \b
    Examples:
      penstock items count orders --segments 8 --db shop.db
      penstock items count orders customer=c1 --where "status = 'open'"
    """
    line = ProgressLine(quiet=as_json)
    with open_database(target) as db, resumable("nothing was changed."):
        live = require_table(db, table, settings=False)
        read = read_request(live.table, Read(key, sort, where, index, consistent=consistent))
        reader = Reader(db, ReadRequest(read.operation, {**read.request, "Select": "COUNT"}), segments=segments)
        for _ in reader.answers():
            line.items(reader.cost.scanned, max(reader.cost.scanned, live.facts.items))
    line.end()
    cost = reader.cost
    print_result({"table": table, "count": cost.given, "scanned": cost.scanned}, str(cost.given), as_json=as_json)
    cost.tell(verbose)


# ── writing commands ─────────────────────────────────────────────────────────────────────────────


@command.command("put", short_help="Write items.", exit_codes={DIFFERENT: "some were there already (--if-absent)"})
@table_argument
@click.argument("item", required=False, metavar="[JSON]")
@click.option(
    "--file", "file", metavar="FILE", help="JSON lines; - is stdin, as it is in place of JSON and without both."
)
@click.option("--if-absent", is_flag=True, help="Leave items that are there as they are.")
@exact_option
@csv_option
@db_option()
@json_option
def put(
    table: str, item: str | None, file: str | None, if_absent: bool, exact: bool, as_csv: bool, target: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Write items, in place of those with their keys: one as JSON, or JSON lines from a file or stdin.

    \b
    Examples:
      penstock items put orders '{"customer": "c1", "number": 42}' --db shop.db
      penstock items scan orders --dynamodb-json | penstock items put copy --dynamodb-json --db other.db

    A number keeps all its digits. A file is checked as a whole before the first item is written; stdin is not.
    """
    if item is not None and file is not None:
        raise click.UsageError("Give an item or --file, not both.")
    if item == "-":  # as `tables load -` has it
        item, file = None, "-"
    if item is None and file is None and sys.stdin.isatty():
        raise click.UsageError("Give an item as JSON, --file FILE, or items on stdin.")
    line = ProgressLine(quiet=as_json)
    with open_database(target) as db, resumable("the items so far are written; writing them again changes nothing."):
        items = ItemTable.of(db, _look(db, table).name)
        types = {one.name: one.type for one in items.key.attributes} if as_csv else None
        read = partial(_read, item, file, exact, types)
        if file not in (None, "-"):
            for _ in _checked(read(), items.key):
                pass
        written = kept = 0
        source = _checked(read(), items.key)
        try:
            while chunk := list(islice(source, _CHUNK)):
                fresh = _put(db, items, chunk, if_absent=if_absent)
                written, kept = written + fresh, kept + len(chunk) - fresh
                line.items(written + kept, written + kept)
        except PenstockError as error:
            before = f" {count_text(written, 'item')} before it: written." if written else " Nothing was written."
            raise PenstockError(f"{error}{before}") from error
    line.end()
    there = f", {kept:,} were there already" if kept else ""
    print_result(
        {"table": table, "written": written, "there": kept},
        f"{count_text(written, 'item')} written{there}",
        as_json=as_json,
    )
    if kept:
        raise click.exceptions.Exit(DIFFERENT)


def _read(item: str | None, file: str | None, exact: bool, types: dict[str, str] | None) -> Iterator[tuple[str, Item]]:
    """Items, each with where it stands; `types` are those of the key, for CSV."""
    if item is not None:
        yield from (("the item", one) for _, one in read_items([" ".join(item.splitlines())], exact=exact, name="JSON"))
        return
    is_stdin = file in (None, "-")
    name = "stdin" if is_stdin else str(file)
    with nullcontext(sys.stdin.buffer) if is_stdin else Path(name).open("rb") as stream:
        if types is None:
            found = read_items(stream, exact=exact, name=name)
        else:
            lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            found = read_csv(lines, types, name=name)
        yield from ((f"{name}, line {at}", one) for at, one in found)


def _checked(items: Iterable[tuple[str, Item]], key: TableKey) -> Iterator[Item]:
    for where, item in items:
        try:
            key.check_item(item)
        except PenstockError as error:
            looks_exact = all(set(item.get(name, {}).get("M", {})) in ({"S"}, {"N"}, {"B"}) for name in key.names)
            hint = " It looks like DynamoDB's JSON: add --dynamodb-json." if looks_exact else ""
            raise PenstockError(f"{where}: {error}.{hint}") from None
        yield item


def _put(db: Database, items: ItemTable, chunk: Sequence[Item], *, if_absent: bool) -> int:
    """How many were written. Of two with one key the last counts; with `if_absent`, the first."""
    if not if_absent:
        each = {items.text_of(item): item for item in chunk}
        items.write(each.values())
        return len(chunk)
    first = {items.text_of(item): item for item in reversed(chunk)}
    condition = {
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": items.keys[0]},
    }
    requests = [{"TableName": items.name, "Item": item, **condition} for item in first.values()]
    return _send_conditionally(db, "PutItem", requests)


def _send_conditionally(db: Database, operation: str, requests: Sequence[dict[str, Any]]) -> int:
    """How many took effect: a failed condition is no error."""
    calls = [(operation, request) for request in requests]
    if db.capabilities.shares_commits:
        answers: Iterable[Any] = db.execute_together(calls)
    else:
        with ThreadPoolExecutor(db.capabilities.parallel_calls, thread_name_prefix="penstock-write") as pool:
            answers = list(pool.map(lambda call: db.execute_together([call])[0], calls))
    done = 0
    for answer in answers:
        if isinstance(answer, ConditionalCheckFailedException):
            continue
        if isinstance(answer, PenstockError):
            raise answer
        done += 1
    return done


@command.command("delete", short_help="Delete items.", exit_codes={NOT_FOUND: "no such item"})
@table_argument
@key_arguments
@where_option
@click.option("--all", "everything", is_flag=True, help="All items of the table.")
@db_option()
@yes_option
@dry_run_option
@json_option
def delete(
    table: str, key: tuple[str, ...], where: str | None, everything: bool, target: str, yes: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Delete one item, the items of one partition, or those of which --where is true.

    \b
    Examples:
      penstock items delete orders customer=c1 number=42 --db shop.db
      penstock items delete orders --where "status = 'cancelled'" --dry-run
      penstock items delete orders customer=c1 --yes

    What would be deleted is counted and shown before the question. An item that changes meanwhile so that --where is
    no longer true is kept.
    """
    if not (key or where or everything) or (everything and (key or where)):
        raise click.UsageError("Which items? Give a key, --where, or --all.")
    line = ProgressLine(quiet=as_json)
    with open_database(target) as db, resumable("a part of the items is deleted."):
        found = _look(db, table)
        reader = Reader(db, read_request(found, Read(key, None, where, columns=found.key.names, consistent=True)))
        total, preview = 0, list[Item]()
        for page in reader.pages():
            total, preview = total + len(page), [*preview, *page][:_PREVIEW]
            line.items(reader.cost.scanned, reader.cost.scanned)
        line.end()
        if not total:
            if len(key) == len(found.key.names):
                raise CommandFailed(NOT_FOUND, f"{table} has no item {' '.join(key)}.")
        elif not dry_run:
            if not yes and not as_json:
                _show_preview(table, total, preview)
            confirm(f"Delete {count_text(total, 'item')} of {table} in {db.name}?", yes=yes)
        deleted = 0 if dry_run or not total else _delete(db, found, reader.read, where, total, line)
    line.end()
    form = {"table": table, "found": total, "deleted": deleted} | ({"dry_run": True} if dry_run else {})
    kept = f", {total - deleted:,} changed meanwhile and were kept" if deleted < total else ""
    text = (
        f"{count_text(total, 'item')} would be deleted" if dry_run else f"{count_text(deleted, 'item')} deleted{kept}"
    )
    print_result(form, text, as_json=as_json)


def _show_preview(table: str, total: int, preview: Sequence[Item]) -> None:
    for item in preview:
        click.echo(f"  - {' '.join(f'{name}={cell_text(value)}' for name, value in item.items())}", err=True)
    if total > len(preview):
        click.echo(f"  … and {total - len(preview):,} more", err=True)


def _delete(db: Database, table: Table, read: ReadRequest, where: str | None, total: int, line: ProgressLine) -> int:
    """Reads once more, and deletes page by page: each item on the condition that --where is still true."""
    items, done = ItemTable.of(db, table.name), 0
    condition, names = condition_parts(where)
    # Not at a page's pace of 1 MB: keys are small, and each page is deleted before the next is read.
    reader = Reader(db, ReadRequest(read.operation, {**read.request, "Limit": _CHUNK * 4}))
    for page in reader.pages():
        keys = [items.key_of(item) for item in page]
        if condition is None:
            done += items.write((), keys)
        else:
            body = {"TableName": table.name, "ConditionExpression": condition, **names}
            done += _send_conditionally(db, "DeleteItem", [{**body, "Key": key} for key in keys])
        line.items(done, max(done, total))
    return done


@command.command(
    "update", short_help="Change attributes of one item.",
    exit_codes={NOT_FOUND: "no such item, or --where is not true of it"},
)  # fmt: skip
@table_argument
@key_arguments
@click.option("--set", "sets", multiple=True, metavar="ASSIGNMENT", help="total = total + 1; repeatable.")
@click.option("--remove", "removes", multiple=True, metavar="PATH", help="Remove this attribute; repeatable.")
@where_option
@db_option()
@view_options
def update(
    table: str, key: tuple[str, ...], sets: tuple[str, ...], removes: tuple[str, ...], where: str | None, target: str,
    view: View,
) -> None:  # fmt: skip
    """Change attributes of an item that is there, and show it as it is then.

    \b
    Examples:
      penstock items update orders customer=c1 number=42 --set "status = 'paid'" --remove note --db shop.db
      penstock items update orders customer=c1 number=42 --set "n = n + 1" --where "n < 10"
    """
    if not (sets or removes):
        raise click.UsageError("Nothing to change: give --set or --remove.")
    with open_database(target) as db:
        found = _look(db, table)
        request = update_request(found, whole_key(key, found), sets, removes, where)
        try:
            item = db.execute("UpdateItem", {**request, "ReturnValues": "ALL_NEW"})["Attributes"]
        except ConditionalCheckFailedException:
            what = f", or it is not one of which {where!r} is true" if where else ""
            raise CommandFailed(NOT_FOUND, f"{table} has no item {' '.join(key)}{what}. Nothing was changed.") from None
    view.show([[item]], found.key.names)
