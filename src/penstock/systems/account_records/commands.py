"""`penstock accounts`: records of accounts, processed in parallel, and users."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

import click
import orjson

from penstock.cli.kit import databases
from penstock.cli.kit.completion import complete_targets
from penstock.cli.kit.databases import Absent
from penstock.cli.kit.exit_codes import INTERRUPTED, NOT_FOUND, WORK_FAILED, CommandFailed
from penstock.cli.kit.groups import group
from penstock.cli.kit.options import (
    TARGETS,
    confirm,
    database_variable,
    dry_run_option,
    json_option,
    parse_pairs,
    place_options,
    refuse_host,
    resumable,
    yes_option,
)
from penstock.cli.kit.output import count_text, one_line, plain, print_json, print_result
from penstock.cli.records import Bar, load_function, show_failures
from penstock.cli.tables.options import layout_option
from penstock.client.database import Database
from penstock.client.items.values import InvalidValue, Item
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.records.executors import Function
from penstock.records.run.report import Report
from penstock.records.run.run import Interrupted
from penstock.records.run_records import process_recorded
from penstock.systems.account_records.config import DEFAULTS, EXAMPLE, Config
from penstock.systems.account_records.examples import (
    processor_complete_example,
    processor_example,
    record_example,
    user_example,
)
from penstock.systems.account_records.models.record import STATE, RecordMissing, RecordModel, with_state
from penstock.systems.account_records.models.user import UserMissing, UserModel
from penstock.systems.account_records.services.dynamodb import create_tables, open_database
from penstock.systems.account_records.services.record_processor import RecordProcessor
from penstock.systems.csv_files import csv_encoding, csv_reader
from penstock.systems.schema_variants import SchemaVariant

_MAKER = "penstock accounts create-tables"
_SHOWN_ERRORS = 20

_db_option = click.option(
    "--db",
    "target",
    metavar="TARGET",
    callback=refuse_host,
    help=f"The database: {TARGETS}. Also DYNAMODB_ENDPOINT, then PENSTOCK_DB.  [http://localhost:8000]",
    shell_complete=complete_targets,
)
_file_option = click.option(
    "--env-file", metavar="FILE", type=click.Path(dir_okay=False), help="A file of variables. [.env, if it exists]"
)
_adopt_option = click.option(
    "--adopt/--no-adopt",
    default=True,
    help="Find records that other programs put; in the safe layout this reads the whole table. [default]",
)
account_argument = click.argument("account_id", metavar="ACCOUNT")
run_time_argument = click.argument("run_time", metavar="RUNTIME")


@dataclass(frozen=True, slots=True)
class Place:
    """The configuration of a command."""

    config: Config

    @contextmanager
    def database(self, absent: Absent = "refused") -> Iterator[Database]:
        """The database; what is not found ends with its own exit code."""
        try:
            with self._open(absent) as db:
                yield db
        except (RecordMissing, UserMissing) as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error
        except ResourceNotFoundException as error:
            names = f"{self.config.user_table} and {self.config.record_table}"
            raise PenstockError(
                f"{self.config.endpoint} has not both tables, {names}: `{_MAKER}` makes them; USER_TABLE and "
                "RECORD_TABLE say what they are called."
            ) from error

    @contextmanager
    def records(self, *, adopt: bool = True) -> Iterator[RecordModel]:
        with self.database() as db:
            yield RecordModel(db, table=self.config.record_table, adopt=adopt)

    @contextmanager
    def users(self) -> Iterator[UserModel]:
        with self.database() as db:
            yield UserModel(db, table=self.config.user_table)

    @contextmanager
    def _open(self, absent: Absent) -> Iterator[Database]:
        if "://" in self.config.endpoint:
            with open_database(self.config) as db:
                yield db
        else:
            with databases.open_database(self.config.endpoint, absent, maker=_MAKER) as db:
                yield db


def _place(target: str | None, env_file: str | None) -> Place:
    """The system's own variables come before PENSTOCK_DB."""
    config = Config.load(env_file, default_endpoint=database_variable(os.environ))
    return Place(replace(config, endpoint=target) if target else config)


with_place = place_options(_place, _db_option, _file_option)


