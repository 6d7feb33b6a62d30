"""`penstock records`: the records of a table through a function, in parallel."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import click

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import INTERRUPTED, WORK_FAILED, end_with
from penstock.cli.kit.options import (
    confirm,
    db_option,
    dry_run_option,
    json_option,
    parse_pairs,
    parse_value,
    resumable,
    same_command,
    yes_option,
)
from penstock.cli.kit.output import ProgressLine, one_line, print_json, print_result
from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.extras import extra
from penstock.leases import DEFAULT_LEASE_SECONDS, LONGEST_LEASE_SECONDS, SHORTEST_LEASE_SECONDS
from penstock.records.executors import ExecutorOrMaker, Function, check_function, process_pool
from penstock.records.failed_records import FailureGroup
from penstock.records.forks import for_handlers, not_in_children
from penstock.records.processor import MOST_WORKERS, RecordProcessor
from penstock.records.record_state import BOOKKEEPING
from penstock.records.run.report import Progress, Report, seconds_text
from penstock.records.run_records import process_recorded
from penstock.records.source import key_type
from penstock.user_modules import NotAPlace, load_attribute

_SHOWN_ERRORS = 10
_SHOWN_EXAMPLES = 2
_BAR_WIDTH = 24
_DASK_SECONDS = 10

table_argument = click.argument("table", metavar="TABLE", shell_complete=complete_tables)
bookkeeping_option = click.option(
    "--bookkeeping", default=BOOKKEEPING, show_default=True, metavar="NAME",
    help="The attribute of a record that has its lease and its attempts.",
)  # fmt: skip


@groups.group("records", exit_codes={WORK_FAILED: "some records failed"})
def command() -> None:
    """Process every pending record of a table, in parallel: none twice at once, none lost.

    \b
    Examples:
      penstock records process Records work:handle --db app.db \\
          --index Processed --value 0 --set Processed=1
      penstock records failures Records --db app.db
      penstock records redrive Records --db app.db --kind ValueError
    """


@command.command(
    "process", short_help="Run a function on every pending record.", exit_codes={WORK_FAILED: "some records failed"}
)
@table_argument
@click.argument("function", metavar="MODULE:FUNCTION")
@db_option()
@click.option("--index", metavar="NAME", help="Take the records of this index.")
@click.option("--value", "values", multiple=True, metavar="VALUE", help="A value of its partition key; repeatable.")
@click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only records with this value; repeatable.")
@click.option("--set", "marks", multiple=True, metavar="NAME=VALUE", help="Set in a record when it is done.")
@click.option("--remove", multiple=True, metavar="NAME", help="Removed from a record when it is done.")
@click.option("--workers", type=click.IntRange(1, MOST_WORKERS), help="Records at once. [5, or twice the processes]")
@click.option("--retries", type=click.IntRange(0), default=3, show_default=True, help="Further attempts of a record.")
@click.option(
    "--lease", type=click.FloatRange(SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS), metavar="SECONDS",
    default=DEFAULT_LEASE_SECONDS, show_default=True,
    help="How long until other processes may take a dead process's records.",
)  # fmt: skip
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="A record that takes longer has failed.",
)
@click.option(
    "--grace", type=click.FloatRange(0), default=30.0, show_default=True, metavar="SECONDS",
    help="How long running records may continue after Ctrl-C.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), help="Run in this many processes: for work that needs the CPU."
)
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, tcp://host:8786.")
@bookkeeping_option
@dry_run_option
@json_option
def process(table: str, function: str, target: str, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Run a function on every pending record of TABLE; its result, a dict or None, is set in the record.

    Pending are the records of --index with --value, or all of the table, that match --where and do not have the values
    of --set yet. VALUE is JSON, or else text. Without --set and --remove, a record itself notes that it is done.

    \b
    Examples:
      penstock records process Records work:handle --db app.db \\
          --index Processed --value 0 --set Processed=1
      penstock records process Orders work:bill --db aws://eu-west-2 \\
          --where state=paid --set state=billed
      penstock records process Scans work:read_text --db app.db \\
          --processes 4 --timeout 60 --dry-run

    Ctrl-C lets running records finish; run it again to continue. For records that failed in all attempts, see
    `penstock records failures`.
    """
    if options["processes"] and options["dask"]:
        raise click.UsageError("--processes and --dask do not go together: a cluster has its own processes.")
    loaded = load_function(function)
    with open_database(target) as db:
        if dry_run:
            _show_plan(_processor(db, table, options, None), table, function, as_json)
            return
        with _executor(options["processes"], options["dask"], loaded) as executor:
            report = _run(db, _processor(db, table, options, executor), table, function, loaded, options, as_json)
    _show(report, table, target, as_json)
    if report.interrupted:
        end_with(INTERRUPTED)
    if report.failed:
        end_with(WORK_FAILED)


