"""`penstock accounts process`."""

from __future__ import annotations

from dataclasses import replace

import click

from penstock.cli.accounts.options import SOME_FAILED, Place, placed
from penstock.cli.kit.exit_codes import INTERRUPTED
from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.kit.output import print_json
from penstock.cli.records.options import load_function
from penstock.cli.records.process import Bar
from penstock.records.executors.attempts import Function
from penstock.records.run.report import Report
from penstock.records.run.run import Interrupted
from penstock.records.run.run_records import recorded
from penstock.systems.account_records.services.record_processor import RecordProcessor

_SHOWN_ERRORS = 20


@click.command("process")
@click.argument("function", metavar="MODULE:FUNCTION")
@placed
@click.option("--workers", type=click.IntRange(1, 1000), default=5, show_default=True, help="Records at once.")
@click.option("--retries", type=click.IntRange(0, 1000), default=3, show_default=True, help="Of a record that fails.")
@click.option("--backoff-base-ms", type=click.FloatRange(0), default=100, show_default=True, help="The first wait.")
@click.option(
    "--backoff-multiplier", type=click.FloatRange(1), default=2, show_default=True, help="Of each further one."
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Of one attempt.")
@dry_run_option
@json_option
def command(
    place: Place,
    function: str,
    workers: int,
    retries: int,
    backoff_base_ms: float,
    backoff_multiplier: float,
    timeout: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a function on every unprocessed record, in parallel, and mark those that are done.

    \b
    Examples:
      penstock accounts process mywork:handle
      penstock accounts process mywork:handle --workers 20 --retries 5 --url accounts.db --json

    The function is given a record as a dict. What it raises concerns that record alone: it is tried again, and then
    parked (`penstock accounts failures`, `redrive`). Any number of these may run at once; none runs a record that
    another one has.

    Exit codes: 0 all done, 3 some records failed, 130 interrupted.
    """
    handle = load_function(function)
    with place.records() as records:
        processor = RecordProcessor(
            records,
            max_workers=workers,
            max_retries=retries,
            backoff_base_ms=backoff_base_ms,
            backoff_multiplier=backoff_multiplier,
            timeout_seconds=timeout,
        )
        if dry_run:
            _show_count(processor.count(), as_json)
            return
        report = _run(processor, function, handle, as_json)
    _show(report, as_json)
    if report.interrupted:
        click.echo("Run it again: it goes on with what is left.", err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    if report.failed:
        raise click.exceptions.Exit(SOME_FAILED)


def _run(processor: RecordProcessor, place: str, function: Function, quiet: bool) -> Report:
    """The run, with its bar and its entry in the log of runs; Ctrl-C ends it with what was done so far."""
    bar = Bar(quiet=quiet)
    table = processor.model.table
    try:
        return recorded(processor, function, table.database, table.name, name=place, tell=bar.tell)
    except Interrupted as stopped:
        return replace(stopped.report, interrupted=True)
    finally:
        bar.end()


def _show_count(count: int, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": True, "unprocessed": count})
    else:
        click.echo(f"Would process {count:,} record{'' if count == 1 else 's'}.")


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
