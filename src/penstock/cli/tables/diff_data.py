"""`penstock tables diff-data`: the items of two tables compared."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.options import pacer_of, permitted, rate_option, url_option
from penstock.tables.data import compare as comparing
from penstock.tables.data.compare import Comparison, Difference
from penstock.tables.data.transfers import ItemTable
from penstock.tables.plan.inspect import required


@click.command("diff-data")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--other-url", metavar="URL", help="The database of B; else that of A.")
@click.option(
    "--show", type=click.IntRange(min=0), default=comparing.SHOWN, show_default=True, help="Differences shown."
)
@click.option("--ignore", multiple=True, metavar="ATTRIBUTE", help="An attribute that does not count.")
@click.option("--segments", type=click.IntRange(1, 1000), default=comparing.SEGMENTS, show_default=True)
@url_option
@rate_option
@json_option
def command(
    first: str,
    second: str,
    other_url: str | None,
    show: int,
    ignore: tuple[str, ...],
    segments: int,
    url: str,
    rate: float | None,
    as_json: bool,
) -> None:
    """Compare the items of two tables with the same key.

    \b
    Examples:
      penstock tables diff-data orders orders-restored --url aws://eu-west-2
      penstock tables diff-data orders orders --url aws://eu-west-2 --other-url local.db --ignore updatedAt

    Read only. Exit code 1 where they differ.
    """
    line = ProgressLine(quiet=as_json)
    with (
        permitted("diff-data", first, second),
        open_database(url) as db,
        nullcontext(db) if other_url is None else open_database(other_url) as other,
        resumable("nothing was changed."),
    ):
        for place, name in ((db, first), (other, second)):
            required(place, name, settings=False)
        found = comparing.compare(
            ItemTable.of(db, first, pacer_of(db, rate)),
            ItemTable.of(other, second, pacer_of(other, rate)),
            segments=segments,
            shown=show,
            ignored=frozenset(ignore),
            progress=line.items,
        )
        if first == second:
            found.first, found.second = f"{first} in {db.name}", f"{second} in {other.name}"
    line.end()
    if as_json:
        shown = [one.form() for one in found.differences]
        print_json(asdict(found) | {"differences": shown, "same": found.same})
    else:
        _show(found)
    if not found.same:
        raise click.exceptions.Exit(1)


def _show(found: Comparison) -> None:
    click.echo(f"{found.first}: {found.first_items:,} items, {found.second}: {found.second_items:,} items")
    if found.same:
        click.echo("The same.")
        return
    click.echo(
        f"{found.only_in_first:,} only in {found.first}, {found.only_in_second:,} only in {found.second}, "
        f"{found.different:,} different"
    )
    for one in found.differences:
        click.echo(f"  {_text(one, found)}")
    rest = found.only_in_first + found.only_in_second + found.different - len(found.differences)
    if rest > 0:
        click.echo(f"  … and {rest:,} more")


def _text(one: Difference, found: Comparison) -> str:
    key = ", ".join(f"{name}={next(iter(value.values()))}" for name, value in one.key.items())
    match one.kind:
        case "only in first":
            return f"- {key}  only in {found.first}"
        case "only in second":
            return f"+ {key}  only in {found.second}"
        case "different":
            return f"~ {key}  {', '.join(one.attributes)}"