def line_of(record: Item) -> str:
    """`ACC12345  2026-02-17T12:00:00Z  0  {"DocumentId":"DOC67890"}`; one that failed says so, and why."""
    hidden = ("AccountId", "RunTime", "Processed", STATE)
    rest = {name: plain(value) for name, value in record.items() if name not in hidden}
    state = record.get(STATE, {})
    shown = state.get("state") or record.get("Processed", "-")
    why = f"  {state['kind']}: {state['message']} (attempts: {state['attempts']})" if "kind" in state else ""
    return one_line(f"{record['AccountId']}  {record['RunTime']}  {shown}  {orjson.dumps(rest).decode()}{why}")


@group("accounts", exit_codes={WORK_FAILED: "some records failed", NOT_FOUND: "not found"})
def command() -> None:
    """Manage users and account records, and process records in parallel.

    \b
    Examples:
      penstock serve &                                  # a local DynamoDB on port 8000
      penstock accounts create-tables
      penstock accounts add --account ACC12345 --run-time 2026-02-17T12:00:00Z --set DocumentId=DOC67890
      penstock accounts process mywork:handle --workers 5

    Without --db, the environment or .env configures the database: DYNAMODB_ENDPOINT (else PENSTOCK_DB, else
    http://localhost:8000), AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, USER_TABLE (Users) and RECORD_TABLE
    (Records).
    """


@command.command("create-tables")
@with_place
@layout_option
@dry_run_option
@json_option
def create_tables_command(place: Place, layout: SchemaVariant, dry_run: bool, as_json: bool) -> None:
    """Create the tables Users and Records if they are missing, and wait until they are ready.

    \b
    Examples:
      penstock accounts create-tables
      penstock accounts create-tables --db accounts.db --layout compat

    Existing tables are not changed; `penstock tables plan account-records` shows differences. The safe layout has a
    sparse, sharded index of unprocessed records; compat has one index of the numbers 0 and 1.
    """
    names = (place.config.user_table, place.config.record_table)
    with place.database("empty" if dry_run else "made") as db:
        if dry_run:
            there = set(db.tables())
            made = tuple(name for name in names if name not in there)
        else:
            made = create_tables(db, place.config, layout)
    if as_json:
        print_json({"created": made, "skipped": [name for name in names if name not in made], "dry_run": dry_run})
        return
    for name in names:
        state = ("would be made" if dry_run else "made") if name in made else "is there already"
        click.echo(f"{name}  {state}")


@command.command("env-example")
@json_option
def env_example(as_json: bool) -> None:
    """Print a .env file with the defaults, which fit `penstock serve` on this machine.

    \b
    Examples:
      penstock accounts env-example > .env
    """
    if as_json:
        print_json(DEFAULTS)
    else:
        click.echo(EXAMPLE, nl=False)