def _processor(db: Database, table: str, options: dict[str, Any], executor: ExecutorOrMaker | None) -> RecordProcessor:
    processes = options["processes"]
    return RecordProcessor(
        db.table(table),
        index=options["index"],
        values=_values(db, table, options["index"], options["values"]),
        where=_condition(options["where"]),
        set=parse_pairs("--set", options["marks"]),
        remove=options["remove"],
        bookkeeping=options["bookkeeping"],
        max_workers=options["workers"] or (min(2 * processes, MOST_WORKERS) if processes else 5),
        max_retries=options["retries"],
        lease_seconds=options["lease"],
        timeout_seconds=options["timeout"],
        grace_seconds=options["grace"],
        executor=executor,
    )


def _values(db: Database, table: str, index: str | None, texts: Sequence[str]) -> list[Any]:
    """Of the index's key: its type says whether `0` is a number or a text."""
    if not texts or index is None:
        return [parse_value(text) for text in texts]
    is_text = key_type(db, table, index) == "S"
    return [text if is_text and not text.startswith('"') else parse_value(text) for text in texts]


def _condition(where: Sequence[str]) -> Condition | None:
    condition: Condition | None = None
    for name, value in parse_pairs("--where", where).items():
        one = F(name) == value
        condition = one if condition is None else condition & one
    return condition


@contextmanager
def _executor(processes: int | None, address: str | None, function: Function) -> Iterator[ExecutorOrMaker | None]:
    if address is not None:
        with _dask(address, function) as executor:
            yield executor
    elif processes:
        yield lambda: process_pool(processes)
    else:
        yield None


@contextmanager
def _dask(address: str, function: Function) -> Iterator[Any]:
    with extra("dask", "--dask"):
        distributed, cloudpickle = import_module("distributed"), import_module("cloudpickle")
    # The cluster's machines need not have the file that the function is in.
    cloudpickle.register_pickle_by_value(sys.modules[function.__module__])
    try:
        client = distributed.Client(address, timeout=_DASK_SECONDS)
    except (OSError, ValueError) as error:
        raise PenstockError(
            f"No Dask scheduler answers at {address} ({error}). Start `dask scheduler` there."
        ) from None
    with client:
        yield client.get_executor()


def _run(
    db: Database,
    processor: RecordProcessor,
    table: str,
    place: str,
    function: Function,
    options: dict[str, Any],
    quiet: bool,
) -> Report:
    total = None if db.capabilities.metered else processor.count()
    bar = Bar(quiet=quiet)
    try:
        with _stopping_on_signals(processor, options["grace"]):
            return process_recorded(
                processor, function, db, table, name=place, index=options["index"], total=total, tell=bar.show
            )
    finally:
        bar.end()


@contextmanager
def _stopping_on_signals(processor: RecordProcessor, grace: float) -> Iterator[None]:
    """The first Ctrl-C, or SIGTERM, stops calmly; the next one at once."""
    stop_processor = for_handlers(processor.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        click.echo(f"\nStopping: running records may finish ({grace:g} s). Once more to end at once.", err=True)
        stop_processor()

    before: dict[signal.Signals, Callable[..., Any] | int | None] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, not_in_children(stop))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Bar(ProgressLine):
    """`[####····] 40 %  4,000 of 10,000 done, 2 failed, 310 a second, 19 s left`; nothing without a terminal."""

    def show(self, progress: Progress, report: Report) -> None:
        if self.is_due():
            self.tell(bar_text(progress))


