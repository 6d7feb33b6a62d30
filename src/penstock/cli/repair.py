"""`penstock repair`: what is damaged in a database file, and a new file of what is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from penstock.cli.kit.exit_codes import INTERRUPTED
from penstock.cli.kit.options import confirm, json_option, yes_option
from penstock.cli.kit.output import ProgressLine, count_text, print_json, size_text
from penstock.engine.repair.examine import examine
from penstock.engine.repair.findings import Findings, IndexFindings, TableFindings
from penstock.engine.repair.rescue import Rescued, rescue
from penstock.engine.storage.file_copy import refuse_place

DAMAGED = 3


@click.command("repair")
@click.argument("file")
@click.option("--into", metavar="NEW", help="Write everything that can be read to this new file.")
@yes_option
@json_option
def command(file: str, into: str | None, yes: bool, as_json: bool) -> None:
    """Look for damage in the database FILE: in its pages, and between its tables and their indexes.

    \b
    Examples:
      penstock repair jobs.db
      penstock repair jobs.db --into jobs-repaired.db

    FILE is never changed, and may be in use. --into saves what can be read, makes the indexes anew from the items, and
    says what is lost; then put the new file in the old one's place yourself, with nothing running on it.

    Exit codes: 0 sound (or everything was saved), 1 it could not be examined, 3 damaged (or something was lost).
    """
    line = ProgressLine(quiet=as_json)
    try:
        if into is None:
            _examined(examine(file, lambda what: line.tell(f"examining {what}")), as_json, line)
        else:
            _rescued(file, into, yes, as_json, line)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: nothing was changed, and nothing is left.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _examined(found: Findings, as_json: bool, line: ProgressLine) -> None:
    line.end()
    if as_json:
        print_json(_form(found))
    else:
        _show(found)
    if not found.sound:
        raise click.exceptions.Exit(DAMAGED)


def _rescued(file: str, into: str, yes: bool, as_json: bool, line: ProgressLine) -> None:
    if Path(file).is_file():
        refuse_place(file, into, replace=True)
    if Path(into).exists():
        confirm(f"{into} is there already. Replace it?", yes=yes)
        yes = True
    done = rescue(file, into, replace=yes, tell=lambda what: line.tell(f"at {what}"))
    line.end()
    if as_json:
        form = asdict(done)
        print_json(form | {"before": _form(done.before), "complete": done.complete})
    else:
        _show_rescued(done)
    if not done.complete:
        raise click.exceptions.Exit(DAMAGED)


def _form(found: Findings) -> dict[str, Any]:
    return asdict(found) | {"sound": found.sound}


def _show(found: Findings) -> None:
    size = f"{size_text(found.bytes)}, {count_text(len(found.tables), 'table')}"
    verdict = click.style("sound", fg="green") if found.sound else click.style("damaged", fg="red")
    click.echo(f"{found.path}: {verdict} ({size})")
    width = max((len(_name(table)) for table in found.tables), default=0)
    for table in found.tables:
        first, *others = _lines(table)
        click.echo(f"  {_name(table):<{width}}   {first}")
        for other in others:
            click.echo(f"  {'':<{width}}   {other}")
    for other in found.others:
        click.echo(f"  {other}")
    if not found.sound:
        if found.sqlite and all(table.sound for table in found.tables) and not found.others:
            click.echo(f"  no table is concerned; SQLite says: {found.sqlite[0]}")
        click.echo("Nothing was changed. To save what can be read into a new file:")
        click.echo(f"  penstock repair {found.path} --into NEW")


def _name(table: TableFindings) -> str:
    """Accounts and regions other than a single user's are told."""
    if table.account == "000000000000" and table.region == "us-east-1":
        return table.name
    return f"{table.account}/{table.region}/{table.name}"


def _lines(table: TableFindings) -> Iterator[str]:
    items = count_text(table.items, "item")
    yield f"{items}, sound" if table.sound else f"{items} can be read in place"
    if table.lost_pages:
        yield f"{count_text(table.lost_pages, 'page')} of items cannot be read, nor what is below them"
    if table.loose:
        yield f"{count_text(table.loose, 'item')} can be saved from pages that nothing leads to"
    if table.broken:
        yield f"{count_text(table.broken, 'item')} cannot be what was written"
    if table.known_lost:
        yield f"{count_text(table.known_lost, 'item')} lost, that an index knows of"
    if table.resized:
        yield f"{count_text(table.resized, 'item')} of another size than was noted: something in them may have changed"
    if table.keys:
        yield f"  {_keys(table.keys, table.broken + table.known_lost + table.resized)}"
    if table.expiries:
        yield f"times to live: {table.expiries}"
    for index in table.indexes:
        if not index.sound:
            yield from _index_lines(index)


def _index_lines(index: IndexFindings) -> Iterator[str]:
    faults = []
    if index.lost_pages:
        faults.append(f"{count_text(index.lost_pages, 'page')} cannot be read")
    if index.missing:
        faults.append(f"{count_text(index.missing, 'item')} without a row")
    if index.dangling:
        faults.append(f"{count_text(index.dangling, 'row')} that point at no item")
    if index.wrong:
        faults.append(f"{count_text(index.wrong, 'row')} with other values than the item has")
    yield f"index {index.name}: {', '.join(faults)}"
    if index.keys:
        yield f"  {_keys(index.keys, index.missing + index.dangling + index.wrong)}"


def _keys(keys: list[str], total: int) -> str:
    shown = "; ".join(keys[:3])
    return f"{shown} and {total - 3:,} more" if total > 3 else shown


def _show_rescued(done: Rescued) -> None:
    width = max((len(table.name) for table in done.tables), default=0)
    for table in done.tables:
        told = f"{count_text(table.items, 'item')} saved"
        told += "".join(f", {rows:,} rows in {name}" for name, rows in table.index_rows.items())
        if table.lost or table.lost_pages:
            told += click.style(f"; lost: {_lost(table.lost, table.lost_pages)}", fg="red")
        click.echo(f"  {table.name:<{width}}   {told}")
    for note in done.notes:
        click.echo(f"  {note}")
    what = "everything was saved" if done.complete else "what could be read was saved"
    click.echo(f"{done.copy}: {what} from {done.source}, which is as it was. The new file was examined and is sound.")


def _lost(known: int, pages: int) -> str:
    if not known:
        return f"what was in {count_text(pages, 'page')} of items (no index knows what)"
    return f"{count_text(known, 'item')} at least" if pages else count_text(known, "item")