@command.command("add")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--account", metavar="ID", help="The AccountId of one record.")
@click.option("--run-time", metavar="TIME", help="Its RunTime, for example 2026-02-17T12:00:00Z.")
@click.option("--set", "texts", multiple=True, metavar="NAME=VALUE", help="Another attribute. May be repeated.")
@with_place
@json_option
def add(
    place: Place,
    file: BinaryIO | None,
    account: str | None,
    run_time: str | None,
    texts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add unprocessed records: one by options, or those of FILE (- is stdin).

    \b
    Examples:
      penstock accounts add --account ACC12345 --run-time 2026-02-17T12:00:00Z --set DocumentId=DOC67890
      penstock accounts add records.csv --db accounts.db

    FILE contains a JSON object, an array of objects, or one object a line, with AccountId, RunTime and other
    attributes. A .csv file has these names in its first line; its encoding and its delimiter are detected. A record
    with the same key is replaced.
    """
    if (file is None) == (account is None and run_time is None):
        raise click.UsageError("Give a FILE of records, or --account and --run-time of one.")
    shown: list[dict[str, Any]] = []
    number = 0
    with place.records() as records, resumable("Records that were added are replaced."):
        for where, form in _forms(file) if file is not None else [("", _form(account, run_time, texts))]:
            try:
                added = records.put_item(form)
            except InvalidValue as error:
                if not where:
                    raise
                before = count_text(number, "record")
                raise PenstockError(
                    f"{where}: {error}. Added before it: {before}. Correct it and run again."
                ) from error
            number += 1
            if as_json:
                shown.append(plain(added))
    print_result(shown, f"Added {count_text(number, 'record')}.", as_json=as_json)


def _form(account: str | None, run_time: str | None, texts: tuple[str, ...]) -> dict[str, Any]:
    return {"AccountId": account, "RunTime": run_time, "Processed": 0, **parse_pairs("--set", texts)}


def _forms(file: BinaryIO) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with its place. A line at a time, unless the file is one document."""
    if str(getattr(file, "name", "")).lower().endswith(".csv"):
        yield from _csv_forms(file)
        return
    first = file.readline()
    try:
        whole = orjson.loads(first)
    except orjson.JSONDecodeError:
        whole = _parse_json(first + file.read(), "the file")
    for number, form in enumerate(whole if isinstance(whole, list) else [whole], start=1):
        yield f"record {number}", _check_record(form, f"record {number}")
    for number, line in enumerate(file, start=2):
        if line.strip():
            yield f"line {number}", _check_record(_parse_json(line, f"line {number}"), f"line {number}")


def _csv_forms(file: BinaryIO) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a CSV file as texts; an empty cell is no attribute, and Processed is a number."""
    data = file if file.seekable() else io.BytesIO(file.read())
    text = io.TextIOWrapper(data, csv_encoding(data), errors="replace", newline="")
    rows = csv_reader(text)
    names: list[str] = next(rows, [])
    missing = [name for name in ("AccountId", "RunTime") if name not in names]
    if missing:
        raise PenstockError(f"The first line of the file has no column {missing[0]}. Name the columns there.")
    for cells in rows:
        if len(cells) > len(names):
            raise PenstockError(f"line {rows.line_num} has more cells than the first line has names")
        form: dict[str, Any] = {name: value for name, value in zip(names, cells, strict=False) if value}
        if not form:
            continue  # an empty line
        state = form.get("Processed", "0")
        yield f"line {rows.line_num}", form | {"Processed": int(state) if state in ("0", "1") else state}


def _check_record(form: Any, where: str) -> dict[str, Any]:
    if not isinstance(form, dict):
        raise PenstockError(f"{where}: a record is a JSON object, not {type(form).__name__}")
    return form


def _parse_json(text: bytes, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise PenstockError(f"{where} is no JSON: {error}") from error


@command.command("list")
@with_place
@click.option("--processed", "state", flag_value="processed", help="Processed records.")
@click.option("--unprocessed", "state", flag_value="unprocessed", default=True, help="Unprocessed records. [default]")
@click.option("--failed", "state", flag_value="failed", help="Records that failed permanently; reads the whole table.")
@click.option("--account", metavar="ID", help="All records of an account, sorted by RunTime.")
@click.option("--since", default="", metavar="TIME", help="Only records with this RunTime or a later one.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of records.")
@_adopt_option
@json_option
def list_(
    place: Place, state: str, account: str | None, since: str, limit: int | None, adopt: bool, as_json: bool
) -> None:
    """List records: unprocessed, processed, failed, or of one account. --json prints one record a line.

    \b
    Examples:
      penstock accounts list
      penstock accounts list --processed --limit 100 --json
      penstock accounts list --failed
      penstock accounts list --account ACC12345 --since 2026-02

    A failed record is shown with its error; it is processed again after `penstock accounts redrive`.
    """
    with place.records(adopt=adopt) as records:
        queries = {
            "processed": records.query_processed,
            "unprocessed": records.query_unprocessed,
            "failed": records.query_failed,
        }
        if account is not None:
            found = records.query_by_account(account, since=since, show=with_state)
        else:
            found = queries[state](since=since, show=with_state)
        number = failed = 0
        for record in islice(found, limit):
            number += 1
            failed += record.get(STATE, {}).get("state") == "failed"
            click.echo(orjson.dumps(plain(record)).decode() if as_json else line_of(record))
    if not as_json:
        more = f", {failed} failed: see `penstock accounts failures`, `redrive`" if failed else ""
        click.echo(f"{count_text(number, 'record')}{more}", err=True)


@command.command("show", exit_codes={NOT_FOUND: "there is no such record"})
@account_argument
@run_time_argument
@with_place
@json_option
def show(place: Place, account_id: str, run_time: str, as_json: bool) -> None:
    """Show a record.

    \b
    Examples:
      penstock accounts show ACC12345 2026-02-17T12:00:00Z
      penstock accounts show ACC12345 2026-02-17T12:00:00Z --json
    """
    with place.records() as records:
        found = records.get_item(account_id, run_time, consistent=True, show=with_state)
        if found is None:
            raise RecordMissing(account_id, run_time)
    print_result(plain(found), line_of(found), as_json=as_json)


@command.command("mark", exit_codes={NOT_FOUND: "there is no such record"})
@account_argument
@run_time_argument
@with_place
@json_option
def mark(place: Place, account_id: str, run_time: str, as_json: bool) -> None:
    """Mark an existing record as processed.

    \b
    Examples:
      penstock accounts mark ACC12345 2026-02-17T12:00:00Z
    """
    with place.records() as records:
        marked = records.mark_as_processed(account_id, run_time)
    print_result(plain(marked), line_of(marked), as_json=as_json)


@command.command("delete", exit_codes={NOT_FOUND: "there is no such record"})
@account_argument
@run_time_argument
@with_place
@dry_run_option
@yes_option
@json_option
def delete(place: Place, account_id: str, run_time: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a record by its exact key.

    \b
    Examples:
      penstock accounts delete ACC12345 2026-02-17T12:00:00Z --dry-run
      penstock accounts delete ACC12345 2026-02-17T12:00:00Z --yes
    """
    with place.records() as records:
        found = records.get_item(account_id, run_time, consistent=True)
        if found is not None and not dry_run:
            confirm(f"Delete {line_of(found)}?", yes=yes)
            found = records.delete_item(account_id, run_time)
        if found is None:
            raise RecordMissing(account_id, run_time)
    if as_json:
        print_json({"dry_run": dry_run, "deleted": plain(found)})
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {line_of(found)}")


@command.command("user", exit_codes={NOT_FOUND: "there is no such user"})
@click.argument("user_id", metavar="USER")
@click.option(
    "--set", "texts", multiple=True, metavar="NAME=VALUE", help="Set an attribute of the user. May be repeated."
)
@with_place
@json_option
def user(place: Place, user_id: str, texts: tuple[str, ...], as_json: bool) -> None:
    """Show a user; with --set, add or change the user first.

    \b
    Examples:
      penstock accounts user 123 --set name=Ada --set email=ada@example.org
      penstock accounts user 123 --json
    """
    changes = parse_pairs("--set", texts)
    with place.users() as users:
        found: dict[str, Any] | None
        if changes:
            try:
                found = users.update_item(user_id, changes)
            except UserMissing:
                found = users.put_item({"id": user_id, **changes})
        else:
            found = users.get_item(user_id, consistent=True)
        if found is None:
            raise UserMissing(user_id)
    print_result(plain(found), orjson.dumps(plain(found)).decode(), as_json=as_json)


@command.command("process", exit_codes={WORK_FAILED: "some records failed"})
@click.argument("function", metavar="MODULE:FUNCTION")
@with_place
@click.option("--workers", type=click.IntRange(1, 1000), default=5, show_default=True, help="Records in parallel.")
@click.option(
    "--retries", type=click.IntRange(0, 1000), default=3, show_default=True, help="Retries of a record that fails."
)
@click.option(
    "--backoff-base-ms", type=click.FloatRange(0), default=100, show_default=True, help="Wait before the first retry."
)
@click.option(
    "--backoff-multiplier", type=click.FloatRange(1), default=2, show_default=True, help="Factor for each further wait."
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit of one attempt."
)
@_adopt_option
@dry_run_option
@json_option
def process(
    place: Place,
    function: str,
    workers: int,
    retries: int,
    backoff_base_ms: float,
    backoff_multiplier: float,
    timeout: float | None,
    adopt: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a function on every unprocessed record, in parallel, and mark the record as processed.

    \b
    Examples:
      penstock accounts process mywork:handle
      penstock accounts process mywork:handle --workers 20 --retries 5 --db accounts.db --json

    The function (def or async def) receives a record as a dict. Records that other programs put with Processed 0 are
    processed too. If the function raises, that record is retried, and then fails (`penstock accounts failures`,
    `redrive`). Several processes may run in parallel; each record is leased to one of them.
    """
    handle = load_function(function)
    with place.records(adopt=adopt) as records:
        processor = RecordProcessor(
            records,
            max_workers=workers,
            max_retries=retries,
            backoff_base_ms=backoff_base_ms,
            backoff_multiplier=backoff_multiplier,
            timeout_seconds=timeout,
        )
        if dry_run:
            count = processor.count()
            text = f"Would process {count_text(count, 'record')}."
            print_result({"dry_run": True, "unprocessed": count}, text, as_json=as_json)
            return
        report = _run(processor, function, handle, as_json)
    _show(report, as_json)
    if report.interrupted:
        click.echo("Run it again to continue with the remaining records.", err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    if report.failed:
        raise click.exceptions.Exit(WORK_FAILED)


def _run(processor: RecordProcessor, place: str, function: Function, quiet: bool) -> Report:
    """The run, with its bar and its entry in the log of runs; Ctrl-C ends it with what was done so far."""
    bar = Bar(quiet=quiet)
    table = processor.model.table
    try:
        return process_recorded(processor, function, table.database, table.name, name=place, tell=bar.show)
    except Interrupted as stopped:
        return replace(stopped.report, interrupted=True)
    finally:
        bar.end()


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        errors = [
            {"key": error.key, "kind": error.kind, "message": error.message, "attempts": error.attempts}
            for error in report.errors
        ]
        print_json(report.form() | {"errors": errors})
        return
    for error in report.errors[:_SHOWN_ERRORS]:
        click.echo(f"failed  {error}", err=True)
    if len(report.errors) > _SHOWN_ERRORS:
        click.echo("More: penstock accounts failures", err=True)
    click.echo(str(report))


@command.command("failures")
@with_place
@json_option
def failures(place: Place, as_json: bool) -> None:
    """List records that failed permanently, grouped by the kind and message of their error.

    \b
    Examples:
      penstock accounts failures
      penstock accounts failures --db accounts.db --json

    They are processed again after `penstock accounts redrive`.
    """
    with place.records() as records:
        show_failures(RecordProcessor(records).failures(), as_json)


@command.command("redrive")
@with_place
@click.option("--kind", metavar="NAME", help="Only records with this kind of error, for example TimeoutError.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of records.")
@dry_run_option
@json_option
def redrive(place: Place, kind: str | None, limit: int | None, dry_run: bool, as_json: bool) -> None:
    """Make failed records unprocessed again, with all their attempts.

    \b
    Examples:
      penstock accounts redrive --kind TimeoutError --dry-run
      penstock accounts redrive --limit 100

    `penstock accounts process` then processes them.
    """
    with place.records() as records:
        processor = RecordProcessor(records)
        if dry_run:
            count = processor.count_failures(kind=kind)
            number = count if limit is None else min(count, limit)
        else:
            number = processor.redrive(kind=kind, limit=limit)
    text = f"{'Would redrive' if dry_run else 'Redrove'} {count_text(number, 'record')}."
    print_result({"dry_run": dry_run, "redriven": number}, text, as_json=as_json)


_OF_RECORDS: dict[str, Callable[[RecordModel, Callable[[str], None]], None]] = {
    "record": record_example.run,
    "processor": processor_example.run,
    "complete": processor_complete_example.run,
}


@command.command("example")
@click.argument("name", type=click.Choice(["user", *_OF_RECORDS]))
@with_place
@json_option
def example(place: Place, name: str, as_json: bool) -> None:
    """Run an example on the configured tables: it writes a few items, and prints what it does.

    \b
    Examples:
      penstock accounts example record
      penstock accounts example complete --db accounts.db

    The code is in penstock/systems/account_records/examples.
    """
    lines: list[str] = []
    say = lines.append if as_json else click.echo
    if name == "user":
        with place.users() as users:
            user_example.run(users, say)
    else:
        with place.records() as records:
            _OF_RECORDS[name](records, say)
    if as_json:
        print_json(lines)