def bar_text(progress: Progress) -> str:
    parts = [f"{progress.done:,} done"]
    start = ""
    if progress.total:
        part = min((progress.done + progress.failed) / progress.total, 1.0)
        filled = int(part * _BAR_WIDTH)
        start = f"[{'#' * filled}{'·' * (_BAR_WIDTH - filled)}] {part:.0%}  "
        parts = [f"{progress.done:,} of {progress.total:,} done"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    parts.append(f"{progress.rate:,.0f} a second")
    if progress.eta_seconds is not None:
        parts.append(f"{seconds_text(progress.eta_seconds)} left")
    return start + ", ".join(parts)


def _show_plan(processor: RecordProcessor, table: str, place: str, as_json: bool) -> None:
    pending = processor.count()
    text = f"{pending:,} records of {table} are pending: {place} would be run on them. Nothing was changed."
    print_result({"pending": pending, "dry_run": True}, text, as_json=as_json)


def _show(report: Report, table: str, target: str, as_json: bool) -> None:
    if as_json:
        print_json(report.form() | {"errors": [_error_form(one) for one in report.errors]})
    else:
        click.echo(f"{report}.")
        for error in report.errors[:_SHOWN_ERRORS]:
            click.echo(f"  {error}", err=True)
        if report.failed:
            words = shlex.join([table, "--db", target])
            click.echo(f"All that failed:   penstock records failures {words}", err=True)
            click.echo(f"To run them again: penstock records redrive {words}, and this command.", err=True)
    if report.interrupted:
        click.echo(f"What was done is kept. To continue, run it again:\n  {same_command()}", err=True)


def _error_form(error: Any) -> dict[str, Any]:
    key = {name: str(value) for name, value in error.key.items()}
    return {"key": key, "kind": error.kind, "message": error.message, "attempts": error.attempts}


def load_function(place: str) -> Function:
    """The function that `module:name` names."""
    try:
        module, name, loaded = load_attribute(place, what="function", example="work:handle")
    except NotAPlace as error:
        raise click.UsageError(str(error)) from error
    if not callable(loaded):
        raise PenstockError(f"{module.__name__} has no function named {name}.")
    try:
        check_function(loaded)
    except TypeError as error:
        raise PenstockError(f"{place}: {error}.") from error
    function: Function = loaded
    return function


@command.command("failures", short_help="List the records that failed, grouped by their error.")
@table_argument
@db_option()
@bookkeeping_option
@json_option
def failures(table: str, target: str, bookkeeping: str, as_json: bool) -> None:
    """List the records of TABLE that failed in all their attempts, grouped by their error.

    \b
    Example:
      penstock records failures Records --db app.db

    Reads the whole table.
    """
    with open_database(target) as db:
        show_failures(RecordProcessor(db.table(table), bookkeeping=bookkeeping).failures(), as_json)


def show_failures(kinds: Sequence[FailureGroup], as_json: bool) -> None:
    """Records that failed, grouped by their error."""
    if as_json:
        print_json([kind.form() for kind in kinds])
        return
    for kind in kinds:
        _print_group(kind)
    count = sum(kind.count for kind in kinds)
    number = "1 kind" if len(kinds) == 1 else f"{len(kinds):,} kinds"
    click.echo(f"{count:,} failed, {number} of error." if kinds else "No record has failed.")


def _print_group(group: FailureGroup) -> None:
    click.echo(one_line(f"{group.count:>7,}  {group.kind}: {group.message}   (last {utc_text(group.last_at)})"))
    for key, message in group.examples[:_SHOWN_EXAMPLES]:
        name = " ".join(f"{attribute}={value}" for attribute, value in key.items())
        click.echo(one_line(f"         {name}: {message}"))


@command.command("redrive", short_help="Make failed records pending again.")
@table_argument
@db_option()
@click.option("--kind", metavar="KIND", help="Only those with this kind of error, such as ValueError.")
@click.option("--message", metavar="TEXT", help="Only those with this message, as `failures` shows it.")
@click.option("--limit", type=click.IntRange(1), help="At most this many.")
@bookkeeping_option
@dry_run_option
@yes_option
@json_option
def redrive(
    table: str,
    target: str,
    kind: str | None,
    message: str | None,
    limit: int | None,
    bookkeeping: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make failed records of TABLE pending again: the next `penstock records process` runs them, with all attempts.

    \b
    Examples:
      penstock records redrive Records --db app.db --kind ValueError
      penstock records redrive Records --db app.db --limit 10 --yes
    """
    with open_database(target) as db:
        processor = RecordProcessor(db.table(table), bookkeeping=bookkeeping)
        count = processor.count_failures(kind=kind, message=message)
        wanted = count if limit is None else min(count, limit)
        if wanted and not dry_run:
            confirm(f"Make {wanted:,} of {table} pending again?", yes=yes)
            with resumable("what was redriven is pending, the rest has failed as before."):
                wanted = processor.redrive(kind=kind, message=message, limit=limit)
    if as_json:
        print_json({"redriven": 0 if dry_run else wanted, "failed": count, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"{wanted:,} would be pending again. Nothing was changed.")
    elif wanted:
        again = "is pending again: `penstock records process` runs it" if wanted == 1 else _AGAIN
        click.echo(f"{wanted:,} {again}.")
    elif kind is not None or message is not None:
        click.echo(f"None has failed with such an error: `penstock records failures {table}` shows those that have.")
    else:
        click.echo("None has failed.")


_AGAIN = "are pending again: `penstock records process` runs them"
