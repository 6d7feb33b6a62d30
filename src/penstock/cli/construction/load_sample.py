"""`penstock construction load-sample`."""

from __future__ import annotations

import click

from penstock.cli.construction.options import opened, place_options
from penstock.cli.kit.options import confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.systems.construction_expenses import sample


@click.command("load-sample")
@place_options
@click.option("--companies", type=click.IntRange(1, 9_999), default=3, show_default=True, help="How many.")
@click.option("--expenses", type=click.IntRange(0, 99_999), default=25, show_default=True, help="Of each company.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another one gives other amounts.")
@dry_run_option
@yes_option
@json_option
def command(
    url: str,
    env: str | None,
    prefix: str | None,
    companies: int,
    expenses: int,
    seed: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the 13 tables where they are missing, and fill them with sample companies.

    \b
    Examples:
      penstock construction load-sample --url expenses.db --yes
      ENVIRONMENT=dev penstock construction load-sample --url http://127.0.0.1:8000 --companies 100

    All ids begin with `sample-`: nothing else is touched. Paddle's tables are filled by its webhooks; one of them is
    wrong, and ends in the dead-letter table.

    Exit codes: 0 done, 1 failed, 2 not confirmed, 130 interrupted.
    """
    size = sample.Size(companies, expenses, seed)
    if dry_run:
        _show({suffix: sum(1 for _ in rows) for suffix, rows in sample.items(size).items()}, as_json, "Would write")
        return
    confirm(f"Write {companies:,} sample companies to {url}?", yes=yes)
    line = ProgressLine(quiet=as_json)
    with opened(url, env, prefix, absent="made") as books, resumable("What is written stays."):
        books.make_tables()
        written = sample.load(books, size, lambda part, text: line.tell(f"{part:4.0%} {text}"))
        line.end()
    _show(written, as_json, "Wrote")


def _show(counts: dict[str, int], as_json: bool, verb: str) -> None:
    if as_json:
        print_json(counts)
        return
    for suffix, count in counts.items():
        click.echo(f"{count:>9,}  {suffix}")
    click.echo(f"{verb} {sum(counts.values()):,} items.")
