"""`penstock tables export`: the definitions of live tables, as files."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables import screen
from penstock.cli.tables.options import Order, ordered, url_option
from penstock.tables.formats.export import DEFAULT_FOLDER, ExportReport, export
from penstock.tables.plan.costs import count


@click.command("export")
@url_option
@ordered
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    metavar="DIR",
    help="The folder.",
)
@click.option("--warm", is_flag=True, help="With warm throughput, which grows by itself.")
@dry_run_option
@json_option
def command(order: Order, url: str, out: Path, warm: bool, dry_run: bool, as_json: bool) -> None:
    """Write the definitions of live tables to a folder: {suffix}.json in AWS's own shape, and table-summary.txt.

    \b
    Examples:
      penstock tables export construction-expenses --url aws://us-east-1
      penstock tables apply infrastructure/schemas --url tables.db --env dev

    Nothing in the database changes. Two exports of the same table are the same bytes. A file is replaced as a whole,
    and never by what could not be read.

    Exit codes: 0 all written, 1 a table is missing or could not be read.
    """
    with open_database(url) as db:
        policy = order.policy_command("export")
        report = export(db, order.tables, order.naming, out, warm=warm, dry_run=dry_run, policy=policy)
    if as_json:
        print_json(_json(report, dry_run))
    else:
        _show(report, out, dry_run)
    if not report.is_whole:
        raise click.exceptions.Exit(1)


def _json(report: ExportReport, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "written": [str(file) for file in report.written],
        "unchanged": [str(file) for file in report.unchanged],
        "missing": list(report.missing),
        "failures": [screen.failure_json(one) for one in report.failures],
        "summary": None if report.summary is None else str(report.summary),
    }


def _show(report: ExportReport, folder: Path, dry_run: bool) -> None:
    for file in report.written:
        click.echo(f"  {file}")
    for name in report.missing:
        click.echo(f"missing {name}: there is no such table; its file is left as it is", err=True)
    screen.show_failures(report.failures)
    if report.summary is None:
        click.echo("The summary is left as it is: not every table could be read.", err=True)
    deed = "would be written" if dry_run else "written"
    told = [f"{count(len(report.written), 'file')} {deed}", f"{len(report.unchanged)} unchanged"]
    told += [f"{len(report.missing)} missing"] if report.missing else []
    told += [f"{len(report.failures)} failed"] if report.failures else []
    click.echo(f"Exported to {folder}: {', '.join(told)}.")
