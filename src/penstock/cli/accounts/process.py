"""`penstock accounts process`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import SOME_FAILED, Place, placed
from penstock.cli.conversation import dry_run_option, json_option, show_json
from penstock.cli.lazy import INTERRUPTED
from penstock.cli.tables.screen import Line
from penstock.records.attempts import Function, check_function
from penstock.records.report import Progress, Report
from penstock.records.run import Interrupted
from penstock.systems.account_records.services.record_processor import RecordProcessor
from penstock.tables.loading import LoadingError, named_object

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
    handle = _named(function)
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
        line = Line(quiet=as_json)
        try:
            report = processor.process_all(handle, progress=lambda progress, _: line.tell(_text(progress)))
        except Interrupted as stopped:
            line.end()
            _show(stopped.report, as_json)
            click.echo("Run it again: it goes on with what is left.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        line.end()
    _show(report, as_json)
    if report.failed:
        raise click.exceptions.Exit(SOME_FAILED)


def _named(given: str) -> Function:
    module, _, attribute = given.partition(":")
    if not module or not attribute:
        raise LoadingError(given, "a function is written MODULE:FUNCTION", "For example mywork:handle")
    found: Function = named_object(given, module, attribute)
    try:
        check_function(found)
    except TypeError as error:
        raise LoadingError(given, str(error), "Name a function of one record") from error
    return found


def _text(progress: Progress) -> str:
    return f"{progress.done:,} done, {progress.failed:,} failed, {progress.rate:,.0f} a second"


def _show_count(count: int, as_json: bool) -> None:
    if as_json:
        show_json({"dry_run": True, "unprocessed": count})
    else:
        click.echo(f"Would process {count:,} record{'' if count == 1 else 's'}.")


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        errors = [
            {"key": error.key, "kind": error.kind, "message": error.message, "attempts": error.attempts}
            for error in report.errors
        ]
        show_json(report.form() | {"errors": errors})
        return
    for error in report.errors[:_SHOWN_ERRORS]:
        click.echo(f"failed  {error}", err=True)
    if len(report.errors) > _SHOWN_ERRORS:
        click.echo("More: penstock accounts failures", err=True)
    click.echo(str(report))
